"""Histograms as inline SVG, readable without scripts; every bar says its numbers in a title."""

from dataclasses import dataclass
from math import ceil, floor, log10

import numpy as np
from numpy.typing import NDArray

from turnstile.compiler.report.markup import Markup, joined, tag

_BARS = 24  # at most about so many
_NO_SPAN = 1e-300  # floats that differ by less cannot be told apart by steps
_WIDTH, _HEIGHT = 480, 170
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 10, 10, 26


@dataclass(frozen=True, slots=True)
class _Scale:
    """Where values and counts lie in the drawing."""

    low: float
    high: float
    most: int
    by_magnitude: bool  # counts by their logarithm: a few rare values stay visible beside very many

    def x(self, value: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * (value - self.low) / (self.high - self.low)

    def y(self, count: float) -> float:
        share = log10(1 + count) / log10(1 + self.most) if self.by_magnitude else count / self.most
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * share


def histogram(values: NDArray[np.number], *, of: str, unit: str, by_magnitude: bool = False) -> Markup:
    """How many of the `values` lie where; `of` names what is counted, `unit` what the values are."""
    if not len(values):
        return tag("p", f"There are no {of}.", class_="quiet")
    least, most = float(values.min()), float(values.max())
    step = _step(most - least, of_integers=np.issubdtype(values.dtype, np.integer))
    # Dividing rounds: a value next to an edge may come to lie behind it.
    low, high = min(floor(least / step) * step, least), max((floor(most / step) + 1) * step, most)
    if most <= 0:
        low, high = min(low, -step), 0.0  # what is never above 0 has no bar there
    bins = max(1, round((high - low) / step))
    counts, edges = np.histogram(values, bins, (low, high))
    scale = _Scale(low, high, int(counts.max()), by_magnitude)
    bars = [
        _bar(scale, int(count), float(start), float(end), of)
        for count, start, end in zip(counts, edges[:-1], edges[1:], strict=True)
        if count
    ]
    low_value, middle, high_value = (number(each) for each in np.quantile(values, (0, 0.5, 1)))
    said = f"{len(values):,} {of}; {unit} from {low_value} to {high_value}, median {middle}"
    drawing = tag(
        "svg", *_count_axis(scale), *bars, *_value_axis(scale), viewBox=f"0 0 {_WIDTH} {_HEIGHT}", role="img",
        aria_label=f"Histogram: {said}", class_="histogram",
    )  # fmt: skip
    return tag("figure", drawing, tag("figcaption", said))


def number(value: float) -> str:
    """Short, with thousands set apart."""
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.3g}"


def _step(span: float, *, of_integers: bool, parts: int = _BARS) -> float:
    """1, 2 or 5 times a power of ten, so that `parts` steps or fewer make the span."""
    if span <= _NO_SPAN:
        return 1.0
    magnitude = 10.0 ** floor(log10(span / parts))
    step = next(times * magnitude for times in (1, 2, 5, 10) if times * magnitude * parts >= span)
    return max(step, 1.0) if of_integers else step


def _bar(scale: _Scale, count: int, start: float, end: float, of: str) -> Markup:
    left, right, top = scale.x(start), scale.x(end), scale.y(count)
    title = tag("title", f"{number(start)} to {number(end)}: {count:,} {of}")
    height = _HEIGHT - _BOTTOM - top
    return tag(
        "rect", title, x=_at(left + 0.5), y=_at(top), width=_at(max(right - left - 1, 1)),
        height=_at(max(height, 1)), class_="bar", rx=1,
    )  # fmt: skip


def _value_axis(scale: _Scale) -> list[Markup]:
    step = _step(scale.high - scale.low, of_integers=False, parts=6)
    ticks = [at * step for at in range(ceil(scale.low / step - 1e-9), floor(scale.high / step + 1e-9) + 1)]
    base = _HEIGHT - _BOTTOM
    line = tag("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=base, y2=base, class_="axis")
    return [line, *(_label(number(tick), scale.x(tick), base + 16, "middle") for tick in ticks)]


def _count_axis(scale: _Scale) -> list[Markup]:
    if scale.by_magnitude:
        ticks = [10**power for power in range(int(log10(scale.most)) + 1)]
    else:
        step = int(_step(scale.most, of_integers=True, parts=4))
        ticks = list(range(step, scale.most + 1, step))
    return [
        joined(
            tag("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=_at(y := scale.y(tick)), y2=_at(y), class_="grid"),
            _label(f"{tick:,}", _LEFT - 6, y + 3.5, "end"),
        )
        for tick in ticks
    ]


def _label(text: str, x: float, y: float, anchor: str) -> Markup:
    return tag("text", text, x=_at(x), y=_at(y), text_anchor=anchor)


def _at(value: float) -> str:
    return f"{value:.1f}"
