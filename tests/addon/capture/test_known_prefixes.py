import json
from typing import Any

import pytest

from tests.support.chat import compact
from tests.support.moe_server import ANSWER, MoeServer, row_numbers
from turnstile.addon.capture.known_prefixes import OVERLAP_ROWS, KnownPrefixes, Resent, readings_of
from turnstile.addon.capture.routes import Route
from turnstile.addon.capture.token_texts import prompt_text

QUESTION = {"role": "user", "content": "what is two and two , and how do you know it ?"}
ANSWERED = [QUESTION, {"role": "assistant", "content": ANSWER}]
MORE = {"role": "user", "content": "and why is it not five ?"}
ROUTE = Route("chat", "/v1/chat/completions", "g", "r")


def two_turns() -> list[dict[str, Any]]:
    return [*ANSWERED, MORE]


def three_turns() -> list[dict[str, Any]]:
    return [*two_turns(), ANSWERED[1], MORE]


class Harness:
    """Asks a server by what is known, and has what it answers learnt."""

    def __init__(self, server: MoeServer | None = None, **known: Any) -> None:
        self.known = KnownPrefixes(**known)
        self.server = server or MoeServer()
        self.reply: Any = None

    def ask(self, messages: list[dict[str, Any]], **fields: Any) -> int:
        """The start that was asked for."""
        start = self.start_for(messages, **fields)
        self.get(messages, start, **fields)
        return start

    def start_for(self, messages: list[dict[str, Any]], route: Route = ROUTE, **fields: Any) -> int:
        resent = self.known.look_up(route, self.body(messages, **fields))
        assert resent is not None
        return resent.start

    def get(
        self, messages: list[dict[str, Any]], start: int, *, is_recorded: bool = True, **fields: Any
    ) -> None:
        resent = self.known.look_up(ROUTE, self.body(messages, **fields))
        assert resent is not None
        asked = {"messages": messages, "return_routed_experts": True, "routed_experts_start_len": start}
        status, body = self.server.answer(asked | fields)
        assert status == 200
        self.reply = json.loads(body)
        self.known.learn(resent, readings_of(body), start=start, is_recorded=is_recorded)

    def body(self, messages: list[dict[str, Any]], **fields: Any) -> bytes:
        return compact({"model": "m", "messages": messages} | fields)

    @property
    def meta_info(self) -> Any:
        return self.reply["choices"][0]["meta_info"]

    def tokens(self) -> int:
        """Of the latest exchange."""
        return int(self.meta_info["prompt_tokens"] + self.meta_info["completion_tokens"])


@pytest.fixture
def trusting() -> Harness:
    """It has seen an answer come back as the tokens that were sampled."""
    harness = Harness()
    assert [harness.ask(ANSWERED[:1]), harness.ask(two_turns())] == [0, 0]
    return harness


def test_what_nobody_has_told_is_asked_for_whole() -> None:
    harness = Harness()
    assert harness.ask(ANSWERED[:1]) == 0
    assert harness.start_for([MORE]) == 0


def test_rows_of_the_exchange_that_is_resent_are_left_out_but_for_an_overlap(trusting: Harness) -> None:
    known = trusting.tokens()
    start = trusting.ask(three_turns())
    assert start == known - 1 - OVERLAP_ROWS
    came = row_numbers(trusting.meta_info["routed_experts"])
    assert came == list(range(start, trusting.tokens() - 1))
    assert came[OVERLAP_ROWS] == known - 1  # of the token that was sampled last


def test_until_an_answer_has_come_back_only_what_was_cached_counts() -> None:
    harness = Harness()
    harness.ask(ANSWERED[:1])
    harness.get(ANSWERED[:1], 0)  # again: now all of the prompt but its last token was cached
    cached = harness.meta_info["cached_tokens"]
    assert cached == harness.meta_info["prompt_tokens"] - 1
    assert harness.start_for(two_turns()) == cached - 1 - OVERLAP_ROWS


def test_where_a_template_drops_answers_no_row_is_lost() -> None:
    harness = Harness(MoeServer(drops_answers=True))
    messages: list[dict[str, Any]] = [QUESTION]
    starts = []
    for _ in range(5):
        starts.append(harness.ask(messages))
        assert harness.meta_info["cached_tokens"] >= starts[-1]
        messages = [*messages, ANSWERED[1], MORE]
    assert starts == sorted(starts)
    assert starts[-1] > 0


