from typing import Any

import pytest

from tests.support.chat_streams import chunk, finished, sglext, usage
from turnstile.addon.backends.restoring import Fact
from turnstile.addon.backends.stream_tally import StreamTally

WANTED: tuple[Fact, ...] = ("prompt_token_ids", "sampled_token_ids", "logprobs", "routed_experts")
IDS = sglext(input_ids=[1], output_ids=[[2, 3], [4]])


def tally(rows: int, *chunks: dict[str, Any]) -> StreamTally:
    counted = StreamTally()
    counted.rows = rows
    for each in chunks:
        counted.note(each)
    return counted


def test_ids_and_logprobs_are_counted_over_all_choices() -> None:
    assert tally(3, finished(), finished(1), IDS, usage(1, 3)).missing(WANTED) == ("routed_experts",)


@pytest.mark.parametrize(
    ("rows", "chunks", "missing"),
    [
        (2, [IDS, usage(1, 3)], ("logprobs",)),
        (3, [IDS, usage(1, 4)], ("sampled_token_ids",)),
        (3, [usage(1, 3)], ("prompt_token_ids", "sampled_token_ids")),
        (3, [sglext(output_ids=[[2, 3], [4]])], ("prompt_token_ids",)),
        (3, [sglext(input_ids=[], output_ids=[[2, 3], [4]])], ("prompt_token_ids",)),
        (0, [sglext(input_ids=[1], output_ids=[[]])], ()),
    ],
)
def test_what_disagrees_is_missing(rows: int, chunks: list[dict[str, Any]], missing: tuple[str, ...]) -> None:
    assert tally(rows, finished(), *chunks).missing(WANTED[:3]) == missing


def test_an_aborted_stream_lacks_nothing() -> None:
    assert tally(3, finished(reason="abort"), IDS).missing(WANTED) == ()


@pytest.mark.parametrize(
    "end", [chunk(), {"error": {"message": "full"}}, {"choices": 5}, {"choices": [None]}]
)
def test_a_stream_that_did_not_come_to_its_end_lacks_nothing(end: dict[str, Any]) -> None:
    assert tally(0, end).missing(WANTED) == ()
