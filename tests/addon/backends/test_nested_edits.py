import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnstile.addon.backends.json_edit import JsonObject, edits, parse_object
from turnstile.addon.backends.nested_edits import edits_inside, edits_of_items, joined_edits
from turnstile.addon.tracelog.records import Splice, spliced


def inside(body: bytes, **edit: Any) -> bytes:
    return spliced(body, edits_inside(parse_object(body), "a", **({"set": {}, "remove": ()} | edit)))


@pytest.mark.parametrize(
    ("body", "edit", "expected"),
    [
        (b'{"a": {"x": 1 , "y":2}, "b":{"x":1}}', {"remove": ("x",)}, b'{"a": {"y":2}, "b":{"x":1}}'),
        (b'{"b":1, "a" : { } }', {"set": {"x": True}}, b'{"b":1, "a" : {"x":true } }'),
        (b'{"a":{"x":false}}', {"set": {"x": True}}, b'{"a":{"x":true}}'),
        (b'{"a":{"x":1},"a":{"x":2}}', {"remove": ("x",)}, b'{"a":{"x":1},"a":{}}'),
        (b'{"\\u0061":{"x":1},"z":"\xc3\xa9"}', {"remove": ("x",)}, b'{"\\u0061":{},"z":"\xc3\xa9"}'),
        (b'{"a":null}', {"set": {"x": 1}}, b'{"a":null}'),
        (b'{"a":[{"x":1}]}', {"remove": ("x",)}, b'{"a":[{"x":1}]}'),
        (b'{"b":{}}', {"set": {"x": 1}}, b'{"b":{}}'),
    ],
)
def test_an_inner_object_is_edited_in_place(body: bytes, edit: dict[str, Any], expected: bytes) -> None:
    assert inside(body, **edit) == expected


def without_x(item: JsonObject) -> tuple[Splice, ...]:
    return edits(item, set={}, remove=("x",))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"a":[{"x":1}, {"y":2,"x":[{"x":1}]} ]}', b'{"a":[{}, {"y":2} ]}'),
        (b'{"a": [ 1 , null,"{", [{"x":1}],{"x":1}]}', b'{"a": [ 1 , null,"{", [{"x":1}],{}]}'),
        (b'{"a":[ ]}', b'{"a":[ ]}'),
        (b'{"a":{"x":1}}', b'{"a":{"x":1}}'),
        (b"{}", b"{}"),
    ],
)
def test_each_object_of_an_array_is_edited_in_place(body: bytes, expected: bytes) -> None:
    assert spliced(body, edits_of_items(parse_object(body), "a", without_x)) == expected


KEYS = st.sampled_from(["x", "y", "é", "\0"])
VALUES = st.recursive(
    st.none() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["a", "b", "c"]), VALUES), st.booleans())
def test_edits_of_members_and_inside_of_them_go_together(value: dict[str, Any], ascii_only: bool) -> None:
    body = json.dumps(value, ensure_ascii=ascii_only).encode()
    source = parse_object(body)
    inner = [edits_inside(source, "a", set={"x": 1}, remove=("y",)), edits_of_items(source, "b", without_x)]
    edited = json.loads(spliced(body, joined_edits(source, *inner, set={"d": 2}, remove=("c",))))
    expected = {key: each for key, each in value.items() if key != "c"} | {"d": 2}
    if isinstance(of_a := value.get("a"), dict):
        expected["a"] = {key: each for key, each in of_a.items() if key != "y"} | {"x": 1}
    if isinstance(of_b := value.get("b"), list):
        expected["b"] = [
            {key: each for key, each in item.items() if key != "x"} if isinstance(item, dict) else item
            for item in of_b
        ]
    assert edited == expected