def test_an_answer_that_did_not_come_back_ends_the_trust(trusting: Harness) -> None:
    trusting.server.drops_answers = True
    trusting.ask([MORE])
    shorter = [MORE, ANSWERED[1], QUESTION]
    trusting.get(shorter, 0)
    cached = trusting.meta_info["cached_tokens"]
    assert trusting.start_for([*shorter, ANSWERED[1], MORE]) == max(0, cached - 1 - OVERLAP_ROWS)


def test_a_backend_that_forgot_says_nothing_of_answers(trusting: Harness) -> None:
    trusting.server.flush()
    trusting.get(three_turns(), 0)
    assert trusting.start_for([*three_turns(), ANSWERED[1], MORE]) == trusting.tokens() - 1 - OVERLAP_ROWS


def test_several_samples_say_nothing_of_answers() -> None:
    harness = Harness(MoeServer(drops_answers=True))
    harness.ask([QUESTION])
    longer = [QUESTION, ANSWERED[1], {"role": "user", "content": "and why ? " * 9}]
    harness.get(longer, 0, n=2)
    cached = harness.meta_info["cached_tokens"]
    assert harness.start_for([*longer, ANSWERED[1], MORE]) == cached - 1 - OVERLAP_ROWS


def test_rows_that_were_computed_anew_and_did_not_come_are_asked_for_by_the_next_turn(
    trusting: Harness,
) -> None:
    assert trusting.start_for(three_turns()) > 0
    trusting.server.flush()
    trusting.ask(three_turns())
    assert trusting.meta_info["cached_tokens"] == 0
    assert trusting.ask([*three_turns(), ANSWERED[1], MORE]) == 0
    assert trusting.start_for([*three_turns(), ANSWERED[1], MORE, ANSWERED[1], MORE]) > 0


def test_rows_of_a_request_that_was_taken_off_the_device_are_asked_for_by_the_next_turn(
    trusting: Harness,
) -> None:
    trusting.server.num_retractions = 1
    assert trusting.ask(three_turns()) > 0
    assert trusting.start_for([*three_turns(), ANSWERED[1], MORE]) == 0


def test_what_rests_on_a_prefix_that_was_withdrawn_meanwhile_is_not_remembered(trusting: Harness) -> None:
    start = trusting.start_for(three_turns())
    resent = trusting.known.look_up(ROUTE, trusting.body(three_turns()))
    assert resent is not None
    trusting.get(three_turns(), start, is_recorded=False)
    _, reply = trusting.server.answer(
        {"messages": three_turns(), "return_routed_experts": True, "routed_experts_start_len": start}
    )
    trusting.known.lose(resent)
    trusting.known.learn(resent, readings_of(reply), start=start, is_recorded=True)
    assert trusting.start_for([*three_turns(), ANSWERED[1], MORE]) == 0


def test_an_exchange_that_is_not_in_the_log_is_not_known(trusting: Harness) -> None:
    earlier = trusting.start_for(three_turns())
    trusting.get(three_turns(), earlier, is_recorded=False)
    assert trusting.start_for([*three_turns(), ANSWERED[1], MORE]) == earlier


@pytest.mark.parametrize(
    "changed",
    [
        [QUESTION, {"role": "assistant", "content": "five"}, MORE],
        [MORE, *ANSWERED[1:], MORE],
        [{"role": "system", "content": "Be brief."}, *ANSWERED, MORE],
        [QUESTION, MORE],
    ],
)
def test_a_changed_history_is_asked_for_whole(trusting: Harness, changed: list[dict[str, Any]]) -> None:
    assert trusting.start_for(changed) == 0


def test_an_answer_in_other_clothes_is_the_same(trusting: Harness) -> None:
    parts = {"role": "assistant", "content": [{"type": "text", "text": ANSWER}], "tool_calls": None}
    assert trusting.start_for([QUESTION, parts, MORE]) == trusting.start_for(two_turns()) > 0


