import asyncio
import json
import threading
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mitmproxy.http import Request

from tests.support.backend import Backend
from tests.support.mitmdump import Answered, Proxy, full_disk
from turnstile.addon.capture.group_control import make_group
from turnstile.addon.capture.groups import Groups
from turnstile.addon.capture.recorder import Recorder
from turnstile.addon.tracelog.reader import log_paths, open_log
from turnstile.addon.tracelog.records import Entry, Group, Reward
from turnstile.addon.tracelog.writer import LogWriter

CHAT = b'{"model": "m", "messages": []}'


def post(proxy: Proxy, path: str, body: Any) -> Answered:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    return proxy.ask("POST", f"/turnstile/{path}", text, {"content-type": "application/json"})


def error(answer: Answered) -> Any:
    assert answer.json["error"].keys() == {"message", "type", "param", "code"}
    return answer.json["error"]


def logged(proxy: Proxy, group_id: str) -> tuple[list[Group], list[Reward]]:
    """What the log holds of a group; no flush is needed."""
    groups, rewards = list[Group](), list[Reward]()
    for path in log_paths([proxy.log_directory]):
        with open_log(path) as log:
            groups += [group for group in log.groups_made() if group.group_id == group_id]
            rewards += [reward for reward in log.rewards() if reward.group_id == group_id]
    return groups, rewards


def test_a_group_is_made_and_recorded(proxy: Proxy) -> None:
    said = {"group_id": "made", "max_trajectory_tokens": 4096, "metadata": {"task": "x"}}
    answer = post(proxy, "groups", said)
    assert (answer.status, answer.json) == (200, {"group_id": "made"})
    ((group,), _) = logged(proxy, "made")
    assert (group.max_trajectory_tokens, group.metadata) == (4096, {"task": "x"})


def test_a_group_without_an_id_gets_one(proxy: Proxy) -> None:
    one, other = (post(proxy, "groups", {}).json["group_id"] for _ in range(2))
    assert one != other
    assert len(logged(proxy, one)[0]) == 1
    assert proxy.ask("POST", f"/group/{one}/v1/chat/completions", CHAT).status == 200


def test_the_same_group_once_more_changes_nothing_and_another_is_refused(proxy: Proxy) -> None:
    said = {"group_id": "twice", "metadata": {"task": "x"}}
    assert [post(proxy, "groups", said).status for _ in range(2)] == [200, 200]
    refused = post(proxy, "groups", said | {"max_trajectory_tokens": 10})
    assert (refused.status, error(refused)["code"]) == (409, "group_exists")
    assert "max_trajectory_tokens unset and not 10" in error(refused)["message"]
    assert len(logged(proxy, "twice")[0]) == 1


def test_a_group_that_was_only_used_can_still_be_made(proxy: Proxy) -> None:
    proxy.ask("POST", "/group/used/v1/chat/completions", CHAT)
    assert post(proxy, "groups", {"group_id": "used", "metadata": {"a": 1}}).status == 200
    shown = proxy.ask("GET", "/turnstile/groups/used").json
    assert (shown["exchanges"], shown["metadata"]) == (1, {"a": 1})


def test_a_group_shows_what_came_of_it(proxy: Proxy, backend: Backend) -> None:
    post(proxy, "groups", {"group_id": "counted", "metadata": {"task": "x"}})
    for rollout in ("a", "b", "b"):
        proxy.ask("POST", f"/group/counted/rollout/{rollout}/v1/chat/completions", CHAT)
    post(proxy, "groups/counted/reward", {"reward": 1})
    assert proxy.ask("GET", "/turnstile/groups/counted").json == {
        "group_id": "counted",
        "max_trajectory_tokens": None,
        "metadata": {"task": "x"},
        "exchanges": 3,
        "captured": 3,
        "incomplete": 0,
        "refused": 0,
        "rollouts": 2,
        "prompt_tokens": 9,
        "sampled_tokens": 6,
        "rewards": 1,
    }
    assert len(backend.received) == 3


def test_a_group_that_is_not_known_is_404(proxy: Proxy) -> None:
    for path in ("never", "a b", "x" * 129):
        answer = proxy.ask("GET", f"/turnstile/groups/{path.replace(' ', '%20')}")
        assert (answer.status, error(answer)["code"]) == (404, "group_not_found")


