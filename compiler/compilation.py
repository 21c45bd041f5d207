"""Logs to training sequences in memory, as one call."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import overload

from turnstile.compiler.finding import Finding
from turnstile.compiler.images.pixels import MAX_PIXELS
from turnstile.compiler.model_folders import ModelFolders
from turnstile.compiler.pipeline import Options, compile_groups
from turnstile.compiler.replay import Replay
from turnstile.compiler.reward_file import read_rewards
from turnstile.compiler.selection import Selection
from turnstile.compiler.sequence import TrainingSequence


@dataclass(frozen=True, slots=True)
class Compilation(Sequence[TrainingSequence]):
    """The sequences that logs gave, as a sequence of them, and what was found on the way."""

    sequences: tuple[TrainingSequence, ...]
    findings: tuple[Finding, ...]

    @overload
    def __getitem__(self, index: int) -> TrainingSequence: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[TrainingSequence, ...]: ...
    def __getitem__(self, index: int | slice) -> TrainingSequence | tuple[TrainingSequence, ...]:
        return self.sequences[index]

    def __len__(self) -> int:
        return len(self.sequences)

    def __iter__(self) -> Iterator[TrainingSequence]:
        return iter(self.sequences)


def compile_logs(
    paths: str | PathLike[str] | Iterable[str | PathLike[str]],
    *,
    groups: Collection[str] = (),
    policy: str = "strict",
    max_tokens: int | None = None,
    model: str | PathLike[str] | None = None,
    trusted_only: bool = False,
    tokenizer: str | PathLike[str] | None = None,
    image_processor: str | PathLike[str] | None = None,
    max_image_pixels: int = MAX_PIXELS,
    rewards: str | PathLike[str] | None = None,
) -> Compilation:
    """What `turnstile compile` writes for a log, a directory of logs, or several of them, as values.

    `groups` names the ones that are wanted, all when empty. Sequences of more than `max_tokens` are cut
    there. `trusted_only` leaves out sequences whose routing cannot be believed. `model`, `tokenizer` and
    `image_processor` name folders: of the model's config.json and the tokenizer's files, where the log does
    not tell the model's shape and which tokens stand for an image; of the processor that shall make tensors
    of the images. `rewards` is a file of rewards, which win over those in the logs: see `read_rewards`.

    Raises LogFormatError for a path that holds no trace log, LogCorruptError when none of the logs has a
    readable header, UnknownPolicy for a policy that there is not, UnusableFolder for a folder that cannot
    be used, RewardFileError for a line that is no reward.
    """
    folders = ModelFolders(_folder(model), _folder(tokenizer), _folder(image_processor), max_image_pixels)
    given = read_rewards(Path(rewards)) if rewards is not None else {}
    options = Options(policy, Selection(max_tokens, trusted_only), folders, given)
    logs = [paths] if isinstance(paths, str | PathLike) else list(paths)
    with Replay([Path(log) for log in logs], groups) as replay:
        findings = [*replay.findings, *replay.rewards_without_exchange(options.rewards)]
        sequences = list[TrainingSequence]()
        for group in compile_groups(replay, options):
            sequences += group.sequences
            findings += group.findings
    return Compilation(tuple(sequences), tuple(findings))


def _folder(path: str | PathLike[str] | None) -> Path | None:
    return None if path is None else Path(path)
