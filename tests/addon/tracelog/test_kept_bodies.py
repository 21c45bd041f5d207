from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from turnstile.addon.tracelog.kept_bodies import Bodies, KeptBodies

SIZE = 300  # bytes of one exchange here


def bodies(number: int) -> Bodies:
    return Bodies(b"%d" % number * 100, b"r" * 150, b"d" * 50)


@contextmanager
def kept(numbers: range, *, room_for: int, waiting: bool) -> Iterator[KeptBodies]:
    """Exchange n is waited for by exchange n + 100."""
    kept = KeptBodies(room_for * SIZE)
    for number in numbers:
        kept.keep(number, bodies(number), [number + 100] if waiting else [])
    yield kept
    kept.clear()


def found(kept: KeptBodies, numbers: range) -> list[int]:
    return [number for number in numbers if kept.get(number) == bodies(number)]


@pytest.mark.parametrize("room_for", range(12))
def test_what_records_wait_for_is_there_however_little_memory_there_is(room_for: int) -> None:
    with kept(range(10), room_for=room_for, waiting=True) as some:
        assert found(some, range(10)) == [*range(10)]


@pytest.mark.parametrize(("room_for", "left"), [(3, [7, 8, 9]), (0, [9])])
def test_what_no_record_waits_for_is_given_up_for_lack_of_memory(room_for: int, left: list[int]) -> None:
    with kept(range(10), room_for=room_for, waiting=False) as some:
        assert found(some, range(10)) == left


@pytest.mark.parametrize("waiting", [False, True])
def test_what_no_record_waits_for_any_more_goes_first(waiting: bool) -> None:
    with kept(range(3), room_for=3, waiting=waiting) as some:
        some.was_read(102, base=2)
        some.keep(3, bodies(3))
        assert found(some, range(4)) == [0, 1, 3]


def test_what_lies_on_the_disk_is_dropped_when_its_last_record_was_read() -> None:
    with kept(range(1), room_for=1, waiting=False) as some:
        some.keep(1, bodies(1), [11, 12])
        some.keep(2, bodies(2))
        some.was_read(11, base=1)
        assert some.get(1) == bodies(1)
        some.keep(3, bodies(3))
        some.was_read(12, base=1)
        assert some.get(1) is None


def test_a_record_that_rests_on_nothing_kept_changes_nothing() -> None:
    with kept(range(3), room_for=3, waiting=True) as some:
        some.was_read(5, base=4)
        assert found(some, range(6)) == [0, 1, 2]


def test_cleared_it_is_as_new() -> None:
    with kept(range(10), room_for=3, waiting=True) as some:
        some.clear()
        assert found(some, range(10)) == []
        for number in range(3):
            some.keep(number, bodies(number))
        assert found(some, range(3)) == [0, 1, 2]
