from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.support.images import picture, prompt_image
from tests.support.sequences import SEQUENCE, WITH_IMAGES, sequence
from turnstile.compiler.images.image import PromptImage
from turnstile.compiler.sequence import Call
from turnstile.compiler.verify_sequence import broken_promise

EXPECTED = "expected a finite number not above 0"
ONE_A_TURN = ": expected one of each a turn"


def test_a_sequence_keeps_all_its_promises() -> None:
    assert broken_promise(SEQUENCE) == ""


def test_a_sequence_of_unknown_versions_does_so_too() -> None:
    assert broken_promise(sequence(weight_versions=())) == ""


def test_a_sequence_with_routing_does_so_too() -> None:
    assert broken_promise(sequence(routed_experts=np.zeros((4, 2, 2), np.uint8))) == ""


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"logprobs": [0.0]}, "5 tokens, but 1 logprobs"),
        ({"segment_info": ((False, 2), (True, 2))}, "5 tokens, but segment_info has the lengths [2, 2]"),
        ({"segment_info": ((False, 5), (True, 0))}, "5 tokens, but segment_info has the lengths [5, 0]"),
        ({"tokens": [1, 2, -3, 4, 5]}, "token 2 is -3"),
        (
            {"segment_info": ((True, 5),)},
            "begins with a sampled token: something must have been in the prompt",
        ),
        ({"segment_info": ((False, 5),)}, "holds no trained token"),
        ({"segment_info": ((False, 1), (False, 1), (True, 3))}, "segments 0 and 1 are both context"),
        ({"logprobs": [0.0, 0.0, float("nan"), 0.0, 0.0]}, "the logprob of token 2 is nan, " + EXPECTED),
        ({"logprobs": [0.0, 0.0, 0.5, 0.0, 0.0]}, "the logprob of token 2 is 0.5, " + EXPECTED),
        (
            {"logprobs": [0.0, -1.0, -0.5, 0.0, 0.0]},
            "token 1 is context and has the logprob -1.0, expected 0.0",
        ),
        (
            {"weight_versions": ((0, "7"), (3, "8"), (3, "9"))},
            "weight_versions do not rise strictly: [0, 3, 3]",
        ),
        ({"weight_versions": ((1, "7"),)}, "weight_versions go from 1 to 1 in 5 tokens"),
        ({"weight_versions": ((0, "7"), (5, "8"))}, "weight_versions go from 0 to 5 in 5 tokens"),
        (
            {"routed_experts": np.zeros((5, 2, 2), np.uint8)},
            "5 tokens, but routed experts of 5x2x2: expected a row less than tokens",
        ),
        ({"routed_experts": np.full((4, 2, 2), -1, np.int32)}, "routed_experts names an expert below 0"),
        ({"finish_reasons": ("stop",)}, "2 exchanges, 1 finish_reasons, 2 sampling parameters" + ONE_A_TURN),
        (
            {"exchanges": (), "finish_reasons": (), "sampling": ()},
            "0 exchanges, 0 finish_reasons, 0 sampling parameters" + ONE_A_TURN,
        ),
        ({"sequence_id": "e2.0"}, "is not named after its first call, choice 0 of e1"),
        ({"exchanges": (Call("e1", 0), Call("e1", 0))}, "holds one call twice"),
        ({"flags": ("undelivered", "aborted")}, "flags ('undelivered', 'aborted') are not sorted"),
    ],
)
def test_the_first_promise_that_is_broken_is_told(fields: dict[str, Any], fault: str) -> None:
    assert broken_promise(sequence(**fields)) == fault


def test_a_sequence_with_images_keeps_all_its_promises() -> None:
    assert broken_promise(WITH_IMAGES) == ""
    assert broken_promise(replace(WITH_IMAGES, processed_images=())) == ""


@pytest.mark.parametrize(
    ("images", "fault"),
    [
        ([prompt_image("a", 4, 2), prompt_image("b", 1, 2)], "image 2 has 2 tokens from 1 on"),
        ([prompt_image("a", 1, 4), prompt_image("b", 4, 2)], "image 2 has 2 tokens from 4 on"),
        ([prompt_image("a", 1, 0)], "image 1 has 0 tokens from 1 on"),
        ([prompt_image("a", 4, 9)], "image 1 has 9 tokens from 4 on"),
        ([prompt_image("a", 4, 3)], "image 1 has tokens that were sampled"),
        ([replace(prompt_image("a", 1, 2), data=picture())], "the file of image 1 does not have its SHA-256"),
        ([prompt_image("a", 1, 2)], "1 images are processed, expected each of 1 once, in their order"),
    ],
)
def test_images_that_cannot_be_those_of_the_tokens_are_told(images: list[PromptImage], fault: str) -> None:
    assert fault in broken_promise(replace(WITH_IMAGES, images=tuple(images)))
