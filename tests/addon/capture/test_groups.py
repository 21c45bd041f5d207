from tests.support.backend import chat_reply
from tests.support.exchanges import exchange
from turnstile.addon.capture import groups
from turnstile.addon.capture.groups import Groups, GroupState


def counts(state: GroupState) -> tuple[int, ...]:
    fields = state.as_json()
    return tuple(fields[name] for name in ("exchanges", "captured", "incomplete", "refused", "rollouts"))


def test_each_exchange_counts_for_what_came_of_it() -> None:
    state = GroupState("g")
    state.note(exchange(1, reply=chat_reply({}), rollout_id="a"))
    state.note(exchange(2, reply=chat_reply({"n": 2}), rollout_id="b", missing=("logprobs",)))
    state.note(exchange(3, outcome="refused", status=None, reply=b"", rollout_id="b"))
    state.note(exchange(4, outcome="client_left", reply=chat_reply({})))
    state.note(exchange(5, status=400, reply=b'{"usage": {"prompt_tokens": 1, "completion_tokens": 1}}'))
    assert counts(state) == (5, 1, 1, 1, 2)
    assert (state.prompt_tokens, state.sampled_tokens) == (6, 6)


def test_the_groups_used_last_are_remembered() -> None:
    found = Groups(at_most=2)
    first = found.used("a")
    found.used("b")
    assert found.used("a") is first
    found.used("c")
    assert (found.find("a"), found.find("b")) == (first, None)


def test_of_a_group_the_rollouts_seen_last_are_remembered() -> None:
    state = GroupState("g")
    for number in range(groups.ROLLOUTS + 5):
        state.note(exchange(number, rollout_id=f"r{number}"))
        state.note(exchange(number, rollout_id=f"r{number}"))
    assert state.rollouts == groups.ROLLOUTS + 5
    assert len(state._seen) == groups.ROLLOUTS
