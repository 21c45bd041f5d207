"""What capture is told by whoever merges exchanges into sequences: the compiler, which it does not know.

The script hands one in; without it flows tell only what capture itself knows.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol


class Standing(Protocol):
    """An exchange among those of its rollout, as whoever merges them tells."""

    @property
    def exchange_id(self) -> str:
        """That of its record."""

    @property
    def turn(self) -> int | None:
        """Its number, from 1; None: it gave no turn."""

    @property
    def split(self) -> str | None:
        """Why its rollout did not go on with it; None: it did."""

    @property
    def left(self) -> str | None:
        """Of a split the earlier exchange that it is about."""

    @property
    def findings(self) -> Sequence[str]:
        """Kinds of what was found in it."""


class Merging(Protocol):
    """Merges what one session records.

    Its methods take their time: they are called one after the other, and never on the event loop. `log` is
    the part of the log that is being written, of which `size_bytes` are whole. A page is HTML; `texts` are
    those of token ids, `links` lead to exchanges.
    """

    def standings(self, log: Path, size_bytes: int, group_id: str, before: float) -> Sequence[Standing]:
        """Of the exchanges of a group that came since the last time and began before then."""

    def group_page(
        self, log: Path, size_bytes: int, group_id: str, texts: Mapping[int, str], links: Mapping[str, str]
    ) -> bytes:
        """The sequences that a group gives so far."""

    def group_page_of_logs(
        self, logs: Sequence[Path], group_id: str, texts: Mapping[int, str], links: Mapping[str, str]
    ) -> bytes:
        """The same of whole logs, whichever session is under way; may be called beside the others."""

    def close(self) -> None:
        """Lets go of the logs; what comes next is another session's."""
