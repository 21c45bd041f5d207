from base64 import b64decode
from zlib import decompress

import numpy as np

from tests.support.report_pages import branch
from tests.support.sequences import sequence
from turnstile.compiler.report.packing import own_tokens_from, packed, packed_logprobs, packed_tokens
from turnstile.compiler.sequence import Parent


def unpacked(text: str, dtype: str) -> list[float]:
    values: list[float] = np.frombuffer(decompress(b64decode(text)), dtype).tolist()
    return values


def test_an_array_reads_back_whatever_its_order_of_bytes() -> None:
    assert unpacked(packed(np.array([1, 70_000], ">i8"), "<i4"), "<i4") == [1, 70_000]


def test_only_the_logprobs_of_trained_tokens_are_stored() -> None:
    assert unpacked(packed_logprobs(sequence()), "<f4") == [-0.5, np.float32(-2.2836947441101074)]


def test_the_tokens_that_a_sequence_shares_are_stored_with_its_parent() -> None:
    parent = branch(1, [1, 2, 3, 4])
    child = branch(2, [1, 2, 5, 6], parent)
    assert own_tokens_from(child, parent) == 2
    assert unpacked(packed_tokens(child, 2), "<i4") == [5, 6]


def test_what_is_said_to_be_shared_and_is_not_is_stored() -> None:
    parent = branch(1, [1, 2, 3, 4])
    liar = sequence(tokens=[1, 9, 5, 6], parent=Parent("e1.0", 2, "sibling"))
    assert own_tokens_from(liar, parent) == 0
    assert own_tokens_from(branch(2, [1, 2]), None) == 0
