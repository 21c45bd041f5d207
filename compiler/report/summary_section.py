"""The head of a report: what is there, what split, what was found, and how values are spread."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from turnstile.compiler.report.contents import Contents
from turnstile.compiler.report.histogram import histogram, number
from turnstile.compiler.report.markup import Markup, joined, tag
from turnstile.compiler.report.wordings import CAUSES, FLAGS, count
from turnstile.compiler.sequence import TrainingSequence
from turnstile.compiler.summary import Summary


def summary_section(contents: Contents) -> Markup:
    """Numbers, causes, findings and flags by kind, histograms."""
    sequences, summary = contents.sequences, _summary(contents)
    return tag(
        "section",
        tag("h2", "Summary", class_="unseen", id="summary-heading"),
        tag("p", _verdict(contents, summary), class_="verdict"),
        tag("dl", *_tiles(sequences, summary), class_="tiles"),
        tag(
            "div",
            _counted("Why sequences left another", summary.causes, CAUSES, "No sequence left another one."),
            _findings(contents, summary),
            _counted("Flags", Counter(flag for each in sequences for flag in each.flags), FLAGS, "None."),
            class_="panels",
        ),
        tag("div", *_histograms(sequences), class_="panels"),
        class_="summary",
        aria_labelledby="summary-heading",
    )


def _summary(contents: Contents) -> Summary:
    summary = Summary(groups=len({sequence.group_id for sequence in contents.sequences}))
    for sequence in contents.sequences:
        summary.add_sequence(sequence)
        summary.turns += len(sequence.exchanges)
    summary.add_findings(contents.findings or ())
    return summary


def _verdict(contents: Contents, summary: Summary) -> Markup:
    """Whether anything is wrong, in one sentence."""
    if contents.findings is None:
        return joined("There is no findings file beside it: what was left out is not known here.")
    errors, warnings = summary.errors.total(), summary.warnings.total()
    if not errors and not warnings:
        return joined("Nothing was left out, and nothing that is here is doubtful.")
    left_out = joined(tag("strong", count(errors, "error"), class_="error"), " kept data out")
    doubtful = joined(tag("strong", count(warnings, "warning"), class_="warning"), " about what is doubtful")
    return joined(
        left_out if errors else "Nothing was left out",
        "; ",
        doubtful if warnings else "nothing here is doubtful",
        ".",
    )


def _tiles(sequences: Sequence[TrainingSequence], summary: Summary) -> Iterable[Markup]:
    tokens = summary.trained_tokens + summary.context_tokens
    rollouts = {(each.group_id, each.rollout_id) for each in sequences if each.rollout_id is not None}
    rewards = [each.reward for each in sequences if each.reward is not None]
    versions = {version for each in sequences for _, version in each.weight_versions if version}
    share = f"{summary.trained_tokens / tokens:.0%} of all" if tokens else ""
    yield _tile("Groups", f"{summary.groups:,}", count(len(rollouts), "named rollout"))
    yield _tile("Sequences", f"{summary.sequences:,}", count(summary.causes.total(), "split"))
    yield _tile("Turns", f"{summary.turns:,}", _per(summary.turns, summary.sequences, "a sequence"))
    yield _tile("Tokens", f"{tokens:,}", _per(tokens, summary.sequences, "a sequence"))
    yield _tile("Trained tokens", f"{summary.trained_tokens:,}", share)
    yield _tile(
        "Weight versions", f"{len(versions):,}", ", ".join(sorted(versions)) if len(versions) < 3 else ""
    )
    if rewards:
        spread = f"{number(min(rewards))} to {number(max(rewards))}, {count(len(rewards), 'sequence')}"
        yield _tile("Mean reward", number(sum(rewards) / len(rewards)), spread)


def _tile(name: str, value: str, beside: str) -> Markup:
    return tag("div", tag("dt", name), tag("dd", tag("b", value), tag("span", beside) if beside else None))


def _per(total: int, of: int, what: str) -> str:
    return f"{number(round(total / of, 1))} {what}" if of else ""


def _counted(title: str, counts: Mapping[str, int], meanings: Mapping[str, str], none: str) -> Markup:
    most = max(counts.values(), default=1)
    rows = [
        tag(
            "tr",
            tag("th", name, tag("small", meanings[name]) if name in meanings else None, scope="row"),
            tag("td", _meter(amount / most), f"{amount:,}"),
        )
        for name, amount in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ]
    body = tag("table", tag("tbody", *rows)) if rows else tag("p", none, class_="quiet")
    return tag("div", tag("h3", title), body, class_="panel")


def _findings(contents: Contents, summary: Summary) -> Markup:
    if contents.findings is None:
        return _counted("Findings", {}, {}, "Not known: there is no findings file.")
    rows = [
        _found(kind, severity, amount)
        for severity, counts in (("error", summary.errors), ("warning", summary.warnings))
        for kind, amount in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ]
    body = tag("table", tag("tbody", *rows)) if rows else tag("p", "None.", class_="quiet")
    return tag("div", tag("h3", "Findings"), body, class_="panel")


def _found(kind: str, severity: str, amount: int) -> Markup:
    link = tag("a", kind, href=f"#finding-{severity}-{kind}")
    name = tag("th", link, tag("small", severity, class_=severity), scope="row")
    return tag("tr", name, tag("td", f"{amount:,}"))


def _meter(share: float) -> Markup:
    bar = tag("rect", width=round(100 * share), height=6, rx=1, class_="bar")
    return tag(
        "svg", bar, viewBox="0 0 100 6", class_="meter", aria_hidden="true", preserveAspectRatio="none"
    )


def _histograms(sequences: Sequence[TrainingSequence]) -> Iterable[Markup]:
    lengths = np.array([len(each.tokens) for each in sequences], np.int64)
    trained = (each.logprobs[each.loss_mask] for each in sequences)
    logprobs = np.concatenate([np.empty(0, np.float64), *trained])
    spread = histogram(lengths, of="sequences", unit="tokens")
    yield tag("div", tag("h3", "Length, in tokens"), spread, class_="panel")
    spread = histogram(logprobs, of="trained tokens", unit="logprob", by_magnitude=True)
    title = tag("h3", "Logprob of trained tokens ", tag("small", "counts on a log scale"))
    yield tag("div", title, spread, class_="panel")
