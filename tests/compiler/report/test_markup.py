import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.report_pages import HOSTILE, data_of, text_of
from turnstile.compiler.report.markup import data_block, joined, tag


def test_text_is_escaped_and_markup_is_not() -> None:
    made = tag("p", tag("b", "a < b"), " & ", None, "c", class_="x")
    assert made == '<p class="x"><b>a &lt; b</b> &amp; c</p>'


def test_attributes_are_escaped_named_as_in_html_and_left_out_when_they_say_nothing() -> None:
    made = tag("a", "x", href='"><script>', data_sequence=3, hidden=True, open=False, title=None)
    assert made == '<a href="&quot;&gt;&lt;script&gt;" data-sequence="3" hidden>x</a>'


def test_void_elements_have_no_end() -> None:
    assert joined(tag("input", for_="a"), tag("rect", x=1)) == '<input for="a"><rect x="1"/>'


@given(st.text())
def test_a_reader_sees_the_text_that_was_put_in(text: str) -> None:
    seen = text_of(tag("p", text, title=text))
    assert seen == " ".join(text.replace("\r\n", "\n").replace("\0", "\0").split())


@given(st.recursive(st.text() | st.integers() | st.none(), st.lists))
def test_data_reads_back_and_nothing_in_it_ends_its_element(value: object) -> None:
    block = data_block("data", [value, HOSTILE])
    assert data_of(block, "data") == [value, HOSTILE]
    inside = block.removesuffix("</script>").partition(">")[2]
    assert inside.isascii()
    assert not {"<", ">", "&"} & set(inside)
    assert json.loads(inside) == [value, HOSTILE]


def test_what_json_has_not_is_an_error_and_not_a_broken_page() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        data_block("data", float("nan"))
