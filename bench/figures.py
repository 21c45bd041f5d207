"""A figure with its target, the table they are printed in, and the command line that every benchmark has."""

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured value; a figure without a limit is there to compare with."""

    what: str
    value: float
    unit: str
    at_most: float | None = None
    at_least: float | None = None

    @property
    def target(self) -> str:
        """The limit in words."""
        if self.at_most is not None:
            return f"at most {self.at_most:,g}"
        return f"at least {self.at_least:,g}" if self.at_least is not None else ""

    @property
    def held(self) -> bool | None:
        """Whether the value keeps its limit; None where there is none."""
        if self.at_most is not None:
            return self.value <= self.at_most
        return self.value >= self.at_least if self.at_least is not None else None


def table(figures: Sequence[Figure]) -> str:
    """The figures as lines of aligned columns."""
    verdicts = {True: "held", False: "MISSED", None: ""}
    rows = [("figure", "value", "unit", "target", "")]
    rows += [
        (figure.what, _rounded(figure.value), figure.unit, figure.target, verdicts[figure.held])
        for figure in figures
    ]
    what, value, unit, target = (max(len(row[column]) for row in rows) for column in range(4))
    lines = [
        f"{row[0]:{what}}  {row[1]:>{value}}  {row[2]:{unit}}  {row[3]:{target}}  {row[4]}" for row in rows
    ]
    return "\n".join(line.rstrip() for line in lines)


def save(path: Path, figures: Sequence[Figure]) -> None:
    """Writes the figures as a JSON array of objects."""
    rows = [asdict(figure) | {"held": figure.held} for figure in figures]
    path.write_text(json.dumps(rows, indent=1) + "\n")


def run_alone(description: str | None, measure: Callable[[], list[Figure]]) -> None:
    """What a benchmark does when it is called by itself: measures, prints, saves."""
    parser = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE as well")
    options = parser.parse_args()
    figures = measure()
    print(table(figures))
    if options.json:
        save(options.json, figures)


def _rounded(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}" if abs(value) < 10 else f"{value:.1f}"
