import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnstile.addon.backends.errors import AskingError
from turnstile.addon.backends.json_edit import array_items, edit_object, parse_object
from turnstile.addon.tracelog.records import Splice, spliced


def edited(body: str | bytes, *, remove: tuple[str, ...] = (), **members: Any) -> bytes:
    source = body if isinstance(body, bytes) else body.encode()
    return spliced(source, edit_object(source, set=members, remove=remove))


def test_a_present_member_has_only_its_value_replaced() -> None:
    assert edited('{ "stream" :  true , "n": 1}', stream=False) == b'{ "stream" :  false , "n": 1}'


def test_a_new_member_stands_behind_the_last_one() -> None:
    assert edited('{"n": 1\n}\n', logprobs=True, top=[1]) == b'{"n": 1,"logprobs":true,"top":[1]\n}\n'


@pytest.mark.parametrize("empty", ["{}", " { \n } "])
def test_an_empty_object_gets_members_without_a_comma(empty: str) -> None:
    assert edited(empty, a=1, b=2) == empty.replace("{", '{"a":1,"b":2').encode()


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ('{"a": 1, "x": 2, "b": 3}', '{"a": 1, "b": 3}'),
        ('{"x": 2, "b": 3}', '{"b": 3}'),
        ('{"a": 1, "x": 2 }', '{"a": 1 }'),
        ('{ "x": 2 }', "{  }"),
        ('{"x": 1, "x": 2, "b": 3, "x": 4}', '{"b": 3}'),
        ('{"x": 1 , "y": {"x": 1} , "x": 4}', '{"y": {"x": 1}}'),
    ],
)
def test_a_removed_member_takes_its_comma_with_it(body: str, expected: str) -> None:
    assert edited(body, remove=("x",)) == expected.encode()


def test_members_can_be_removed_and_added_at_once() -> None:
    assert edited('{"x": 2}', remove=("x",), a=1) == b'{"a":1}'
    assert edited('{"x": 2, "b": 1}', remove=("x", "b"), a=1) == b'{"a":1}'
    assert edited('{"b": 1, "x": 2}', remove=("x",), a=1) == b'{"b": 1,"a":1}'


def test_of_a_repeated_key_the_last_is_set_and_the_others_go() -> None:
    assert edited('{"s": 1, "a": 0, "s": 2}', s=3) == b'{"a": 0, "s": 3}'
    assert edited('{"s": 1, "s": true}', s=True) == b'{"s": true}'


@pytest.mark.parametrize("value", [True, False, None, 0, 1, 1.0, "é", 2**70])
def test_a_member_that_has_the_value_already_is_not_touched(value: Any) -> None:
    for ascii_only in (True, False):
        body = json.dumps({"a": [1], "key": value}, ensure_ascii=ascii_only).encode()
        assert edit_object(body, set={"key": value}, remove=()) == ()


@pytest.mark.parametrize(
    ("present", "value"), [("1", True), ("true", 1), ("1.0", 1), ('"1"', 1), ("null", False)]
)
def test_an_equal_value_of_another_type_is_replaced(present: str, value: Any) -> None:
    assert edited(f'{{"key": {present}}}', key=value) == f'{{"key": {json.dumps(value)}}}'.encode()


def test_text_read_as_another_encoding_is_no_match() -> None:
    assert json.loads(edited('{"key": "é"}', key="Ã©")) == {"key": "Ã©"}
    body = '{"é": 1}'.encode()
    assert json.loads(spliced(body, edit_object(body, set={"Ã©": 2}, remove=()))) == {"é": 1, "Ã©": 2}


def test_offsets_count_bytes_not_characters() -> None:
    body = '{"m": "漢字é", "stream": true, "é": "\U0001f600"}'.encode()
    start = body.index(b"true")
    assert edit_object(body, set={"stream": False, "é": 1}, remove=()) == (
        Splice(start, start + 4, b"false"),
        Splice(len(body) - 7, len(body) - 1, b"1"),
    )


def test_what_is_not_touched_keeps_its_bytes() -> None:
    kept = '"big": 123456789012345678901234567890, "lone": "\\ud800", "esc": "\\u0041\\/", "f": 1.50e+2'
    body = f'\ufeff{{"stream": true, {kept}, "nan": NaN}}'
    assert edited(body, stream=False) == body.replace("true", "false").encode()


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "expected '{' at byte 0, found the end"),
        (b"[1]", "expected '{' at byte 0"),
        (b'{"a": 1', "expected ',' at byte 7, found the end"),
        (b'{"a": 1,}', "expected a key in double quotes at byte 8"),
        (b'{"a" 1}', "expected ':' at byte 5"),
        (b'{"a": }', "no JSON"),
        (b'{"a": 1} x', "goes on after its JSON object, at byte 9"),
        (b'{"a": "\n"}', "no JSON"),
        (b'{"\xff": 1}', "not UTF-8"),
        (b'{"a": ' + b"[" * 100_000, "nested too deeply"),
        (b'{"a": ' + b"9" * 5_000 + b"}", "no JSON"),
    ],
)
def test_a_body_that_is_no_json_object_is_refused(body: bytes, reason: str) -> None:
    with pytest.raises(AskingError, match=reason):
        edit_object(body, set={"a": 1}, remove=())


def test_values_are_read_as_they_were_meant() -> None:
    source = parse_object('{"a": "é", "b": 1, "b": "\\ud83d\\ude00"}'.encode())
    assert (source.value("a"), source.value("b"), source.value("c")) == ("é", "\U0001f600", None)


@pytest.mark.parametrize(
    ("array", "items"),
    [
        ('[1 , "]", {"x":[2]},null]', ["1", '"]"', '{"x":[2]}', "null"]),
        ("[ ]", []),
        ('[\n["é"],"漢" ]', ['["é"]', '"漢"']),
    ],
)
def test_the_items_of_an_array_are_found(array: str, items: list[str]) -> None:
    body = f'{{"é": {array}}}'.encode()
    start = body.index(array.encode())
    found = array_items(body, start, len(body) - 1)
    assert [body[item_start:end].decode() for item_start, end in found] == items


KEYS = st.sampled_from(["stream", "n", "é", "漢", 'quo"te', "", "\\"]) | st.text(max_size=3)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3)
)
SPACE = st.sampled_from(["", " ", "\n\t", "  "])


@given(
    members=st.lists(st.tuples(KEYS, VALUES), max_size=6),
    spaces=st.lists(SPACE, min_size=5, max_size=5),
    set_=st.dictionaries(KEYS, VALUES, max_size=4),
    remove=st.lists(KEYS, max_size=3),
    ascii_only=st.booleans(),
)
def test_an_edited_object_is_the_expected_one_and_its_other_members_keep_their_bytes(
    members: list[tuple[str, Any]],
    spaces: list[str],
    set_: dict[str, Any],
    remove: list[str],
    ascii_only: bool,
) -> None:
    before, inside, around_colon, around_comma, after = spaces
    texts = [
        json.dumps(key, ensure_ascii=ascii_only) + around_colon + ":" + around_colon + json.dumps(value)
        for key, value in members
    ]
    body = before + "{" + inside + (around_comma + "," + around_comma).join(texts) + inside + "}" + after
    source = body.encode("utf-8", "surrogatepass")

    result = spliced(source, edit_object(source, set=set_, remove=remove))

    gone = set(remove) - set_.keys()
    assert json.loads(result) == {key: value for key, value in members if key not in gone} | set_
    kept = [text for text, (key, _) in zip(texts, members, strict=True) if key not in gone | set_.keys()]
    at = 0
    for text in kept:
        at = result.index(text.encode(), at) + len(text.encode())