def test_a_prefix_is_known_to_its_own_rollout_and_prompt_only(trusting: Harness) -> None:
    assert trusting.start_for(two_turns()) > 0
    others: list[dict[str, Any]] = [
        {"route": Route("chat", "/v1/chat/completions", "g", "other")},
        {"route": Route("chat", "/v1/chat/completions", "g", None)},
        {"route": Route("chat", "/v1/chat/completions", "other", "r")},
        {"model": "another"},
        {"tools": [{"type": "function", "function": {"name": "f"}}]},
        {"chat_template_kwargs": {"enable_thinking": False}},
    ]
    assert [trusting.start_for(two_turns(), **other) for other in others] == [0] * len(others)
    assert trusting.start_for(two_turns(), temperature=0.5, seed=3) > 0


def test_each_of_several_samples_is_known_by_its_own_answer() -> None:
    harness = Harness()
    harness.ask(ANSWERED[:1])
    resent = harness.known.look_up(ROUTE, harness.body(ANSWERED[:1], n=2))
    assert resent is not None
    _, body = harness.server.answer({"messages": [QUESTION], "return_routed_experts": True, "n": 2})
    reply = json.loads(body)
    reply["choices"][1]["message"]["content"] = "another"
    harness.known.learn(resent, readings_of(compact(reply)), start=0, is_recorded=True)
    another = [QUESTION, {"role": "assistant", "content": "another"}, MORE]
    assert harness.start_for(two_turns()) == harness.start_for(another) > 0


def test_new_weights_end_what_is_known(trusting: Harness) -> None:
    trusting.known.weights_seen(None)
    trusting.known.weights_seen("step-1")
    assert trusting.start_for(two_turns()) > 0
    trusting.known.weights_seen("step-2")
    assert trusting.start_for(two_turns()) == 0


def test_a_reply_of_new_weights_to_a_part_of_the_rows_is_not_remembered(trusting: Harness) -> None:
    trusting.server.weight_version = "step-2"
    assert trusting.ask(three_turns()) > 0
    assert trusting.start_for([*three_turns(), ANSWERED[1], MORE]) == 0


@pytest.mark.parametrize(
    "field",
    [{"num_retractions": 1}, {"routed_experts": None}, {"routed_experts": ""}, {"cached_tokens": None}],
)
def test_a_reply_that_does_not_prove_its_rows_is_not_remembered(
    trusting: Harness, field: dict[str, Any]
) -> None:
    earlier = trusting.start_for(three_turns())
    resent = trusting.known.look_up(ROUTE, trusting.body(three_turns()))
    assert resent is not None
    _, body = trusting.server.answer({"messages": three_turns(), "return_routed_experts": True})
    reply = json.loads(body)
    reply["choices"][0]["meta_info"] |= field
    trusting.known.learn(resent, readings_of(compact(reply)), start=0, is_recorded=True)
    assert trusting.start_for([*three_turns(), ANSWERED[1], MORE]) <= earlier


@pytest.mark.parametrize("reply", [b"", b"{}", b"[1]", b'{"choices": []}'])
def test_an_unreadable_reply_to_a_part_of_the_rows_makes_the_next_turn_ask_for_all(
    trusting: Harness, reply: bytes
) -> None:
    resent = trusting.known.look_up(ROUTE, trusting.body(three_turns()))
    assert resent is not None
    assert resent.start > 0
    trusting.known.learn(resent, readings_of(reply), start=resent.start, is_recorded=True)
    assert trusting.start_for(three_turns()) == 0


