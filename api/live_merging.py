"""Merges what a proxy records while it does, for mitmweb: the compiler, behind the interface of capture.

The compiler is imported when it is first used, so that a mitmdump, which nobody looks at, never does.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from turnstile.compiler.compilation import Compilation
    from turnstile.compiler.following import FollowedLogs
    from turnstile.compiler.growing import GrowingLogs
    from turnstile.compiler.standing import Standing


class LiveMerging:
    """The logs of one session at a time; for one thread at a time."""

    def __init__(self) -> None:
        self._followed: FollowedLogs | None = None
        self._grown: GrowingLogs | None = None  # only where somebody asked for a page

    def standings(self, log: Path, size_bytes: int, group_id: str, before: float) -> "Sequence[Standing]":
        """See `FollowedLogs.merged`; `log` is being written, its first `size_bytes` are."""
        from turnstile.compiler.following import FollowedLogs

        if self._followed is None:
            self._followed = FollowedLogs(log.parent, log_id_of(log))
        self._followed.read_on(log, size_bytes)
        return self._followed.merged(group_id, before)

    def group_page(
        self, log: Path, size_bytes: int, group_id: str, texts: Mapping[int, str], links: Mapping[str, str]
    ) -> bytes:
        """A report of what a group gives so far, with the `texts` of token ids and `links` of exchanges."""
        from turnstile.compiler.growing import GrowingLogs
        from turnstile.compiler.pipeline import Options

        if self._grown is None:
            self._grown = GrowingLogs(log.parent, log_id_of(log), Options())
        self._grown.read_on(log, size_bytes)
        return _page(f"{group_id}, so far", self._grown.compiled(group_id), texts, links)

    def group_page_of_logs(
        self, logs: Sequence[Path], group_id: str, texts: Mapping[int, str], links: Mapping[str, str]
    ) -> bytes:
        """The same of logs that are there. Raises TraceLogError where they cannot be read."""
        from turnstile.compiler.compilation import compile_logs

        return _page(group_id, compile_logs(logs, groups=[group_id]), texts, links)

    def close(self) -> None:
        """Lets go of the logs."""
        for each in (self._followed, self._grown):
            if each is not None:
                each.close()
        self._followed = self._grown = None


def log_id_of(log: Path) -> str:
    """The id that all parts of a session's log have in their names."""
    return log.stem.split("-")[1]


def _page(source: str, compiled: "Compilation", texts: Mapping[int, str], links: Mapping[str, str]) -> bytes:
    from turnstile.compiler.report.contents import Contents, Links
    from turnstile.compiler.report.page import report_page

    return report_page(
        Contents(
            source,
            compiled.sequences,
            compiled.findings,
            texts=texts or None,
            links=Links("/turnstile", links),
        )
    )
