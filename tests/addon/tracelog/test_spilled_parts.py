import os
import tempfile
from collections.abc import Iterator
from typing import IO, Any

import pytest

from turnstile.addon.tracelog.spilled_parts import SpilledParts


@pytest.fixture
def spilled() -> Iterator[SpilledParts]:
    spilled = SpilledParts()
    yield spilled
    spilled.clear()


def test_parts_come_back_once(spilled: SpilledParts) -> None:
    assert spilled.put(1, (b"one", b"", b"three"))
    assert spilled.put(2, (b"x" * 100_000,))
    assert spilled.take(2) == [b"x" * 100_000]
    assert spilled.take(1) == [b"one", b"", b"three"]
    assert spilled.take(1) is None


def test_what_was_dropped_is_gone(spilled: SpilledParts) -> None:
    spilled.put(1, (b"one",))
    spilled.drop(1)
    spilled.drop(7)
    assert spilled.take(1) is None


def test_rooms_are_used_again(spilled: SpilledParts, monkeypatch: pytest.MonkeyPatch) -> None:
    files, make = list[IO[bytes]](), tempfile.TemporaryFile
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda: files.append(make()) or files[-1])
    for number in range(1000):
        spilled.put(number, (b"%d" % number * 1000,))
        if number >= 3:
            assert spilled.take(number - 3) == [b"%d" % (number - 3) * 1000]
    (file,) = files
    assert file.seek(0, os.SEEK_END) < 4 * 4 * 4096


def test_everything_can_be_forgotten(spilled: SpilledParts) -> None:
    spilled.put(1, (b"one",))
    spilled.clear()
    assert spilled.take(1) is None
    assert spilled.put(1, (b"two",))
    assert spilled.take(1) == [b"two"]


def test_a_file_that_cannot_be_made_costs_what_would_lie_in_it(
    spilled: SpilledParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_file() -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", no_file)
    assert not spilled.put(1, (b"one",))
    assert spilled.take(1) is None


def test_a_file_that_lost_its_end_costs_what_lay_there(
    spilled: SpilledParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    files: list[Any] = []
    real = tempfile.TemporaryFile
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda: files.append(real()) or files[-1])
    spilled.put(1, (b"one",))
    files[0].truncate(2)
    assert spilled.take(1) is None
