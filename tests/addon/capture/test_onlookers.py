import pytest
from mitmproxy.http import HTTPFlow
from mitmproxy.test import tflow

from tests.support.chat import compact, completion
from tests.support.exchanges import exchange
from turnstile.addon.capture.onlookers import KeptReplies, Onlookers
from turnstile.addon.tracelog.records import Exchange, Splice

EXCHANGE = exchange(reply=compact(completion()))


@pytest.fixture
def flow() -> HTTPFlow:
    return tflow.tflow(resp=True)


def test_where_nobody_can_look_nothing_is_done(flow: HTTPFlow) -> None:
    onlookers = Onlookers()
    onlookers.show(flow, EXCHANGE, None)
    onlookers.show_unrecorded(flow, "full")
    assert (flow.comment, flow.metadata, onlookers.kept.get(flow.id)) == ("", {}, None)


def test_an_interface_gets_comments_and_replies(flow: HTTPFlow) -> None:
    onlookers = Onlookers()
    onlookers.in_interface = True
    onlookers.show(flow, EXCHANGE, None)
    assert flow.comment == "g  2+2 tokens  stop"
    assert onlookers.kept.get(flow.id) == EXCHANGE.reply
    onlookers.show_unrecorded(flow, "full")
    assert flow.comment.endswith("not recorded: full")


def test_a_file_of_flows_gets_comments(flow: HTTPFlow) -> None:
    onlookers = Onlookers()
    onlookers.in_file = True
    onlookers.show(flow, EXCHANGE, None)
    assert flow.comment == "g  2+2 tokens  stop"
    assert onlookers.kept.get(flow.id) is None


def kept(*exchanges: Exchange, limit_bytes: int) -> list[str]:
    """Of exchanges that are kept one after the other those that still are."""
    replies = KeptReplies(limit_bytes)
    for each in exchanges:
        replies.keep(each.exchange_id, each)
    return [each.exchange_id[-1] for each in exchanges if replies.get(each.exchange_id) is not None]


def test_the_oldest_replies_give_way() -> None:
    three = [exchange(number, reply_headers=(), reply=b"x" * 10) for number in (1, 2, 3)]
    assert kept(*three, limit_bytes=30) == ["1", "2", "3"]
    assert kept(*three, limit_bytes=29) == ["2", "3"]


def test_a_reply_beyond_the_limit_pushes_none_out() -> None:
    small, large = (exchange(size, reply_headers=(), reply=b"x" * size) for size in (1, 9))
    assert kept(small, large, limit_bytes=5) == ["1"]


def test_of_an_exchange_only_the_reply_takes_room() -> None:
    image = Splice(0, 0, b"x" * 100)
    one = exchange(request=b"x" * 100, splices=(image,), reply_headers=(("ab", "cd"),), reply=b"x")
    assert kept(one, limit_bytes=5) == ["1"]
    assert kept(one, limit_bytes=4) == []
