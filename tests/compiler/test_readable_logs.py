from pathlib import Path

import msgpack
import pytest

from tests.support.exchanges import exchange
from tests.support.logs import write_log
from turnstile.addon.tracelog.errors import LogFormatError
from turnstile.addon.tracelog.frames import FORMAT_MAJOR, MAGIC, RecordType, pack_record
from turnstile.addon.tracelog.reader import LogReader
from turnstile.compiler.readable_logs import Unreadable, open_readable


def test_a_log_is_opened(tmp_path: Path) -> None:
    reader = open_readable(write_log(tmp_path, exchange(1)))
    assert isinstance(reader, LogReader)
    with reader:
        assert reader.groups == ["g"]


@pytest.mark.parametrize(
    ("content", "kind", "reason"),
    [
        (b"notes" * 9, "log_corrupt", "the file is no trace log: it begins with b'notesnot'"),
        (MAGIC[:5], "log_torn", "the file ends after 5 bytes, inside its beginning"),
    ],
)
def test_what_is_none_says_why(tmp_path: Path, content: bytes, kind: str, reason: str) -> None:
    path = tmp_path / "a.tslog"
    path.write_bytes(content)
    found = open_readable(path)
    assert isinstance(found, Unreadable)
    assert (found.kind, found.offset, found.reason) == (kind, 0, reason)


def test_a_log_of_a_newer_format_and_one_that_cannot_be_opened_are_errors(tmp_path: Path) -> None:
    newer = tmp_path / "newer.tslog"
    newer.write_bytes(
        MAGIC + pack_record(RecordType.HEADER, {}, msgpack.packb({"format": [FORMAT_MAJOR + 1, 0]}))
    )
    for path in newer, tmp_path:
        with pytest.raises(LogFormatError):
            open_readable(path)
