from pathlib import Path
from typing import Any

import pytest
from mitmproxy.http import HTTPFlow

from tests.support.chat import choice, compact, completion
from tests.support.exchanges import exchange
from turnstile.addon.capture import web_page
from turnstile.addon.capture.log_flows import flow_of
from turnstile.addon.capture.web_page import group_page, overview_page, texts_in
from turnstile.compiler.standing import Standing

REPLY = compact(completion())


def flow(number: int, group: str, rollout: str | None, **fields: Any) -> HTTPFlow:
    of = exchange(number, group_id=group, rollout_id=rollout, **{"reply": REPLY} | fields)
    return flow_of(of, Path("t.tslog"))


def reply_of(flow: HTTPFlow) -> bytes:
    assert flow.response is not None
    return flow.response.content or b""


def test_the_overview_has_groups_rollouts_and_exchanges() -> None:
    page = overview_page([flow(1, "b", None), flow(2, "a", "r"), flow(3, "b", None, missing=("logprobs",))])
    order = ["/turnstile/group/a", "<h3>r</h3>", "000002/", "/turnstile/group/b", "000001/", "000003/"]
    places = [page.index(text) for text in order]
    assert places == sorted(places)
    assert 'class="wrong">b  2+2 tokens  stop  missing logprobs<' in page
    assert page.count('class="wrong"') == 1


def test_the_overview_tells_splits_from_what_is_wrong() -> None:
    split = flow_of(exchange(1, reply=REPLY), Path("t.tslog"), Standing("e", 2, "retokenized"))
    page = overview_page([split, flow(2, "g", None, missing=("logprobs",))])
    assert 'class="split">g  turn 2  2+2 tokens  stop  split: retokenized<' in page
    assert (page.count('class="split"'), page.count('class="wrong"')) == (1, 1)


def test_the_texts_of_tokens_are_those_of_the_replies_that_can_be_read() -> None:
    sampled = ((-0.1, 5, "<b>"), (-0.7, 6, "\ufffd"), (-1.0, 7, ""))
    readable = flow(1, "a", None, reply=compact(completion(choice(sampled=sampled))))
    assert texts_in([flow(2, "a", None, reply=b"{}"), readable], reply_of) == {5: "<b>"}


def test_texts_are_taken_from_so_much_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_page, "PAGE_BYTES", len(REPLY))
    other = compact(completion(choice(sampled=((-0.1, 5, "x"),))))
    flows = [flow(1, "a", None), flow(2, "a", None, reply=other)]
    assert texts_in(flows, reply_of) == {19: "4", 151645: "<|im_end|>"}


def test_an_overview_of_nothing_says_so() -> None:
    assert "Nothing has been captured yet." in overview_page([])


def test_a_group_shows_its_tokens_shaded_by_their_logprobs() -> None:
    sampled = ((0.0, 5, "<b>"), (-0.7, 6, "x"), (-20.0, 7, "y"), (None, 8, "z"))
    page = group_page("a", [flow(1, "a", None, reply=compact(completion(choice(sampled=sampled))))], reply_of)
    assert '<span class="s0" title="5, logprob 0.0">&lt;b&gt;</span>' in page
    assert '<span class="s5" title="6, logprob -0.7">x</span>' in page
    assert '<span class="s9" title="7, logprob -20.0">y</span>' in page
    assert '<span class="unknown" title="8, logprob None">z</span>' in page


def test_a_group_shows_no_other_group() -> None:
    page = group_page("a", [flow(1, "a", None), flow(2, "b", None)], reply_of)
    assert ("000001/" in page, "000002/" in page) == (True, False)


def test_what_cannot_be_read_is_said() -> None:
    page = group_page("a", [flow(1, "a", None, reply=b"{}"), flow(2, "a", None)], reply_of)
    assert page.count("no tokens can be shown: UndecodableReply") == 1
    assert "&lt;|im_end|&gt;" in page


def test_a_page_reads_only_so_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_page, "PAGE_BYTES", len(REPLY))
    page = group_page("a", [flow(1, "a", None), flow(2, "a", None)], reply_of)
    assert (page.count("<pre>"), page.count("this page has read enough")) == (1, 1)
