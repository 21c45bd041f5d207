"""The groups, each a tree of its sequences: a line a sequence, and below it what is known of it.

The lists are flat and the depth is a class: a rollout that splits at each of its hundreds of turns makes a
chain that no browser would nest.
"""

from collections.abc import Sequence

from turnstile.compiler.finding import Finding
from turnstile.compiler.report.contents import Contents
from turnstile.compiler.report.forest_order import GroupForest, forests
from turnstile.compiler.report.histogram import number
from turnstile.compiler.report.markup import Markup, joined, tag
from turnstile.compiler.report.placed import Placed
from turnstile.compiler.report.sequence_facts import name_of, sequence_facts
from turnstile.compiler.report.strip import strip
from turnstile.compiler.report.wordings import count

_DEEPEST = 8  # levels that are set in further
_OPEN_AT_FIRST = 60  # sequences: up to so many, all groups are open


def trees_section(contents: Contents, placed: Sequence[Placed]) -> Markup:
    """All groups in the order of the file."""
    groups = forests(contents.sequences, [each.parent for each in placed])
    longest = max((len(each.tokens) for each in contents.sequences), default=1)
    all_open = len(placed) <= _OPEN_AT_FIRST
    parts = [
        _group(group, placed, contents, longest, is_open=all_open or at == 0)
        for at, group in enumerate(groups)
    ]
    return tag(
        "section",
        tag("h2", "Sequences by group", id="sequences-heading"),
        *(parts or [tag("p", "There are no sequences.", class_="quiet")]),
        class_="trees",
        aria_labelledby="sequences-heading",
    )


def _group(
    group: GroupForest, placed: Sequence[Placed], contents: Contents, longest: int, *, is_open: bool
) -> Markup:
    rows = [_branch(placed[each.index], each.depth, placed, contents, longest) for each in group.branches]
    members = [placed[each.index] for each in group.branches]
    return tag(
        "details",
        tag("summary", tag("h3", group.group_id), tag("span", _about_group(members), class_="quiet")),
        tag("ol", *rows, class_="tree"),
        class_="group",
        open=is_open,
    )


def _about_group(members: Sequence[Placed]) -> str:
    rollouts = {each.sequence.rollout_id for each in members if each.sequence.rollout_id is not None}
    rewards = [each.sequence.reward for each in members if each.sequence.reward is not None]
    said = [count(len(rollouts), "rollout")] if rollouts else []
    said += [
        count(len(members), "sequence"),
        count(sum(len(each.sequence.tokens) for each in members), "token"),
    ]
    if rewards:
        mean = number(sum(rewards) / len(rewards))
        said.append(f"mean reward {mean}, from {number(min(rewards))} to {number(max(rewards))}")
    return ", ".join(said)


def _branch(
    placed: Placed, depth: int, all_placed: Sequence[Placed], contents: Contents, longest: int
) -> Markup:
    findings = contents.findings or ()
    line = tag("summary", *_line(placed, findings, longest))
    parent = None if placed.parent is None else all_placed[placed.parent]
    body = tag(
        "div",
        sequence_facts(placed, parent, findings, contents.links),
        tag("p", "The tokens are shown with scripts on.", class_="without-scripts quiet"),
        class_="body",
    )
    level = tag("span", f"level {depth + 1}", class_="unseen") if depth else None
    return tag(
        "li",
        level,
        tag("details", line, body, data_sequence=placed.index),
        id=f"sequence-{placed.index}",
        class_=f"depth-{min(depth, _DEEPEST)}",
    )


def _line(placed: Placed, findings: Sequence[Finding], longest: int) -> list[Markup]:
    sequence = placed.sequence
    reward = "" if sequence.reward is None else f", reward {number(sequence.reward)}"
    return [
        tag("span", name_of(sequence), class_="name"),
        tag("span", sequence.rollout_id or "", class_="rollout"),
        tag("span", _cause(placed), *_marks(placed, findings), class_="marks"),
        strip(placed, longest),
        tag(
            "span",
            tag("b", f"{len(sequence.tokens):,}"), " tokens, ", tag("b", f"{placed.trained:,}"), " trained, ",
            count(len(sequence.exchanges), "turn"), reward,
            class_="amounts",
        ),
    ]  # fmt: skip


def _cause(placed: Placed) -> Markup | None:
    left = placed.sequence.parent
    if left is None:
        return None
    after = tag("span", f" after {left.shared_tokens:,} ", class_="quiet")
    return joined(tag("span", left.cause, class_="badge cause"), after)


def _marks(placed: Placed, findings: Sequence[Finding]) -> list[Markup]:
    marks = [tag("span", flag, class_="badge flag") for flag in placed.sequence.flags]
    for severity in ("error", "warning"):
        if amount := sum(findings[at].severity == severity for at in placed.findings):
            marks.append(tag("span", count(amount, severity), class_=f"badge {severity}"))
    return [joined(mark, " ") for mark in marks]
