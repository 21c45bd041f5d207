"""Ids that users choose: of groups and of rollouts, and of the sequences that rewards are for.

They stand in URLs, and what is made of them may become a file's name: so none is a step in a path.
"""

import re

EXPECTED = "1 to 128 of A-Z a-z 0-9 . _ : -"
_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_SEQUENCE_ID = re.compile(r"[A-Za-z0-9._:-]{1,256}")  # an exchange id and a choice


def is_id(text: str) -> bool:
    """Whether the text can name a group or a rollout."""
    return _ID.fullmatch(text) is not None and text not in (".", "..")


def is_sequence_id(text: str) -> bool:
    """Whether the text can name a training sequence."""
    return _SEQUENCE_ID.fullmatch(text) is not None


def shown(text: str) -> str:
    """The text for a message: quoted, and not all of a long one."""
    return repr(text if len(text) <= 40 else f"{text[:40]}... ({len(text)} characters)")
