import asyncio
import hashlib
import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.support.backend import Backend, Received, Reply, running_backend
from turnstile.addon.capture import backend_watch
from turnstile.addon.capture.backend_watch import BackendWatch
from turnstile.addon.tracelog.records import WeightReading

Learned = list[Mapping[str, Any]]


@pytest.fixture
def own_backend() -> Iterator[Backend]:
    with running_backend() as backend:
        yield backend


async def test_the_backend_is_probed_once_for_many_requests(own_backend: Backend) -> None:
    learned: Learned = []
    readings: list[WeightReading] = []
    watch = BackendWatch(own_backend.url, "auto", learned.append, readings.append)
    facts = await asyncio.gather(*(watch.facts(None) for _ in range(5)))
    assert {(found.kind, found.version) for found in facts if found} == {("sglang", (0, 5, 23))}
    assert await watch.facts(None) is facts[0]
    assert [received.path for received in own_backend.probes] == ["/server_info", "/model_info"]
    assert learned == [facts[0].as_record() if facts[0] else None]
    assert [reading.weight_version for reading in readings] == ["step-1"]
    assert readings[0].asked_at <= readings[0].answered_at


async def test_a_backend_that_was_away_is_asked_again(own_backend: Backend) -> None:
    learned: Learned = []
    watch = BackendWatch(own_backend.url, "auto", learned.append)
    await watch.facts(None)
    own_backend.server_info["version"] = "0.5.24"
    watch.was_away()
    facts = await watch.facts(None)
    assert facts is not None
    assert (
        [found["version_text"] for found in learned] == ["0.5.23", facts.version_text] == ["0.5.23", "0.5.24"]
    )


async def test_a_backend_that_is_down_has_no_facts_until_it_is_up(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with running_backend() as gone:
        port = gone.port
    watch = BackendWatch(f"http://127.0.0.1:{port}", "auto", lambda facts: None)
    assert await watch.facts(None) is None
    assert await watch.facts(None) is None
    assert watch.problem is not None
    assert "refused" in watch.problem
    assert len(caplog.records) == 1
    with running_backend(port):
        assert await watch.facts(None) is not None
    assert watch.problem is None


def wants_key(received: Received) -> Reply:
    if received.headers.get("authorization") != "Bearer right":
        return Reply(b'{"error": "Unauthorized"}', status=401)
    return Reply(b'{"tokenizer_path": "t", "version": "0.5.23"}')


async def test_a_backend_that_wants_a_key_is_probed_with_the_harnesss_own(own_backend: Backend) -> None:
    own_backend.guard = wants_key
    watch = BackendWatch(own_backend.url, "auto", lambda facts: None)
    watch.start()
    facts = await watch.facts("Bearer right")
    assert facts is not None
    assert facts.version == (0, 5, 23)


async def test_a_key_that_was_refused_is_not_tried_again(own_backend: Backend) -> None:
    own_backend.guard = wants_key
    watch = BackendWatch(own_backend.url, "auto", lambda facts: None)
    assert await watch.facts("Bearer wrong") is None
    tried = len(own_backend.probes)
    assert await watch.facts("Bearer wrong") is None
    assert len(own_backend.probes) == tried
    assert await watch.facts("Bearer right") is not None


async def test_a_backend_that_tells_nothing_is_unknown_unless_the_user_says_what_it_is(
    own_backend: Backend, caplog: pytest.LogCaptureFixture
) -> None:
    own_backend.guard = lambda received: Reply(b"{}", status=404)
    watch = BackendWatch(own_backend.url, "auto", lambda facts: None)
    facts = await watch.facts(None)
    assert facts is not None
    assert facts.kind == "unknown"
    assert "set turnstile_backend=sglang" in caplog.text
    assert "set turnstile_backend=sglang" in (watch.problem or "")
    facts = await BackendWatch(own_backend.url, "sglang", lambda facts: None).facts(None)
    assert facts is not None
    assert facts.kind == "sglang"


async def test_other_keys_cost_a_probe_each_five_seconds_at_most(own_backend: Backend) -> None:
    clock = [100.0]
    own_backend.guard = wants_key
    watch = BackendWatch(own_backend.url, "auto", lambda facts: None, clock=lambda: clock[0])
    await watch.start()
    tried = []
    for clock[0], key in ((100.0, "a"), (100.0, "b"), (104.9, "c"), (105.0, "d"), (109.9, "right")):
        before = len(own_backend.probes)
        assert await watch.facts(f"Bearer {key}") is None
        tried += [key] if len(own_backend.probes) > before else []
    assert tried == ["a", "d"]
    clock[0] = 110.0
    found = await asyncio.gather(*(watch.facts("Bearer right") for _ in range(3)))  # they share one
    assert [facts is not None for facts in found] == [True] * 3


async def test_of_refused_keys_digests_are_kept_and_not_all(
    own_backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend_watch, "REFUSED_KEYS", 2)
    clock = itertools.count(0.0, 10.0)
    own_backend.guard = wants_key
    watch = BackendWatch(own_backend.url, "auto", lambda facts: None, clock=lambda: next(clock))
    tried = []
    for key in ("a", "b", "a", "c", "a", "b"):
        before = len(own_backend.probes)
        assert await watch.facts(f"Bearer {key}") is None
        tried += [key] if len(own_backend.probes) > before else []
    assert tried == ["a", "b", "c", "b"]  # b was the one used longest ago
    assert set(watch._refused_keys) == {hashlib.sha256(f"Bearer {key}".encode()).digest() for key in "ab"}


async def test_what_a_backend_lacks_is_said_once_and_forgotten_when_it_is_mended(
    own_backend: Backend, caplog: pytest.LogCaptureFixture
) -> None:
    lacking = True
    watch = BackendWatch(
        own_backend.url,
        "auto",
        lambda facts: None,
        shortcoming_of=lambda facts: f"{facts.kind} lacks something" if lacking else None,
    )
    for _ in range(2):
        await watch.facts(None)
        watch.was_away()
    assert watch.shortcoming == "sglang lacks something"
    assert [record.levelname for record in caplog.records if "lacks" in record.message] == ["WARNING"]
    lacking = False
    await watch.facts(None)
    assert watch.shortcoming is None
