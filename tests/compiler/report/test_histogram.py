import re

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.report_pages import text_of
from turnstile.compiler.report.histogram import histogram, number


def counts(drawing: str) -> list[int]:
    return [int(found.replace(",", "")) for found in re.findall(r"<title>[^:]*: ([\d,]+) things", drawing)]


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50))
@example([25.0, -5e-324])
@example([0.0, 5e-324])
def test_every_value_is_in_one_bar(values: list[float]) -> None:
    assert sum(counts(histogram(np.array(values), of="things", unit="u"))) == len(values)


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=50))
def test_every_integer_is_in_one_bar_of_whole_width(values: list[int]) -> None:
    drawing = histogram(np.array(values), of="things", unit="u")
    assert sum(counts(drawing)) == len(values)
    assert len(counts(drawing)) <= 26
    assert "e+" not in drawing


def test_logprobs_have_no_bar_above_zero() -> None:
    drawing = histogram(np.array([-3.0, -0.5, 0.0]), of="things", unit="logprob", by_magnitude=True)
    last = re.findall(r"<title>(.*?):", drawing)[-1]
    assert last.endswith("to 0")
    assert sum(counts(drawing)) == 3


def test_it_says_its_numbers_in_words() -> None:
    drawing = histogram(np.array([100, 300, 2000]), of="things", unit="tokens")
    said = "3 things; tokens from 100 to 2,000, median 300"
    assert f'aria-label="Histogram: {said}"' in drawing
    assert text_of(drawing).endswith(said)


def test_of_nothing_there_is_a_sentence() -> None:
    assert histogram(np.empty(0), of="things", unit="u") == '<p class="quiet">There are no things.</p>'


def test_numbers_are_short() -> None:
    assert [number(each) for each in (0, 12, 1234.5, 0.12345, -2.5)] == ["0", "12", "1,234", "0.123", "-2.5"]
