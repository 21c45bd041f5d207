"""Which token ids stand for an image: told by the model's tokenizer or its config.

The config.json of most models has the id; one that leaves it out, or is not at hand, means what transformers
takes for that type of model (the configuration classes, 5.24). The text of the token, by which a tokenizer
tells its id, differs from family to family. Pixtral ends each row of an image but the last with a token of
its own, whose id only the tokenizer tells. A wrong id costs turns and makes no wrong ones: the number of runs
has to be that of the images.

Not every run is one image. A placeholder that a model sampled, or a harness wrote, is a token in later
prompts: it does not have the token before it that opens a picture. And pictures without anything between them
are one run, which only the numbers of their tokens can part.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

CONFIG_KEYS = ("image_token_id", "image_token_index", "img_context_token_id", "media_placeholder_token_id")
"""Where a config.json tells the id."""

START_KEYS = ("vision_start_token_id", "image_start_token_id", "boi_token_index")
"""Where a config.json tells the id that opens a picture."""

USUAL_IDS: Mapping[str, int] = {
    "gemma3": 262144,
    "glm46v": 151343,
    "glm4v": 151343,
    "glm4v_moe": 151363,
    "internvl": 151667,
    "llava": 32000,
    "llava_next": 32000,
    "llava_onevision": 151646,
    "mistral3": 10,
    "qwen2_5_vl": 151655,
    "qwen2_vl": 151655,
    "qwen3_5": 248056,
    "qwen3_5_moe": 248056,
    "qwen3_vl": 151655,
    "qwen3_vl_moe": 151655,
}
"""By model_type, where no config tells the id."""

TOKENS_OF_FAMILY: Mapping[str, str] = {
    # beginning of the model_type: text of the token
    "qwen": "<|image_pad|>",
    "gemma3": "<image_soft_token>",
    "llava": "<image>",
    "internvl": "<IMG_CONTEXT>",
    "glm": "<|image|>",
    "pixtral": "[IMG]",
    "mistral3": "[IMG]",
}
ROW_BREAK = "[IMG_BREAK]"

Spans = tuple[tuple[int, int], ...]  # (first token, number of tokens), in prompt order


@dataclass(frozen=True, slots=True)
class Placeholders:
    """What an image looks like among the prompt ids: a run of one id, or rows of it with breaks between."""

    image_id: int
    break_id: int | None = None
    start_id: int | None = None  # stands before the first one

    def spans(self, prompt_ids: NDArray[np.int32], count: int) -> Spans:
        """The runs in a prompt [P]; when they are more than `count` images, those that a picture opens."""
        runs = self._runs(prompt_ids)
        if len(runs) <= count or self.start_id is None:
            return runs
        return tuple(run for run in runs if run[0] and prompt_ids[run[0] - 1] == self.start_id)

    def _runs(self, prompt_ids: NDArray[np.int32]) -> Spans:
        at = np.flatnonzero(prompt_ids == self.image_id)
        if not len(at):
            return ()
        left, right = at[:-1], at[1:]
        joined = right == left + 1
        if self.break_id is not None:
            joined |= (right == left + 2) & (prompt_ids[left + 1] == self.break_id)
        cuts = np.flatnonzero(~joined)
        starts, ends = at[np.append(0, cuts + 1)].tolist(), at[np.append(cuts, -1)].tolist()
        return tuple((start, end + 1 - start) for start, end in zip(starts, ends, strict=True))


def placeholders_of(config: Mapping[str, Any], tokens: Mapping[str, int]) -> Placeholders | None:
    """What a model's config and a tokenizer's added tokens tell; None where neither does, or both are empty.

    The tokenizer is believed first: it is what wrote the prompt.
    """
    model_type = str(config.get("model_type", ""))
    told = [config[key] for key in CONFIG_KEYS if type(config.get(key)) is int]
    found = [_by_text(model_type, tokens), *told, USUAL_IDS.get(model_type)]
    image_id = next((each for each in found if each is not None), None)
    start_id = next((config[key] for key in START_KEYS if type(config.get(key)) is int), None)
    return None if image_id is None else Placeholders(image_id, tokens.get(ROW_BREAK), start_id)


def parted(runs: Spans, counts: Sequence[int]) -> Spans | None:
    """The spans of images of so many tokens that fill the runs exactly, in order; None where they do not."""
    spans, left = list[tuple[int, int]](), list(counts)
    for start, size in runs:
        end = start + size
        while start < end and left:
            spans.append((start, left.pop(0)))
            start += spans[-1][1]
        if start != end:
            return None
    return None if left else tuple(spans)


def _by_text(model_type: str, tokens: Mapping[str, int]) -> int | None:
    """The id of the family's token; of an unknown family, of the only known token that there is."""
    of_family = [text for start, text in TOKENS_OF_FAMILY.items() if model_type.startswith(start)]
    found = {tokens[text] for text in of_family or TOKENS_OF_FAMILY.values() if text in tokens}
    if model_type.startswith("llava") and not found and "[IMG]" in tokens:
        found = {tokens["[IMG]"]}  # Pixtral in the transformers layout is a llava with another tower
    return found.pop() if len(found) == 1 else None
