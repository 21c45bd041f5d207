"""Reports for tests: small forests, the page that they give, and its packed arrays read back."""

import json
import re
import zlib
from base64 import b64decode
from html.parser import HTMLParser
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.support.sequences import sequence
from turnstile.compiler.finding import Finding
from turnstile.compiler.report.contents import Contents
from turnstile.compiler.report.markup import Markup
from turnstile.compiler.sequence import Call, Cause, Parent, TrainingSequence

HOSTILE = (
    "</script><script>window.broken = 1</script><img src=x onerror='window.broken = 2'>\u2028\u202e&amp;"
)


def branch(
    number: int,
    tokens: list[int],
    left: TrainingSequence | None = None,
    cause: Cause = "sibling",
    **fields: Any,
) -> TrainingSequence:
    """Sequence `e<number>.0`: its last two tokens are sampled, the others context.

    `left` is the one it left; how many tokens they share is counted.
    """
    shared = 0 if left is None else common(left.tokens.tolist(), tokens)
    size = len(tokens)
    usual = {
        "sequence_id": f"e{number}.0",
        "tokens": tokens,
        "logprobs": [0.0] * (size - 2) + [-0.5, -2.25],
        "segment_info": ((False, size - 2), (True, 2)),
        "weight_versions": ((0, "7"),),
        "exchanges": (Call(f"e{number}", 0),),
        "parent": None if left is None else Parent(left.sequence_id, shared, cause),
        "finish_reasons": ("stop",),
        "sampling": ({"temperature": 0.5},),
        "flags": (),
    }
    return sequence(**usual | fields)


def common(one: list[int], other: list[int]) -> int:
    """How many tokens two lists have in common at their beginning."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def found(kind: str, call: int | None = None, **fields: Any) -> Finding:
    """A warning about exchange `e<call>`, or about a whole log."""
    usual = {
        "kind": kind, "severity": "warning", "exchange_id": None if call is None else f"e{call}",
        "choice": None, "log": "a.tslog", "offset": 12, "message": f"a {kind}",
    }  # fmt: skip
    return Finding(**usual | fields)


def contents(*sequences: TrainingSequence, findings: list[Finding] | None = None, **fields: Any) -> Contents:
    """Contents with no findings unless some are given."""
    return Contents("out.jsonl", list(sequences), findings or [], **fields)


def data_of(page: str | Markup, id_: str = "report-data") -> Any:
    """The JSON of an element of the page."""
    return json.loads(_content(page, id_))


def array_of(page: str | Markup, id_: str, dtype: str) -> NDArray[Any]:
    """A packed array of the page."""
    return np.frombuffer(zlib.decompress(b64decode(_content(page, id_))), dtype)


def text_of(page: str | Markup) -> str:
    """What a reader sees, words apart by single spaces; scripts and styles are left out."""
    reader = _Reader()
    reader.feed(str(page))
    return " ".join(" ".join(reader.said).split())


def _content(page: str, id_: str) -> str:
    found = re.search(rf'<script type="[^"]*" id="{id_}">([^<]*)</script>', page)
    assert found, f"the page has no element {id_}"
    return found[1]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []
        self._inside: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag in ("script", "style"):
            self._inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self._inside and self._inside[-1] == tag:
            self._inside.pop()

    def handle_data(self, data: str) -> None:
        if not self._inside:
            self.said.append(data)