def test_rewards_are_all_recorded(proxy: Proxy) -> None:
    said: list[dict[str, Any]] = [
        {"reward": 0},
        {"reward": -1.5, "rollout_id": "r", "metadata": {"tests_passed": 3}},
        {"reward": 0.25, "sequence_id": "e-1.0"},
    ]
    for each in said:
        answer = post(proxy, "groups/rewarded/reward", each)
        assert (answer.status, answer.json) == (200, {"group_id": "rewarded", "recorded": True})
    _, rewards = logged(proxy, "rewarded")
    assert [(found.reward, found.rollout_id, found.sequence_id) for found in rewards] == [
        (0.0, None, None),
        (-1.5, "r", None),
        (0.25, None, "e-1.0"),
    ]
    assert rewards[1].metadata == {"tests_passed": 3}


@pytest.mark.parametrize(
    ("path", "body", "status", "param"),
    [
        ("groups", b"{", 400, None),
        ("groups", b"[]", 400, None),
        ("groups", {"group_id": "a/b"}, 400, "group_id"),
        ("groups", {"group_id": ".."}, 400, "group_id"),
        ("groups", {"max_trajectory_tokens": 0}, 400, "max_trajectory_tokens"),
        ("groups", {"metadata": "x"}, 400, "metadata"),
        ("groups", {"max_tokens": 1}, 400, "max_tokens"),
        ("groups", b'{"metadata": {"x": "' + b"x" * 65536 + b'"}}', 413, None),
        ("groups/bad/reward", b'{"reward": NaN}', 400, None),
        ("groups/bad/reward", b'{"reward": 1e999}', 400, "reward"),
        ("groups/bad/reward", {"reward": 1, "group_id": "bad"}, 400, "group_id"),
        ("groups/bad/reward", {"reward": 1, "sequence_id": "/etc"}, 400, "sequence_id"),
        ("groups/a%20b/reward", {"reward": 1}, 400, None),
    ],
)
def test_what_cannot_be_meant_is_refused_in_openais_shape(
    proxy: Proxy, path: str, body: Any, status: int, param: str | None
) -> None:
    answer = post(proxy, path, body)
    assert (answer.status, error(answer)["param"]) == (status, param)
    assert error(answer)["type"] == "invalid_request_error"
    assert logged(proxy, "bad") == ([], [])


def test_a_compressed_body_is_refused(proxy: Proxy) -> None:
    answer = proxy.ask("POST", "/turnstile/groups", b"x", {"content-encoding": "gzip"})
    assert (answer.status, error(answer)["code"]) == (415, "unsupported_encoding")


def test_what_cannot_be_written_is_said_and_can_be_sent_again(proxy: Proxy) -> None:
    said = {"group_id": "unwritten", "metadata": {"task": "x"}}
    with full_disk(proxy):
        assert post(proxy, "groups", said).status == 507
        assert post(proxy, "groups/unwritten/reward", {"reward": 1}).status == 507
    assert post(proxy, "groups", said).status == 200
    groups, rewards = logged(proxy, "unwritten")
    assert (len(groups), rewards) == (1, [])
    assert proxy.ask("GET", "/turnstile/groups/unwritten").json["rewards"] == 0


class HeldWriter(LogWriter):
    """Writes nothing until it may, and then fails so many times."""

    def __init__(self, directory: Path, failures: int) -> None:
        super().__init__(directory, program="test")
        self.go, self.failures = threading.Event(), failures

    def write(self, records: Sequence[Entry]) -> None:
        self.go.wait()
        self.failures -= 1
        if self.failures >= 0:
            raise OSError("the disk is full")
        super().write(records)


@pytest.mark.parametrize(("failures", "statuses", "made"), [(0, [200, 200], 1), (2, [507, 507], 0)])
async def test_the_same_group_at_the_same_time_waits_for_the_first_to_be_written(
    tmp_path: Path, failures: int, statuses: list[int], made: int
) -> None:
    writer = HeldWriter(tmp_path, failures)
    session: Any = SimpleNamespace(groups=Groups(), recorder=Recorder(writer, "record"))
    request = Request.make("POST", "http://proxy/turnstile/groups", json.dumps({"group_id": "same"}))
    posted = [asyncio.ensure_future(make_group(session, request)) for _ in range(2)]
    await asyncio.sleep(0)
    assert not any(each.done() for each in posted)
    writer.go.set()
    assert [answer.status for answer in await asyncio.gather(*posted)] == statuses
    session.recorder.close()
    with open_log(*log_paths([tmp_path])) as log:
        assert len(list(log.groups_made())) == made
