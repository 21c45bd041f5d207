import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnstile.addon.tracelog.base64_spelling import Spelling, read_spelling

SPELLINGS = st.builds(
    Spelling,
    padded=st.booleans(),
    for_urls=st.booleans(),
    escaped=st.booleans(),
    line=st.sampled_from([0, 16, 76]),
    line_break=st.sampled_from([rb"\n", rb"\r\n"]),
)


@given(st.binary(min_size=1, max_size=300), SPELLINGS)
def test_what_is_spelled_in_one_way_throughout_is_read_and_comes_back(raw: bytes, spelling: Spelling) -> None:
    text = spelling.spell(raw)
    read = read_spelling(text)
    assert read is not None
    assert (read[0], read[1].spell(raw)) == (raw, text)
    assert Spelling.from_fields(read[1].fields()) == read[1]


def test_the_usual_spelling_is_standard_base64() -> None:
    assert Spelling().spell(b"\xff\xfe") == base64.b64encode(b"\xff\xfe")
    assert read_spelling(b"//4=") == (b"\xff\xfe", Spelling())


@pytest.mark.parametrize("text", [b"A", rb"AAAA\nAAAA", rb"AAAA\tAAAA", b"AAA_AAA+", b"QR==", rb"/\/4="])
def test_anything_else_is_none(text: bytes) -> None:
    assert read_spelling(text) is None


@pytest.mark.parametrize(("line", "line_break"), [(1, rb"\n"), (76, b"\\n" * 1000)])
def test_what_would_make_much_of_few_bytes_is_refused(line: int, line_break: bytes) -> None:
    with pytest.raises(ValueError, match="are no spelling"):
        Spelling.from_fields([True, False, False, line, line_break])
