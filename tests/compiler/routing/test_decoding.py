import struct
from base64 import b64encode
from typing import Any

import numpy as np
import pytest

from tests.support.routing import encoded, experts, npy
from turnstile.addon.backends.row_placement import DTYPES, UndecodableRouting
from turnstile.compiler.routing.decoding import decoded

FORMATS = {"uint8": "B", "int8": "b", "uint16": "H", "int16": "h", "int32": "i", "int64": "q"}


def text_of(raw: bytes) -> str:
    return b64encode(raw).decode()


def test_ids_without_a_header_are_little_endian_int32() -> None:
    assert decoded(text_of(struct.pack("<3i", 1, 2**31 - 1, -1))).tolist() == [1, 2**31 - 1, -1]
    assert decoded(text_of(struct.pack("<i", 1)), None).tolist() == [1]


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_type_that_is_told_beside_the_ids_is_taken(dtype: str) -> None:
    ids = [0, 1, 127, np.iinfo(dtype).min, np.iinfo(dtype).max]
    assert decoded(text_of(struct.pack(f"<5{FORMATS[dtype]}", *ids)), dtype).tolist() == ids


def test_no_ids_are_no_error() -> None:
    assert decoded("").shape == (0,)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"])
@pytest.mark.parametrize("order", ["<", ">"])
def test_an_npy_file_tells_its_type_and_shape_itself(dtype: str, order: str) -> None:
    array = experts(1, 2, 3).astype(np.dtype(dtype).newbyteorder(order))
    found = decoded(npy(array))
    assert found.shape == (3, 2, 2)
    assert found.tolist() == experts(1, 2, 3).tolist()


def test_a_type_told_beside_an_npy_file_does_not_count() -> None:
    assert decoded(npy(experts(1)), "uint8").tolist() == experts(1).tolist()
    assert decoded(npy(experts(1)), "no type").tolist() == experts(1).tolist()


def test_an_npy_file_in_fortran_order_is_turned_round() -> None:
    found = decoded(npy(np.asfortranarray(experts(1, 2, 3))))
    assert found.flags.c_contiguous
    assert found.tolist() == experts(1, 2, 3).tolist()


@pytest.mark.parametrize(
    ("text", "kind"), [(None, "NoneType"), (7, "int"), (1.5, "float"), ([1], "list"), ({}, "dict")]
)
def test_what_is_no_text_is_refused(text: Any, kind: str) -> None:
    with pytest.raises(UndecodableRouting, match=f"found a JSON {kind}, expected base64 text"):
        decoded(text)


@pytest.mark.parametrize(
    "text", ["!", "AAA", "AAAAA", "AAAA\n", " AAAA", "AA==AA==", "A===", "-_-_", "AAA\u00c4", "\ud800"]
)
def test_what_is_no_base64_is_refused(text: str) -> None:
    with pytest.raises(UndecodableRouting, match="the text is no base64"):
        decoded(text)


def test_bytes_that_are_no_whole_ids_are_refused() -> None:
    with pytest.raises(UndecodableRouting, match="6 bytes are no whole number of int32"):
        decoded(text_of(bytes(6)))
    with pytest.raises(UndecodableRouting, match="3 bytes are no whole number of uint16"):
        decoded(text_of(bytes(3)), "uint16")


@pytest.mark.parametrize("dtype", ["float32", "INT32", "<i4", "object", 4, ["int32"]])
def test_a_type_that_is_none_of_whole_numbers_is_refused(dtype: Any) -> None:
    with pytest.raises(UndecodableRouting, match="expected one of uint8, int8, uint16, int16, int32, int64"):
        decoded(encoded([1]), dtype)


def test_a_long_name_of_a_type_is_cut_in_the_message() -> None:
    with pytest.raises(UndecodableRouting) as refused:
        decoded(encoded([1]), "x" * 1000)
    assert len(str(refused.value)) < 120


@pytest.mark.parametrize(
    ("array", "found"),
    [
        (np.zeros((2, 2, 2), np.float32), "float32 in 3 axes"),
        (np.zeros((2, 2, 2), np.bool_), "bool in 3 axes"),
        (np.zeros((2, 2, 2), "S1"), r"\|S1 in 3 axes"),
        (np.zeros((2, 2, 2), [("a", np.int32)]), "in 3 axes"),
        (np.zeros(8, np.int32), "int32 in 1 axes"),
        (np.zeros((4, 2), np.int32), "int32 in 2 axes"),
        (np.zeros((1, 2, 2, 2), np.int32), "int32 in 4 axes"),
        (np.zeros((), np.int32), "int32 in 0 axes"),
    ],
)
def test_an_npy_file_of_anything_but_ids_in_three_axes_is_refused(array: Any, found: str) -> None:
    with pytest.raises(UndecodableRouting, match=f"holds .*{found}, expected whole numbers in 3"):
        decoded(npy(array))


PICKLED = npy(np.array([[[print]]], object))
NPY = b"\x93NUMPY\x01\x00"
HEADER = b"{'descr': '<i4', 'fortran_order': False, 'shape': (2, 1, 1), }\n"


@pytest.mark.parametrize(
    "raw",
    [
        NPY,
        NPY + b"\x00\x00",
        NPY + b"\xff\xff{}",
        NPY + b"\x03\x00{}\n",
        NPY + b"\x02\x00[1",
        NPY + b"\x03\x00\x00\x00\n",
        NPY + b"\x08\x00{[]: 1}\n",
        b"\x93NUMPY\x09\x00" + bytes(20),
        NPY + len(HEADER).to_bytes(2, "little") + HEADER,
        NPY + len(HEADER).to_bytes(2, "little") + HEADER + bytes(7),
        NPY + len(HEADER).to_bytes(2, "little") + HEADER.replace(b"2, 1", b"-2,1") + bytes(8),
        NPY + len(HEADER).to_bytes(2, "little") + HEADER.replace(b"<i4", b"<x4") + bytes(8),
        NPY + (len(HEADER) + 12).to_bytes(2, "little") + HEADER.replace(b"(2", b"(2000000000000") + bytes(8),
    ],
)
def test_a_damaged_npy_file_is_refused(raw: bytes) -> None:
    with pytest.raises(UndecodableRouting, match=r"the \.npy file in it cannot be read"):
        decoded(text_of(raw))


def test_an_npy_file_of_pickled_objects_is_never_opened() -> None:
    with pytest.raises(UndecodableRouting, match=r"the \.npy file in it cannot be read"):
        decoded(PICKLED)
