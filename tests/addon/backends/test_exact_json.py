import json
import math
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnstile.addon.backends.exact_json import loads


@pytest.mark.parametrize(
    "text",
    [
        b'{"id":18446744073709551616}',
        b'{"id":-9223372036854775809}',
        b"[123456789012345678901234567890]",
        b'{"text":"\\ud800"}',
        b'[NaN,-Infinity,"\\u00e9"]',
    ],
)
def test_what_orjson_would_change_stays_what_it_was(text: bytes) -> None:
    document = loads(text)
    assert document.dumps(document.value) == text


def test_ordinary_json_goes_through_orjson() -> None:
    text = '{"id":123456789012345678,"p":-0.00012345678901234567,"text":"é"}'.encode()
    document = loads(text)
    assert document.dumps is orjson.dumps
    assert document.dumps(document.value) == text


def test_a_byte_order_mark_is_no_obstacle() -> None:
    assert loads(b'\xef\xbb\xbf{"a":1}').value == {"a": 1}


def test_nan_is_read_as_nan() -> None:
    value = loads(b"[NaN]").value
    assert math.isnan(value[0])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "Expecting value"),
        (b"{", "Expecting property name"),
        (b"data: {}", "Expecting value"),
        (b'"\xff"', "decode byte 0xff"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_what_is_no_json_is_refused(text: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        loads(text)


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    )
)
def test_values_survive_the_way_in_and_out(value: Any) -> None:
    document = loads(json.dumps(value).encode())
    assert repr(json.loads(document.dumps(document.value))) == repr(value)
