"""Holds what `turnstile explain` says of the acceptance recordings and cases against what is known of them.

`python check_explain.py FOLDER [TOKENIZER]`: FOLDER holds `cases/` and `golden/`, TOKENIZER the
tokenizer.json of the recorded models; without it, what takes a text to tell is not asked for. Exit code 1
names what differs.
"""

import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from shared_logs import write_logs

from turnstile.compiler.explain.checked_tokenizer import CheckedTokenizer
from turnstile.compiler.explain.splits import splits_of
from turnstile.compiler.pipeline import Options
from turnstile.compiler.replay import Replay
from turnstile.compiler.tokenizer import Tokenizer, tokenizer_in

# Of every group that splits the kinds in order; every other group must not split.
KINDS: Mapping[str, list[str]] = {
    "dense_abort": ["retry", "retry"],
    "dense_history_rewritten": ["new_prompt"],  # a summary: nothing of the history is left to show more
    "dense_n2": ["sibling", "sibling"],
    "dense_other_stop": ["template_marker"],
    "dense_retry": ["sibling"],
    "dense_stream": ["sibling", "sibling", "sibling", "new_prompt", "sibling", "new_prompt"],
    "dense_stream_toolparser": ["sibling", "sibling", "sibling", "new_prompt", "sibling", "new_prompt"],
    "dense_tool_loop": ["template_marker", "template_marker", "template_marker"],
    "dense_tool_loop_drift": ["retokenized", "retokenized", "retokenized"],
    "dense_two_turns_drift": ["retokenized", "retokenized"],
    "dense_two_turns_thinking": ["thinking_stripped", "new_prompt", "thinking_stripped"],
    "moe_n2": ["sibling", "sibling", "sibling", "sibling"],
    "moe_prefix_recomputed": ["routing_changed"],
    "moe_stream": ["sibling", "sibling", "sibling"],
    "moe_weight_update_retract": ["routing_changed"],
    "vl_two_images_then_drop_one": ["history_edited"],
    "vl_two_turns_other_image": ["image_changed"],
    "001": ["thinking_stripped"],
    "005": ["unknown"],  # no tokenizer has the cases' ids
    "007": ["unknown"],
    "009": ["thinking_stripped"],
    "011": ["history_edited"],
    "016": ["new_prompt"],
    "018": ["retry"],
    "020": ["sibling"],
    "052": ["routing_changed"],
    "060": ["image_changed"],
    "063": ["history_edited"],
}
TAKES_TEXT = {"dense_tool_loop_drift", "dense_two_turns_drift"}


def kinds_in(folder: Path, tokenizer: Tokenizer | None) -> dict[str, list[str]]:
    """The kinds of the splits of each group that has any."""
    found: dict[str, list[str]] = {}
    checked = CheckedTokenizer(tokenizer) if tokenizer is not None else None
    with Replay([folder]) as replay:
        for split in splits_of(replay, Options(), checked):
            found.setdefault(split.group_id, []).append(split.kind)
    return found


def differences(found: Mapping[str, list[str]], skipped: set[str]) -> Iterator[str]:
    """One line for each group about which something else is known."""
    for group in sorted({*KINDS, *found} - skipped):
        if (told := found.get(group, [])) != (known := KINDS.get(group, [])):
            yield f"{group}: told {', '.join(told) or 'nothing'}, expected {', '.join(known) or 'no split'}"


def main() -> int:
    """Compare, print what differs, and give the exit code."""
    shared, *named = map(Path, sys.argv[1:])
    tokenizer = tokenizer_in(named[0]) if named else None
    skipped = set[str]() if named else TAKES_TEXT
    found: dict[str, list[str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        write_logs(shared, Path(folder))
        for log in sorted(Path(folder).iterdir()):
            found |= kinds_in(log, tokenizer if log.name != "cases" else None)
    lines = list(differences(found, skipped))
    print(
        "\n".join(
            [*lines, f"explain: {len({*KINDS} - skipped)} groups looked at, {len(lines)} told otherwise"]
        )
    )
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
