import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnstile.addon.backends.row_placement import AmbiguousRouting, Placement, UndecodableRouting, placed

COUNTS = 4, 2  # 5 rows


def place(size: int, row_size: int | None = 4, layers: int | None = None, start: int = 0) -> Placement:
    return placed(size, row_size, layers, start, COUNTS)


def misfit(size: int, row_size: int | None = 4, layers: int | None = None, start: int = 0) -> str:
    with pytest.raises(UndecodableRouting) as error:
        place(size, row_size, layers, start)
    return str(error.value)


def ambiguity(size: int, row_size: int | None = 4, layers: int | None = None, start: int = 0) -> str:
    with pytest.raises(AmbiguousRouting) as error:
        place(size, row_size, layers, start)
    return str(error.value)


@pytest.mark.parametrize(
    ("size", "start", "first", "rows"),
    [
        (20, 0, 0, 5),
        (24, 0, 0, 5),  # with the last token's row
        (8, 3, 3, 2),
        (12, 3, 3, 2),
        (20, 3, 0, 5),  # the start was passed over
        (24, 3, 0, 5),
        (0, 5, 5, 0),
        (0, 9, 5, 0),  # a start behind the end wants no row either
        (4, 9, 5, 0),
    ],
)
def test_a_number_of_rows_tells_where_they_begin(size: int, start: int, first: int, rows: int) -> None:
    assert place(size, start=start) == Placement(first, rows, 4)


@pytest.mark.parametrize(
    ("size", "start", "message"),
    [
        (0, 0, "0 ids are 0 rows of 4, expected 5 for 4 prompt and 2 sampled ids"),
        (22, 0, "22 ids are 5.5 rows of 4, expected 5 for 4 prompt and 2 sampled ids"),
        (28, 0, "28 ids are 7 rows of 4, expected 5 for 4 prompt and 2 sampled ids"),
        (16, 3, "16 ids are 4 rows of 4, expected 2 for 4 prompt and 2 sampled ids from row 3 on"),
        (8, 9, "8 ids are 2 rows of 4, expected 0 for 4 prompt and 2 sampled ids from row 5 on"),
    ],
)
def test_any_other_number_of_rows_contradicts_the_ids(size: int, start: int, message: str) -> None:
    assert misfit(size, start=start) == message


def test_as_many_rows_from_either_start_tell_nothing() -> None:
    assert ambiguity(20, start=1) == "20 ids can be 5 rows of 4 from 0 on or 4 rows of 4 from 1 on"


def test_the_number_of_ids_alone_tells_the_size_of_a_row() -> None:
    assert place(20, None) == Placement(0, 5, 4)
    assert place(24, None) == Placement(0, 5, 4)
    assert place(8, None, start=3) == Placement(3, 2, 4)
    assert (
        misfit(19, None)
        == "19 ids are no whole number for each row, expected 5 for 4 prompt and 2 sampled ids"
    )


def test_ids_that_can_be_rows_of_two_sizes_tell_nothing() -> None:
    assert ambiguity(60, None) == "60 ids can be 5 rows of 10 from 0 on or 5 rows of 12 from 0 on"
    assert ambiguity(10, None, start=3) == "10 ids can be 5 rows of 2 from 0 on or 2 rows of 5 from 3 on"


def test_a_row_has_as_many_ids_for_every_layer() -> None:
    assert place(60, None, layers=5) == Placement(0, 5, 10)
    assert place(60, None, layers=6) == Placement(0, 5, 12)
    assert ambiguity(60, None, layers=2) == ambiguity(60, None)
    assert misfit(20, None, layers=3) == (
        "20 ids are no whole number for each row of 3 layers, expected 5 for 4 prompt and 2 sampled ids"
    )


def test_where_no_row_was_due_no_ids_tell_no_size() -> None:
    assert ambiguity(0, None, start=5) == "no ids came, and no row was due"
    assert place(0, 4, start=5) == Placement(5, 0, 4)


@given(st.integers(1, 5), st.integers(1, 4), st.integers(0, 10), st.integers(1, 4), st.booleans(), st.data())
def test_what_a_server_sent_is_placed_where_it_belongs_or_tells_nothing(
    prompt: int, sampled: int, start: int, row_size: int, passes_over: bool, data: st.DataObject
) -> None:
    whole = prompt + sampled - 1
    first = 0 if passes_over else min(start, whole)
    size = (whole - first + data.draw(st.integers(0, 1))) * row_size
    known, layers = data.draw(st.sampled_from([(row_size, None), (None, None), (None, row_size)]))
    try:
        assert placed(size, known, layers, start, (prompt, sampled)) == Placement(
            first, whole - first, row_size
        )
    except AmbiguousRouting:
        assert known is None or start