def test_a_refused_start_ends_the_trust(trusting: Harness) -> None:
    resent = trusting.known.look_up(ROUTE, trusting.body(three_turns()))
    assert resent is not None
    trusting.known.refused(resent)
    trusting.get(three_turns(), 0)
    cached = trusting.meta_info["cached_tokens"]
    assert trusting.start_for([*three_turns(), ANSWERED[1], MORE]) == cached - 1 - OVERLAP_ROWS


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{", b'{"messages": [\xff]}', b'{"messages": ' + b"[" * 99_999]
)
def test_what_is_no_chat_request_repeats_nothing(body: bytes) -> None:
    assert KnownPrefixes().look_up(ROUTE, body) is None


def test_the_exchanges_longest_unused_are_forgotten() -> None:
    harness = Harness(exchanges=2)
    for _ in range(2):
        harness.get([QUESTION], 0)  # the second time from the cache
    for number in range(2):
        assert harness.start_for(two_turns()) > 0
        harness.get([{"role": "user", "content": f"question {number}"}], 0)
    assert harness.start_for(two_turns()) > 0  # used in between
    for number in range(2, 4):
        harness.get([{"role": "user", "content": f"question {number}"}], 0)
    assert harness.start_for(two_turns()) == 0


class ToldHarness(Harness):
    """Its server tells a prompt beforehand."""

    def start_for(self, messages: list[dict[str, Any]], route: Route = ROUTE, **fields: Any) -> int:
        return self.settled(messages, self.server.ids(self.server.prompt(messages))).start

    def settled(self, messages: list[dict[str, Any]], ids: list[int]) -> Resent:
        resent = self.known.look_up(ROUTE, self.body(messages))
        assert resent is not None
        return self.known.settled(resent, prompt_text(compact(ids)))


def test_the_ids_of_a_prompt_tell_at_once_what_it_shares() -> None:
    harness = ToldHarness()
    assert harness.ask(ANSWERED[:1]) == 0
    for messages in (two_turns(), three_turns()):
        known = harness.tokens()
        assert harness.ask(messages) == known - 1 - OVERLAP_ROWS


@pytest.mark.parametrize("server", [MoeServer(respells_from=12), MoeServer(drops_answers=True)])
def test_what_comes_back_as_other_tokens_is_asked_for_again(server: MoeServer) -> None:
    harness = ToldHarness(server)
    harness.ask(ANSWERED[:1])
    for messages in (two_turns(), three_turns()):
        computed, prompt = harness.server.cache[-1], harness.server.prompt(messages)
        shared = next(at for at, (a, b) in enumerate(zip(computed, prompt, strict=False)) if a != b)
        assert harness.ask(messages) == shared - 1 - OVERLAP_ROWS > 0
        assert harness.meta_info["cached_tokens"] >= shared


def test_rows_that_did_not_come_are_asked_for_whatever_is_shared() -> None:
    harness = ToldHarness()
    harness.ask(ANSWERED[:1])
    harness.server.flush()
    assert harness.ask(two_turns()) > 0
    assert harness.start_for(three_turns()) == 0


def test_ids_that_were_not_those_of_the_prompt_are_not_believed_again() -> None:
    harness = ToldHarness(MoeServer(respells_from=3))
    harness.ask(ANSWERED[:1])
    sampled = harness.server.ids([*ANSWER.split(), "<end>"])
    wrong = harness.server.ids(harness.server.prompt(ANSWERED[:1])) + sampled
    resent = harness.settled(two_turns(), wrong)
    assert resent.start == harness.tokens() - 1 - OVERLAP_ROWS
    asked = {"messages": two_turns(), "return_routed_experts": True, "routed_experts_start_len": resent.start}
    _, reply = harness.server.answer(asked)
    harness.server.cache.append(harness.server.prompt(two_turns()))
    harness.known.learn(resent, readings_of(reply), start=resent.start, is_recorded=True)
    assert not harness.known.believes_told
    assert harness.start_for(three_turns()) == 0  # of the second turn, nothing is known


def test_a_start_that_is_refused_ends_the_belief_in_ids() -> None:
    harness = ToldHarness()
    harness.ask(ANSWERED[:1])
    harness.known.refused(
        harness.settled(two_turns(), harness.server.ids(harness.server.prompt(two_turns())))
    )
    assert not harness.known.believes_told


def test_where_the_ids_of_an_exchange_are_forgotten_those_of_a_prompt_tell_nothing() -> None:
    harness = ToldHarness(text_bytes=0)
    harness.ask(ANSWERED[:1])
    assert harness.ask(two_turns()) == 0
    assert harness.ask(three_turns()) == harness.start_for(three_turns()) > 0


def test_another_backend_is_believed_anew() -> None:
    harness = ToldHarness()
    harness.ask(ANSWERED[:1])
    told = harness.server.ids(harness.server.prompt(two_turns()))
    harness.known.refused(harness.settled(two_turns(), told))
    harness.known.clear()
    assert not harness.known.believes_told  # new weights have the same template
    harness.known.begin_anew()
    assert harness.known.believes_told
    assert harness.start_for(two_turns()) == 0


def test_that_answers_come_back_as_they_were_is_not_believed_of_another_backend(trusting: Harness) -> None:
    trusting.known.begin_anew()
    trusting.server.flush()
    trusting.ask([QUESTION])
    assert trusting.start_for(two_turns()) == 0
