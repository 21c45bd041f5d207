from typing import Any

import pytest
from mitmproxy import flowfilter
from mitmproxy.http import HTTPFlow
from mitmproxy.test import tflow

from tests.support.chat import choice, compact, completion
from tests.support.exchanges import exchange
from turnstile.addon.capture.annotations import add_standing, annotate, is_annotated, note_unrecorded
from turnstile.compiler.standing import Standing

REPLY = compact(completion())
CONFIG = {"image_token_id": 9, "num_hidden_layers": 4, "num_experts_per_tok": 2}


def annotated(flow: HTTPFlow | None = None, **fields: Any) -> HTTPFlow:
    flow = flow or tflow.tflow(resp=True)
    annotate(flow, exchange(7, **{"reply": REPLY} | fields), CONFIG)
    return flow


def test_a_flow_tells_group_rollout_tokens_and_why_it_ended() -> None:
    flow = annotated(group_id="task-7", rollout_id="a")
    assert (flow.comment, flow.marked) == ("task-7/a  2+2 tokens  stop", "")
    assert flow.metadata == {
        "turnstile_exchange": "0123456789abcdef-000007",
        "turnstile_group": "task-7",
        "turnstile_rollout": "a",
        "turnstile_outcome": "complete",
        "turnstile_tokens": "2+2",
        "turnstile_finish": "stop",
        "turnstile_image_token": 9,
        "turnstile_experts": [4, 2],
    }


@pytest.mark.parametrize(
    ("fields", "comment"),
    [
        ({"missing": ("logprobs",)}, "g  2+2 tokens  stop  missing logprobs"),
        ({"status": 400, "reply": b"{}"}, "g  HTTP 400"),
        ({"outcome": "client_left", "reply": b"", "status": None, "delivered": False}, "g  client_left"),
        ({"delivered": False}, "g  2+2 tokens  stop  undelivered"),
        ({"error": "too slow"}, "g  2+2 tokens  stop  too slow"),
        ({"reply": b"{}"}, "g  no finish reason"),
        ({"reply": compact(completion(choice(finish_reason="abort")))}, "g  2+2 tokens  abort"),
    ],
)
def test_what_went_wrong_is_said_and_marked(fields: dict[str, Any], comment: str) -> None:
    flow = annotated(**fields)
    assert (flow.comment, flow.marked) == (comment, ":warning:")


def test_a_compressed_reply_is_not_looked_into() -> None:
    flow = annotated(reply=b"\x1f\x8b", reply_headers=(("Content-Encoding", "gzip"),))
    assert (flow.comment, flow.marked) == ("g", "")


def test_the_users_own_comment_and_mark_stay() -> None:
    flow = tflow.tflow()
    flow.comment, flow.marked = "look here", ":red_circle:"
    annotated(flow, missing=("logprobs",))
    assert (flow.comment, flow.marked) == ("look here", ":red_circle:")


def test_metadata_can_be_filtered_by() -> None:
    flow = annotated(group_id="task-7", missing=("logprobs",))
    found = ["~meta turnstile_missing", '~meta "turnstile_group: task-7$"', "~comment task-7", "~marked"]
    assert [bool(flowfilter.match(each, flow)) for each in found] == [True] * 4
    assert not flowfilter.match("~meta turnstile_missing", annotated())


def test_an_exchange_that_could_not_be_written_says_so() -> None:
    flow = annotated()
    note_unrecorded(flow, "the disk is full")
    assert (flow.comment, flow.marked) == (
        "g  2+2 tokens  stop  not recorded: the disk is full",
        ":warning:",
    )


RETOKENIZED = Standing("e", turn=2, split="retokenized", left="d", findings=())


def test_what_became_of_an_exchange_is_said_once_it_is_known() -> None:
    flow = annotated(group_id="task-7", rollout_id="a")
    add_standing(flow, RETOKENIZED)
    assert flow.comment == "task-7/a  turn 2  2+2 tokens  stop  split: retokenized"
    assert flow.marked == ":scissors:"
    found = ["~meta turnstile_split", '~meta "turnstile_turn: 2$"', '~meta "turnstile_left: d"']
    assert [bool(flowfilter.match(each, flow)) for each in found] == [True] * 3


def test_a_turn_that_goes_on_is_not_marked() -> None:
    flow = annotated()
    add_standing(flow, Standing("e", turn=3))
    assert (flow.comment, flow.marked) == ("g  turn 3  2+2 tokens  stop", "")
    assert not flowfilter.match("~meta turnstile_split", flow)


def test_findings_are_said_where_capture_has_no_words_of_its_own() -> None:
    doubtful = Standing("e", 2, "retokenized", "d", ("missing_routing", "logprob_invalid"))
    flow, other = annotated(), annotated(missing=("logprobs",))
    for each in (flow, other):
        add_standing(each, doubtful)
    said = "g  turn 2  2+2 tokens  stop  split: retokenized  "
    assert (flow.comment, flow.marked) == (f"{said}missing_routing, logprob_invalid", ":warning:")
    assert (other.comment, other.marked) == (f"{said}missing logprobs", ":warning:")
    assert other.metadata["turnstile_findings"] == "missing_routing, logprob_invalid"


def test_what_the_user_wrote_meanwhile_stays() -> None:
    flow = annotated()
    flow.comment, flow.marked = "look here", ":red_circle:"
    add_standing(flow, RETOKENIZED)
    note_unrecorded(flow, "full")
    assert (flow.comment, flow.marked) == ("look here", ":red_circle:")
    assert flow.metadata["turnstile_split"] == "retokenized"


def test_only_a_captured_flow_is_annotated() -> None:
    assert is_annotated(annotated())
    assert not is_annotated(tflow.tflow())
    assert not is_annotated(None)
