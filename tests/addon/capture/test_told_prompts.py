"""Prompts that a stand-in tells beforehand, through the real mitmdump."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.backend import Backend, Received, Reply, running_backend
from tests.support.mitmdump import Proxy, running_mitmdump
from tests.support.moe_server import MoeServer, row_numbers
from tests.support.moe_turns import ask, starts, turns
from turnstile.addon.capture.known_prefixes import OVERLAP_ROWS

MOE = {"enable_return_routed_experts": True, "context_length": 4096}


@pytest.fixture
def server() -> MoeServer:
    return MoeServer(tokenizes=True, respells_from=12)


@pytest.fixture
def moe_backend(server: MoeServer) -> Iterator[Backend]:
    with running_backend(server_info=MOE) as backend:
        backend.script = server
        yield backend


@pytest.fixture
def delta(moe_backend: Backend, log_directory: Path) -> Iterator[Proxy]:
    with running_mitmdump(moe_backend.url, log_directory, moe="delta") as proxy:
        yield proxy


def asked_to_tell(backend: Backend) -> int:
    return sum(received.path == "/tokenize" for received in backend.received)


def assert_rows_known(proxy: Proxy) -> None:
    """Every row of an exchange is its own, or that of an earlier one whose tokens go as far."""
    earlier: list[list[int]] = []
    for exchange in proxy.exchanges("g"):
        (choice,) = json.loads(exchange.reply)["choices"]
        info = choice["meta_info"]
        ids = [*choice["prompt_token_ids"], *(row[1] for row in info["output_token_logprobs"])]
        start = len(ids) - 1 - len(row_numbers(info["routed_experts"]))
        assert start == 0 or any(ids[:start] == other[:start] for other in earlier)
        earlier.append(ids)


def telling(server: MoeServer, reply: Callable[[Received], Reply]) -> Callable[[Received], Reply]:
    return lambda received: reply(received) if received.path == "/tokenize" else server(received)


def test_answers_that_come_back_as_other_tokens_lose_no_row(delta: Proxy, moe_backend: Backend) -> None:
    turns(delta, 4)
    assert_rows_known(delta)
    found = starts(moe_backend)
    assert found == sorted({*found})  # more is left out with every turn, from the second on
    assert asked_to_tell(moe_backend) == 3  # nothing is known of the first


def test_a_prompt_is_not_told_where_answers_come_back_as_they_were(
    delta: Proxy, moe_backend: Backend, server: MoeServer
) -> None:
    server.respells_from = None
    turns(delta, 4)
    assert_rows_known(delta)
    assert [start > 0 for start in starts(moe_backend)] == [False, True, True, True]
    assert asked_to_tell(moe_backend) == 1  # the second turn shows it


def test_an_answer_that_comes_back_otherwise_after_all_has_all_rows_told(
    delta: Proxy, moe_backend: Backend, server: MoeServer
) -> None:
    server.respells_from = None
    messages = turns(delta, 3)
    server.respells_from = 12
    ask(delta, messages)
    assert asked_to_tell(moe_backend) == 1
    assert starts(moe_backend)[-1] == 0  # it is asked once more
    last = delta.exchanges("g")[-1]
    assert json.loads(last.all_rows_reply)["choices"][0]["meta_info"]["completion_tokens"] == 1
    ask(delta, messages)
    assert asked_to_tell(moe_backend) == 2


def test_answers_that_a_template_drops_lose_no_row(
    delta: Proxy, moe_backend: Backend, server: MoeServer
) -> None:
    server.drops_answers = True
    turns(delta, 4)
    assert_rows_known(delta)
    assert 0 not in starts(moe_backend)[1:]


def test_a_backend_that_cannot_tell_is_asked_once(
    delta: Proxy, moe_backend: Backend, server: MoeServer
) -> None:
    server.tokenizes, server.respells_from = False, None
    turns(delta, 4)
    assert asked_to_tell(moe_backend) == 1
    assert_rows_known(delta)
    assert [start > 0 for start in starts(moe_backend)] == [False, False, True, True]


def test_a_backend_that_hangs_is_left_alone_and_no_row_lost(
    delta: Proxy, moe_backend: Backend, server: MoeServer
) -> None:
    def hang(received: Received) -> Reply:
        received.wait_until_closed()
        return Reply(b"{}")

    moe_backend.script = telling(server, hang)
    turns(delta, 4)
    assert asked_to_tell(moe_backend) == 1
    assert_rows_known(delta)
    assert [start > 0 for start in starts(moe_backend)] == [False, False, True, True]


@pytest.mark.parametrize(
    ("status", "answer"), [(200, b"nonsense"), (200, b'{"tokens": ["1"], "count": 1}'), (500, b"")]
)
def test_a_backend_that_answers_nonsense_tells_nothing(
    delta: Proxy, moe_backend: Backend, server: MoeServer, answer: bytes, status: int
) -> None:
    server.respells_from = None
    moe_backend.script = telling(server, lambda _: Reply(answer, status=status))
    turns(delta, 3)
    assert_rows_known(delta)
    assert [start > 0 for start in starts(moe_backend)] == [False, False, True]


def test_ids_of_another_prompt_only_ask_for_more_rows(
    delta: Proxy, moe_backend: Backend, server: MoeServer
) -> None:
    moe_backend.script = telling(server, lambda _: Reply(b'{"tokens": [1, 2, 3], "count": 3}'))
    turns(delta, 3)
    assert starts(moe_backend) == [0, 0, 0]


def test_a_prompt_in_tokens_is_not_tokenised(delta: Proxy, moe_backend: Backend) -> None:
    turns(delta, 3, input_ids=[1, 2, 3])
    assert asked_to_tell(moe_backend) == 0


def test_a_limit_and_the_rows_are_told_by_one_request(
    delta: Proxy, moe_backend: Backend, server: MoeServer
) -> None:
    group = json.dumps({"group_id": "g", "max_trajectory_tokens": 1000}).encode()
    assert delta.ask("POST", "/turnstile/groups", group).status == 200
    messages = turns(delta, 3)
    assert asked_to_tell(moe_backend) == 3
    last = moe_backend.received[-1].json
    assert last["max_completion_tokens"] == 1000 - len(server.prompt(messages[:-2]))
    exchange = json.loads(delta.exchanges("g")[-2].reply)["choices"][0]
    assert last["routed_experts_start_len"] < len(exchange["prompt_token_ids"]) + 12 - OVERLAP_ROWS


def test_a_backend_that_comes_back_is_asked_anew_whether_it_tells(
    delta: Proxy, moe_backend: Backend, server: MoeServer
) -> None:
    server.tokenizes = False
    turns(delta, 2)
    assert asked_to_tell(moe_backend) == 1
    server.tokenizes = True
    moe_backend.script = lambda _: Reply(b"{}", status=502)  # it is replaced behind its gateway
    assert delta.ask("POST", "/group/g/v1/chat/completions", b'{"messages": []}').status == 502
    moe_backend.script = server
    turns(delta, 3)
    assert asked_to_tell(moe_backend) == 3  # of the first turn nothing is known
