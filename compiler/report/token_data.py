"""The tokens of a report for its scripts: a JSON object that says what there is, and packed arrays.

The arrays of sequence i stand in elements of their own, `tokens-i`, `logprobs-i`, `rows-i` (routed experts)
and `layers-i` (of each row compared with the parent's, how many layers differ), so that nothing is unpacked
before it is looked at. `assets/model.js` reads them.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pybase64 import b64encode

from turnstile.compiler.images.image import PromptImage
from turnstile.compiler.report.arrivals import Arrival
from turnstile.compiler.report.contents import Contents
from turnstile.compiler.report.images import shown_images
from turnstile.compiler.report.markup import Markup, data_block, text_block
from turnstile.compiler.report.packing import packed, packed_logprobs, packed_tokens
from turnstile.compiler.report.placed import Placed, focus_of
from turnstile.compiler.report.routing_changes import sequences_with_rows
from turnstile.compiler.report.sequence_facts import as_json
from turnstile.compiler.report.turn_spans import tells_turns, trained_stretches

DATA_ID = "report-data"


def token_data(contents: Contents, placed: Sequence[Placed]) -> Iterator[Markup]:
    """The elements, in any place of the page."""
    with_rows = sequences_with_rows(contents.sequences, [each.parent for each in placed])
    pictures = _Pictures()
    described = [_described(each, contents, each.index in with_rows, pictures) for each in placed]
    texts = None if contents.texts is None else {str(token): text for token, text in contents.texts.items()}
    yield data_block(DATA_ID, {"sequences": described, "texts": texts})
    for number, image in enumerate(pictures.images):
        yield text_block(f"image-{number}", b64encode(image.data).decode())
    for each in placed:
        yield text_block(f"tokens-{each.index}", packed_tokens(each.sequence, each.shared))
        yield text_block(f"logprobs-{each.index}", packed_logprobs(each.sequence))
        if each.index in with_rows and each.sequence.routed_experts is not None:
            yield text_block(f"rows-{each.index}", packed(each.sequence.routed_experts, "<u2"))
        if len(each.routing.layers_R):
            yield text_block(f"layers-{each.index}", packed(each.routing.layers_R, "u1"))


class _Pictures:
    """The different images of a report: one that is in many sequences stands in the page once."""

    def __init__(self) -> None:
        self.images: list[PromptImage] = []
        self._numbers: dict[str, int] = {}

    def number(self, image: PromptImage) -> int:
        """The place of the image among those of the page."""
        if image.sha256 not in self._numbers:
            self._numbers[image.sha256] = len(self.images)
            self.images.append(image)
        return self._numbers[image.sha256]


def _described(placed: Placed, contents: Contents, has_rows: bool, pictures: _Pictures) -> dict[str, Any]:
    sequence, first = placed.sequence, placed.routing.first
    shape = sequence.routed_experts_shape
    return {
        "id": sequence.sequence_id,
        "size": len(sequence.tokens),
        "parent": placed.parent,
        "cause": None if sequence.parent is None else sequence.parent.cause,
        "shared": placed.shared,
        "segments": [[int(is_trained), length] for is_trained, length in sequence.segment_info],
        "versions": [[start, version] for start, version in sequence.weight_versions],
        "turns": _turns(placed, contents.arrivals),
        "routing": None if shape is None else {"layers": shape[1], "experts": shape[2], "rows": has_rows},
        "focus": focus_of(placed, contents.findings or ()),
        "change": None if first is None else {"layer": first.layer, "before": first.before, "now": first.now},
        "images": [
            {
                "start": image.token_span[0],
                "length": image.token_span[1],
                "mime": image.mime,
                "picture": pictures.number(image),
            }
            for image in shown_images(sequence)
        ],
    }


def _turns(placed: Placed, arrivals: Mapping[str, Arrival]) -> list[list[Any]]:
    """[first token, first sampled one, end, title, what is known of it]."""
    sequence, named = placed.sequence, tells_turns(placed.sequence)
    turns = list[list[Any]]()
    for at, span in enumerate(trained_stretches(sequence)):
        is_turn = named and at < len(sequence.exchanges)
        known = _about_turn(placed, at, arrivals) if is_turn else ""
        turns.append([*span, f"{'Turn' if is_turn else 'Stretch'} {at + 1}", known])
    return turns


def _about_turn(placed: Placed, at: int, arrivals: Mapping[str, Arrival]) -> str:
    """The call, how it ended, how it was sampled, how it came."""
    sequence = placed.sequence
    call = sequence.exchanges[at]
    said = [f"exchange {call.exchange_id}, choice {call.choice}"]
    if at < len(sequence.finish_reasons):
        said.append(f"finish {sequence.finish_reasons[at] or 'unknown'}")
    if at < len(sequence.sampling):
        said += [f"{name} {as_json(value)}" for name, value in sequence.sampling[at].items()]
    if (arrival := arrivals.get(call.exchange_id)) is not None:
        said.append(str(arrival))
    return " · ".join(said)
