"""Training sequences for tests: a whole small one, and any that may be made."""

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.support.images import picture, sha256
from turnstile.compiler.images.image import ProcessedImage, PromptImage
from turnstile.compiler.sequence import Call, Parent, TrainingSequence

SEQUENCE = TrainingSequence(
    sequence_id="e1.0",
    group_id="g",
    rollout_id="r",
    tokens=np.array([1, 2, 3, 4, 5], np.int32),
    logprobs=np.array([0.0, 0.0, -0.5, 0.0, -2.2836947441101074]),
    segment_info=((False, 2), (True, 1), (False, 1), (True, 1)),
    weight_versions=((0, "7"), (3, "8")),
    exchanges=(Call("e1", 0), Call("e2", 1)),
    parent=None,
    finish_reasons=("stop", "length"),
    sampling=({"temperature": 0.5}, {}),
    flags=("aborted", "undelivered"),
    reward=1.0,
    metadata={"task": "x"},
)


_RED = picture("red")
WITH_IMAGES = replace(
    SEQUENCE,
    tokens=np.array([1, 9, 9, 2, 9, 9, 3], np.int32),
    logprobs=np.array([0.0] * 6 + [-0.5]),
    segment_info=((False, 6), (True, 1)),
    exchanges=(Call("e1", 0),),
    finish_reasons=("stop",),
    sampling=({},),
    images=tuple(PromptImage(sha256(_RED), "image/png", _RED, (start, 2)) for start in (1, 4)),
    processed_images=(
        ProcessedImage(
            sha256(_RED),
            {"class": "Processor", "versions": {"pillow": "1"}},
            {
                "image_grid_thw": np.array([[1, 2, 2]], np.int64),
                "pixel_values": np.arange(12, dtype=np.float32).reshape(4, 3),
            },
        ),
    ),
)
"""A picture that is shown twice, and what a processor made of it."""


def sequence(**fields: Any) -> TrainingSequence:
    """SEQUENCE with other fields; lists of tokens and logprobs become arrays."""
    if "tokens" in fields:
        fields["tokens"] = np.array(fields["tokens"], np.int32)
    if "logprobs" in fields:
        fields["logprobs"] = np.array(fields["logprobs"], np.float64)
    return replace(SEQUENCE, **fields)


JSON_OBJECTS = st.dictionaries(
    st.text(),
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    max_size=3,
)


@st.composite
def any_sequences(draw: st.DrawFn) -> TrainingSequence:
    """A sequence with any values in its fields, whether or not they fit each other."""
    size = draw(st.integers(0, 20))
    ids = st.lists(st.integers(0, 2**31 - 1), min_size=size, max_size=size)
    logprobs = st.lists(st.floats(max_value=0.0, allow_infinity=False), min_size=size, max_size=size)
    return sequence(
        tokens=draw(ids),
        logprobs=draw(logprobs),
        rollout_id=draw(st.none() | st.text()),
        segment_info=tuple(draw(st.lists(st.tuples(st.booleans(), st.integers(1, 9))))),
        weight_versions=tuple(draw(st.lists(st.tuples(st.integers(0, 9), st.text())))),
        parent=draw(st.none() | st.just(Parent("e0.0", 2, "sibling"))),
        sampling=tuple(draw(st.lists(JSON_OBJECTS, max_size=2))),
        reward=draw(st.none() | st.floats(allow_nan=False, allow_infinity=False)),
        metadata=draw(JSON_OBJECTS),
    )
