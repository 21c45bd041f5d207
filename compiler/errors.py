"""What can go wrong while compiling, apart from what is wrong with the data: that is a finding.

CompileError
├── UnknownPolicy        there is no such way to make sequences
├── UnknownFormat        there is no such output format
├── NotInstalled         a library that an option needs is not installed
├── UnusableFolder       a model, tokenizer or image processor that was named cannot be used
├── RewardFileError      a file holds no rewards
└── SequenceFileError    a file holds no sequences that this version reads
"""


class CompileError(Exception):
    """Any of the errors of this package."""


class UnknownPolicy(CompileError):
    """There is no policy of that name."""


class UnknownFormat(CompileError):
    """There is no format of that name, or none for the name of the output file."""


class NotInstalled(CompileError):
    """An option or a format needs a library that is not installed; the message says how to install it."""

    def __init__(self, what: str, extra: str) -> None:
        how = f"install turnstile-rl with its extra {extra} (in a clone: pip install '.[{extra}]')"
        super().__init__(f"{what}: {how}")


class UnusableFolder(CompileError):
    """A folder that was named for a model cannot be used; the message says what is amiss and what to do."""


class RewardFileError(CompileError):
    """A file of rewards cannot be meant; the message names the path and the line."""


class SequenceFileError(CompileError):
    """A file of sequences cannot be read; the message names the path and the place in it."""


class InvariantBroken(CompileError):
    """Something that must hold does not; the message says what and where."""
