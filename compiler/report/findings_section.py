"""The findings by kind, errors first, each with where it stands and links to the sequences it is about."""

from collections.abc import Mapping, Sequence

from turnstile.compiler.finding import Finding
from turnstile.compiler.report.markup import Markup, joined, tag
from turnstile.compiler.report.placed import Placed
from turnstile.compiler.report.sequence_facts import name_of
from turnstile.compiler.report.wordings import count

MOST = 200  # findings of a kind that are listed
_FEW = 5  # so many are shown at once


def findings_section(
    findings: Sequence[Finding] | None, placed: Sequence[Placed], about: Mapping[int, Sequence[int]]
) -> Markup:
    """All kinds; `about` has for a finding's index the indices of its sequences."""
    if findings is None:
        content = [tag("p", "There is no findings file beside the compiled one.", class_="quiet")]
    elif not findings:
        content = [tag("p", "There are none.", class_="quiet")]
    else:
        content = [
            _kind(severity, kind, found, findings, placed, about)
            for (severity, kind), found in _by_kind(findings).items()
        ]
    return tag(
        "section",
        tag("h2", "Findings", id="findings-heading"),
        *content,
        class_="all-findings",
        aria_labelledby="findings-heading",
    )


def _by_kind(findings: Sequence[Finding]) -> dict[tuple[str, str], list[int]]:
    kinds: dict[tuple[str, str], list[int]] = {}
    for at, finding in enumerate(findings):
        kinds.setdefault((finding.severity, finding.kind), []).append(at)
    return dict(sorted(kinds.items(), key=lambda item: (item[0][0], -len(item[1]))))


def _kind(
    severity: str,
    kind: str,
    found: Sequence[int],
    findings: Sequence[Finding],
    placed: Sequence[Placed],
    about: Mapping[int, Sequence[int]],
) -> Markup:
    lines = [_line(findings[at], [placed[index] for index in about.get(at, ())]) for at in found[:MOST]]
    rest = f"The first {MOST} of {len(found):,}; all stand in the findings file." if len(found) > MOST else ""
    heading = joined(
        tag("h3", kind), tag("span", severity, class_=f"badge {severity}"), " ",
        tag("span", count(len(found), "finding"), class_="quiet"),
    )  # fmt: skip
    return tag(
        "details",
        tag("summary", heading),
        tag("ul", *lines, class_="findings"),
        tag("p", rest, class_="quiet") if rest else None,
        id=f"finding-{severity}-{kind}",
        class_="kind",
        open=len(found) <= _FEW,
    )


def _line(finding: Finding, sequences: Sequence[Placed]) -> Markup:
    place = f"{finding.log}, offset {finding.offset:,}" if finding.offset is not None else finding.log
    if finding.exchange_id is not None:
        place += f", exchange {finding.exchange_id}"
    if finding.choice is not None:
        place += f", choice {finding.choice}"
    links = [
        joined(" ", tag("a", name_of(each.sequence), href=f"#sequence-{each.index}")) for each in sequences
    ]
    whose = joined(" Sequence", *links) if links else None
    return tag("li", tag("span", finding.message), tag("small", place, ". ", whose, class_="quiet"))
