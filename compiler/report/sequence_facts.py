"""What is known of one sequence apart from its tokens, as a list of facts and of its findings."""

import json
from collections.abc import Sequence

from turnstile.compiler.finding import Finding
from turnstile.compiler.report.contents import Links
from turnstile.compiler.report.histogram import number
from turnstile.compiler.report.images import shown_images
from turnstile.compiler.report.markup import Child, Markup, joined, tag
from turnstile.compiler.report.placed import Placed
from turnstile.compiler.report.turn_spans import tells_turns
from turnstile.compiler.report.wordings import CAUSES, FLAGS
from turnstile.compiler.sequence import TrainingSequence


def name_of(sequence: TrainingSequence) -> Markup:
    """The id, with the part that names the log set back."""
    log, dash, rest = sequence.sequence_id.rpartition("-")
    return joined(tag("span", log + dash, class_="log-id") if dash else None, rest)


def sequence_facts(
    placed: Placed, parent: Placed | None, findings: Sequence[Finding], links: Links | None = None
) -> Markup:
    """The facts, then the findings about its calls."""
    sequence = placed.sequence
    facts: list[tuple[str, Child]] = [("Sequence", tag("code", sequence.sequence_id))]
    facts.append(("Exchanges", None if links is None else _exchanges(sequence, links)))
    facts.append(("Left", _left(placed, parent)))
    facts.append(("Weight versions", _versions(sequence)))
    facts += [("Flag", joined(tag("b", flag), f": {FLAGS.get(flag, '')}")) for flag in sequence.flags]
    facts.append(("Reward", None if sequence.reward is None else number(sequence.reward)))
    facts.append(("Routed experts", _routing(sequence)))
    facts.append(("Images", _images(sequence)))
    facts.append(("Metadata", tag("code", as_json(dict(sequence.metadata))) if sequence.metadata else None))
    if not tells_turns(sequence):
        facts.append(("Turns", f"{len(sequence.exchanges):,}; where each begins is not told"))
    pairs = [tag("div", tag("dt", name), tag("dd", value)) for name, value in facts if value]
    found = [finding_line(findings[at]) for at in placed.findings]
    return joined(
        tag("dl", *pairs, class_="facts"),
        tag("ul", *(tag("li", line) for line in found), class_="findings") if found else None,
    )


def finding_line(finding: Finding) -> Markup:
    """A finding in one line, without where it stands."""
    return joined(
        tag("span", finding.kind, class_=f"badge {finding.severity}"), " ", tag("span", finding.message)
    )


def _exchanges(sequence: TrainingSequence, links: Links) -> Markup:
    """Each of its turns' as a link, where there is one."""
    named = [(call.exchange_id, call.exchange_id.rpartition("-")[2]) for call in sequence.exchanges]
    addresses = links.exchanges
    return joined(
        *(
            joined(tag("a", name, href=addresses[whole]) if whole in addresses else name, " ")
            for whole, name in named
        )
    )


def _left(placed: Placed, parent: Placed | None) -> Markup | None:
    left = placed.sequence.parent
    if left is None:
        return None
    name: Child = f"{left.sequence_id} (not here)"
    if parent is not None:
        name = tag("a", name_of(parent.sequence), href=f"#sequence-{parent.index}")
    meaning = CAUSES.get(left.cause, "")
    return joined(name, f" after {left.shared_tokens:,} tokens: ", tag("b", left.cause), f", it {meaning}")


def _versions(sequence: TrainingSequence) -> str:
    spans = (f"{version or 'unknown'} from token {start:,}" for start, version in sequence.weight_versions)
    return ", ".join(spans) or "unknown"


def _routing(sequence: TrainingSequence) -> str | None:
    if (shape := sequence.routed_experts_shape) is None:
        return None
    rows, layers, top_k = shape
    return f"{rows:,} rows, {layers:,} layers, {top_k:,} experts a token"


def _images(sequence: TrainingSequence) -> str:
    said = [
        f"{size:,} tokens from {start:,}" for start, size in (each.token_span for each in sequence.images)
    ]
    unseen = len(sequence.images) - len(shown_images(sequence))
    return "; ".join([*said, f"{unseen} of a type that is not shown"] if unseen else said)


def as_json(value: object) -> str:
    """What a harness sent, as it wrote it."""
    return json.dumps(value, ensure_ascii=False, default=str)
