"""What a browser shows of captured exchanges in mitmweb's own page."""

import json
from collections.abc import Iterator

import pytest

from tests.house.link_tree import ROOT
from tests.support.chromium import Page, browser_page, chromium
from tests.support.mitmweb import Interface, mitmweb_of_file, write_flows_of

TOOL_LOOP = ROOT / "sample_traces" / "tool_loop.tslog"
COLUMNS = ("path", "comment", "status")

pytestmark = pytest.mark.skipif(chromium() is None, reason="there is no chromium on this machine")


@pytest.fixture(scope="module")
def browsed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Interface, Page]]:
    """mitmweb with the flows of the tool loop, and a tab."""
    folder = tmp_path_factory.mktemp("browser")
    write_flows_of(TOOL_LOOP, folder / "trace.mitm")
    columns = [part for column in COLUMNS for part in ("--set", f"web_columns={column}")]
    executable = chromium()
    assert executable is not None
    with (
        mitmweb_of_file(folder / "trace.mitm", folder / "log", "-n", *columns) as (interface, _),
        browser_page(executable, folder / "profile") as page,
    ):
        page.resize(1400, 900)
        yield interface, page


def shows(page: Page, text: str) -> None:
    """Waits until the page has this text."""
    page.wait(f"document.body?.innerText.includes({json.dumps(text)})")


def test_the_list_shows_whose_an_exchange_is_and_the_view_its_tokens(browsed: tuple[Interface, Page]) -> None:
    interface, page = browsed
    third = interface.flows()[2]["id"]
    page.call("Page.navigate", url=f"{interface.url}#/flows/{third}/response")
    shows(page, "demo/drifting turn 3 284+15 tokens stop split: retokenized")
    shows(page, "Rome is warmer by 27 degrees.")
    shows(page, "sampled: 11 tokens")
    shows(page, '290      17   -2.70435     1  step-1   "2"')


def test_the_page_of_a_group_shows_its_sequences_with_coloured_tokens_and_leads_to_its_flows(
    browsed: tuple[Interface, Page],
) -> None:
    interface, page = browsed
    page.call("Page.navigate", url=interface.url.replace("/?", "/turnstile?"))
    page.wait("document.querySelector('a[href=\"/turnstile/group/demo\"]')")
    page.point_at('a[href="/turnstile/group/demo"]', click=True)
    shows(page, "2 rollouts, 4 sequences, 1,129 tokens")
    page.complaints.clear()  # mitmweb's own page has some
    page.point_at("#sequence-2 summary", click=True)
    shows(page, "resends an earlier answer unchanged")
    page.point_at("label[for=colour-logprob]", click=True)
    texts = "[...document.querySelectorAll('#sequence-2 .token')].map(each => each.innerText)"
    page.wait(f"{texts}.some(text => text.includes('name'))")
    assert page.complaints == []
    page.point_at("#sequence-2 a[href*='000005/response']", click=True)
    shows(page, "split: retokenized")
    shows(page, "sampled: 55 tokens")


def test_the_request_is_shown_as_a_conversation(browsed: tuple[Interface, Page]) -> None:
    interface, page = browsed
    third = interface.flows()[2]["id"]
    page.call("Page.navigate", url=f"{interface.url}#/flows/{third}/request")
    shows(page, "Which is warmer today, Oslo or Rome?")
    shows(page, 'calls temperature {"city": "Oslo", "hour": "68"}')
