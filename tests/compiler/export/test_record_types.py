from typing import Any

import pytest

from tests.support.sequences import SEQUENCE, WITH_IMAGES, sequence
from turnstile.compiler.export.record_types import check_types
from turnstile.compiler.export.records import as_record
from turnstile.compiler.sequence import Parent

RECORD = as_record(SEQUENCE)


def test_the_fields_of_a_sequence_have_their_types() -> None:
    for each in (
        SEQUENCE,
        WITH_IMAGES,
        sequence(parent=Parent("e0.0", 2, "sibling"), rollout_id=None, reward=1),
    ):
        check_types(as_record(each))


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ({"reward": "high"}, "reward is a str, expected float"),
        ({"reward": True}, "reward is a bool, expected float"),
        ({"metadata": None}, "metadata is a NoneType, expected dict"),
        ({"group_id": 1}, "group_id is a int, expected str"),
        ({"finish_reasons": [1, 2]}, r"finish_reasons\[0\] is a int, expected str"),
        ({"finish_reasons": "ab"}, "finish_reasons is a str, expected a list"),
        ({"segment_info": [[False, 2.0]]}, r"segment_info\[0\]\[1\] is a float, expected int"),
        ({"segment_info": [["false", 2]]}, r"segment_info\[0\]\[0\] is a str, expected bool"),
        ({"segment_info": [[False]]}, r"segment_info\[0\] has 1 items, expected 2"),
        ({"weight_versions": [[0, 1]]}, r"weight_versions\[0\]\[1\] is a int, expected str"),
        ({"flags": [1, "a"]}, r"flags\[0\] is a int, expected str"),
        ({"sampling": [None, {}]}, r"sampling\[0\] is a NoneType, expected dict"),
        ({"exchanges": [{"exchange_id": "e1", "choice": "0"}]}, "choice is a str, expected int"),
        ({"exchanges": ["e1"]}, r"exchanges\[0\] is a str, expected dict"),
        ({"parent": "e0.0"}, "parent is a str, expected dict"),
        (
            {"images": [{"sha256": "", "mime": "", "data": "", "token_span": ["0", 1]}]},
            r"token_span\[0\] is a",
        ),
        ({"processed_images": [{"sha256": "", "processor": {}, "tensors": []}]}, "tensors is a list"),
    ],
)
def test_a_field_of_another_type_is_named(fault: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        check_types(RECORD | fault)


def test_a_field_that_is_missing_is_named() -> None:
    with pytest.raises(KeyError, match="flags"):
        check_types({name: value for name, value in RECORD.items() if name != "flags"})
    with pytest.raises(TypeError, match="the record is a list, expected dict"):
        check_types([])
