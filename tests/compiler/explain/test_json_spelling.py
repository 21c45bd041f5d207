import pytest

from turnstile.compiler.explain.json_spelling import spelled_otherwise


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        (b'call {"a":1} end', b'call {"a": 1} end', True),
        (b'call {"a": {"b":[1,2]}}', b'call {"a": {"b": [1, 2]}}', True),
        (b'call {"a":"\\u00e9"}', 'call {"a":"é"}'.encode(), True),
        (b'call {"a":1} end', b'call {"a":2} end', False),
        (b'call {"a":1} end', b'call {"a":1} and', False),
        (b'call {"a":1', b'call {"a": 1}', False),
        (b"no object", b"no  object", False),
        (b'{"a":1}', b'{"a":1}', False),
    ],
)
def test_the_same_json_written_otherwise(one: bytes, other: bytes, is_same: bool) -> None:
    assert spelled_otherwise(one, other) is is_same
