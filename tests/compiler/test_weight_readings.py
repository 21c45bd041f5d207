import pytest

from tests.support.exchanges import exchange
from turnstile.addon.tracelog.records import WeightReading
from turnstile.compiler.weight_readings import WeightReadings


def reading(weight_version: str | None, asked_at: float, answered_at: float | None = None) -> WeightReading:
    return WeightReading(
        weight_version=weight_version, asked_at=asked_at, answered_at=answered_at or asked_at + 0.125
    )


@pytest.mark.parametrize(
    ("readings", "expected"),
    [
        ([], ()),
        ([reading("7", 1)], ()),
        ([reading("7", 20)], ()),
        ([reading("7", 1), reading("7", 20)], ("7",)),
        ([reading("7", 20), reading("7", 1)], ("7",)),
        ([reading("7", 1), reading("8", 20)], ("7", "8")),
        ([reading("7", 1), reading("8", 15), reading("7", 20)], ("7", "8", "7")),
        ([reading("6", 1), reading("7", 2), reading("7", 20), reading("8", 21)], ("7",)),
        ([reading("7", 1), reading(None, 2), reading(None, 20), reading("7", 30)], ("7",)),
        ([reading("", 1), reading("", 20)], ("",)),
    ],
)
def test_the_last_reading_before_and_the_first_after_count(
    readings: list[WeightReading], expected: tuple[str, ...]
) -> None:
    """The exchange goes on from second 10 to 20."""
    assert WeightReadings(readings).around(exchange(1, started_at=10.0, duration_s=10.0)) == expected


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (reading("7", 9, 10.5), reading("7", 20)),  # perhaps answered after the first token was sampled
        (reading("7", 9, 10), reading("7", 19.5, 21)),  # perhaps answered before the last one was
    ],
)
def test_a_reading_that_overlaps_the_exchange_is_neither_before_nor_after(
    before: WeightReading, after: WeightReading
) -> None:
    assert WeightReadings([before, after]).around(exchange(1, started_at=10.0, duration_s=10.0)) == ()


def test_a_reading_that_overlaps_the_beginning_can_tell_that_the_version_moved() -> None:
    readings = WeightReadings([reading("7", 1), reading("8", 9, 11), reading("8", 20)])
    assert readings.around(exchange(1, started_at=10.0, duration_s=10.0)) == ("7", "8")


def test_a_slow_answer_does_not_hide_the_reading_before_it() -> None:
    readings = WeightReadings([reading("7", 1, 2), reading("8", 3, 15), reading("8", 4, 5), reading("8", 20)])
    assert readings.around(exchange(1, started_at=10.0, duration_s=10.0)) == ("7", "8")
