from typing import Any

import numpy as np
import pytest

from turnstile.compiler.token_ids import TokenIdsError, check_ids, ids_from_list


def test_integers_become_an_array() -> None:
    ids_T = ids_from_list([0, 7, 2**31 - 1])
    assert (ids_T.dtype, ids_T.tolist()) == (np.dtype(np.int32), [0, 7, 2**31 - 1])


def test_no_ids_are_ids() -> None:
    assert ids_from_list([]).tolist() == []


@pytest.mark.parametrize(
    ("values", "kind", "message"),
    [
        ([1, 20001.0], "token_type", "id 1 of 2 is the number 20001.0, expected an integer"),
        ([1, "20001"], "token_type", "id 1 of 2 is a str, expected an integer"),
        ([True], "token_type", "id 0 of 1 is a bool, expected an integer"),
        ([None], "token_type", "id 0 of 1 is a NoneType, expected an integer"),
        ([[1]], "token_type", "id 0 of 1 is a list, expected an integer"),
        ([1, 2**31], "token_out_of_range", "id 1 is 2147483648, expected 0 to 2147483647"),
        ([2**70], "token_out_of_range", f"id 0 is {2**70}, expected 0 to 2147483647"),
        ([-(2**40), 1.5], "token_out_of_range", f"id 0 is {-(2**40)}, expected 0 to 2147483647"),
    ],
)
def test_what_is_no_id_is_refused(values: list[Any], kind: str, message: str) -> None:
    with pytest.raises(TokenIdsError) as refused:
        ids_from_list(values)
    assert (refused.value.kind, str(refused.value)) == (kind, message)


@pytest.mark.parametrize(("ids", "index", "found"), [([3, -1], 1, -1), ([10, 3], 0, 10)])
def test_ids_outside_the_vocabulary_are_refused(ids: list[int], index: int, found: int) -> None:
    with pytest.raises(TokenIdsError) as refused:
        check_ids(np.array(ids, np.int32), 10)
    assert refused.value.kind == "token_out_of_range"
    assert str(refused.value) == f"id {index} is {found}, expected 0 to 9"


def test_ids_of_the_vocabulary_pass() -> None:
    check_ids(np.array([0, 9], np.int32), 10)
    check_ids(np.array([], np.int32), 10)
