import math
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import openai
import pytest

import turnstile
from tests.support.backend import Backend, Reply, running_backend
from turnstile.addon.tracelog.reader import log_paths, open_log

MESSAGES: Any = [{"role": "user", "content": "2+2?"}]


@pytest.fixture(scope="module")
def backend() -> Iterator[Backend]:
    with running_backend() as made:
        yield made


@pytest.fixture(scope="module")
def proxy(backend: Backend) -> Iterator[turnstile.Proxy]:
    with turnstile.Proxy(backend_url=backend.url, model="Qwen/Qwen3-1.7B") as made:
        yield made


def any_(value: Any) -> Any:
    """What a program without types may hand over."""
    return value


def ask(url: str) -> str:
    with openai.OpenAI(base_url=url, api_key="none", max_retries=0) as client:
        answer = client.chat.completions.create(model="m", messages=MESSAGES)
    return answer.choices[0].message.content or ""


def is_gone(process_id: int) -> bool:
    """Whether the process has ended; it is no child of this one."""
    try:
        return Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_what_is_captured_comes_as_training_sequences(proxy: turnstile.Proxy) -> None:
    group_id = proxy.create_group(max_trajectory_tokens=4096, metadata={"task": "sum"})
    assert proxy.get_training_sequences(group_id) == []
    assert ask(f"http://{proxy.addr}/group/{group_id}/v1") == "4"
    (sequence,) = proxy.get_training_sequences(group_id)
    assert isinstance(sequence, turnstile.TrainingSequence)
    assert (sequence.group_id, sequence.tokens.tolist()) == (group_id, [1, 2, 3, 19, 151645])
    assert sequence.metadata == {"group": {"task": "sum"}}
    ask(proxy.base_url(group_id, "r"))
    proxy.add_reward(group_id, 0.5, rollout_id="r", metadata={"passed": 3})
    first, second = proxy.get_training_sequences(group_id)
    assert (first.reward, second.rollout_id, second.reward) == (None, "r", 0.5)
    assert second.metadata == {"group": {"task": "sum"}, "passed": 3}
    assert proxy.get_group(group_id)["captured"] == 2


def test_it_may_be_asked_while_traffic_goes_on(proxy: turnstile.Proxy) -> None:
    group_id = proxy.create_group()
    done = threading.Event()
    counts = []

    def watch() -> None:
        while not done.is_set():
            counts.append(len(proxy.get_training_sequences(group_id)))

    with ThreadPoolExecutor(5) as pool:
        watching = pool.submit(watch)
        asked = [pool.submit(ask, proxy.base_url(group_id, f"r{number}")) for number in range(12)]
        assert [each.result() for each in asked] == ["4"] * 12
        done.set()
        watching.result()
    assert counts == sorted(counts)
    whole = turnstile.compile_logs(proxy.log_dir, groups=[group_id])
    found = proxy.get_training_sequences(group_id)
    assert [each.sequence_id for each in found] == [each.sequence_id for each in whole]
    assert len(found) == 12


def test_what_cannot_be_meant_is_said_in_the_proxys_words(proxy: turnstile.Proxy) -> None:
    endless: dict[str, Any] = {}
    endless["self"] = endless
    group_id = proxy.create_group(group_id="mine", metadata={"a": 1})
    assert proxy.create_group(group_id="mine", metadata={"a": 1}) == group_id == "mine"
    for call, message in (
        (lambda: proxy.create_group(group_id="mine"), "group mine exists already, with other settings"),
        (lambda: proxy.create_group(max_trajectory_tokens=0), "max_trajectory_tokens is 0, expected"),
        (lambda: proxy.create_group(group_id="a/b"), "group_id is 'a/b', expected"),
        (lambda: proxy.add_reward("mine", math.nan), "NaN is no JSON number"),
        (lambda: proxy.add_reward("a b", 1.0), "bad group id"),
        (lambda: proxy.add_reward("mine", any_("x")), "reward is a str, expected a number"),
        (lambda: proxy.add_reward("mine", any_(None)), "reward is a NoneType, expected a number"),
        (lambda: proxy.add_reward("mine", 1.0, metadata={"a": {1}}), "cannot be written as JSON"),
        (lambda: proxy.add_reward("mine", 1.0, metadata=any_([1])), "metadata is a list, expected a mapping"),
        (lambda: proxy.create_group(metadata=endless), "cannot be written as JSON"),
        (lambda: proxy.get_group("never"), "this proxy knows no group 'never'"),
    ):
        with pytest.raises(turnstile.ProxyError) as caught:
            call()
        assert message in str(caught.value)


def test_several_run_side_by_side_and_into_one_directory(backend: Backend, tmp_path: Path) -> None:
    with (
        turnstile.Proxy(backend.url, log_dir=tmp_path) as one,
        turnstile.Proxy(backend.url, log_dir=tmp_path) as other,
    ):
        ask(one.base_url("g"))
        ask(other.base_url("g"))
        assert [len(each.get_training_sequences("g")) for each in (one, other)] == [1, 1]
    assert len(turnstile.compile_logs(tmp_path)) == 2
    for path in log_paths([tmp_path]):
        with open_log(path) as log:
            assert log.damage is None


def test_a_proxy_with_a_key_is_asked_with_it(backend: Backend) -> None:
    options = {"turnstile_secret": "the key"}
    with turnstile.Proxy(backend.url, options=options) as proxy:
        assert proxy.create_group(group_id="g") == "g"
        command_line = Path(f"/proc/{proxy._proxy.process_id}/cmdline").read_bytes()
        assert b"the key" not in command_line
        assert "the key" not in repr(proxy._proxy)


def test_a_closed_proxy_says_so(backend: Backend, tmp_path: Path) -> None:
    proxy = turnstile.Proxy(backend.url, log_dir=tmp_path)
    ask(proxy.base_url("g"))
    process_id = proxy._proxy.process_id
    proxy.close()
    proxy.close()
    assert not Path(f"/proc/{process_id}").exists()
    with pytest.raises(turnstile.ProxyError, match="the proxy is closed"):
        proxy.get_training_sequences("g")
    assert len(turnstile.compile_logs(tmp_path)) == 1


def test_a_temporary_folder_goes_with_the_proxy(backend: Backend) -> None:
    with turnstile.Proxy(backend.url) as proxy:
        assert log_paths([proxy.log_dir])
    assert not proxy.log_dir.exists()


def test_a_port_that_is_taken_is_named(backend: Backend) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        with pytest.raises(turnstile.ProxyStartError, match=rf"port {port} of 127\.0\.0\.1 is taken"):
            turnstile.Proxy(backend.url, port=port)


def test_a_backend_that_does_not_answer_is_named_unless_it_need_not_yet() -> None:
    with pytest.raises(turnstile.ProxyStartError, match="the backend cannot be reached: http"):
        turnstile.Proxy("http://127.0.0.1:9")
    with turnstile.Proxy("http://127.0.0.1:9", require_backend=False) as proxy:
        assert proxy.get_training_sequences("g") == []


def test_a_backend_that_wants_a_key_answers(backend: Backend) -> None:
    backend.guard = lambda received: Reply(b"{}", status=401)
    try:
        with turnstile.Proxy(backend.url) as proxy:
            assert proxy.addr.startswith("127.0.0.1:")
    finally:
        backend.guard = None


@pytest.mark.parametrize(
    "url",
    [
        "localhost:30000",
        "http://user:key@h:1/v1",
        "ftp://h",
        "http://",
        "http://[::1",
        "http://user:key@h:many",
        "http://h:70000",
        "http://user:key@\u2100",
    ],
)
def test_a_backend_url_is_a_scheme_a_host_and_a_port(url: str) -> None:
    with pytest.raises(turnstile.ProxyStartError, match="expected http://HOST:PORT without a path") as caught:
        turnstile.Proxy(url)
    assert "key" not in str(caught.value)


def test_a_bad_option_is_said_with_mitmdumps_words(backend: Backend) -> None:
    with pytest.raises(turnstile.ProxyStartError, match="turnstile_streaming='no': expected buffered or"):
        turnstile.Proxy(backend.url, options={"turnstile_streaming": "no"})


def test_without_mitmdump_it_says_what_to_install(
    backend: Backend, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(turnstile.ProxyStartError, match=r"no mitmdump beside .*: install mitmproxy"):
        turnstile.Proxy(backend.url)


PARENT = """
import os, sys, time
import turnstile
proxy = turnstile.Proxy(sys.argv[1], log_dir=sys.argv[2])
if os.fork() == 0:
    time.sleep(600)  # a worker that outlives it
    os._exit(0)
print(proxy._proxy.process_id, os.getpid(), flush=True)
os.wait()
"""


def test_a_proxy_ends_when_its_program_is_killed(backend: Backend, tmp_path: Path) -> None:
    command = [sys.executable, "-c", PARENT, backend.url, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as parent:
        try:
            assert parent.stdout is not None
            proxy_id = int(parent.stdout.readline().split()[0])
            assert not is_gone(proxy_id)
            watch = os.pidfd_open(proxy_id)
            parent.kill()
            ended = threading.Event()
            threading.Thread(target=_wait_for_exit, args=(watch, ended), daemon=True).start()
            assert ended.wait(20)
            assert is_gone(proxy_id)
        finally:
            os.killpg(parent.pid, signal.SIGKILL)
    (path,) = log_paths([tmp_path])
    with open_log(path) as log:
        assert log.damage is None


def _wait_for_exit(watch: int, ended: threading.Event) -> None:
    import select

    select.select([watch], [], [])
    os.close(watch)
    ended.set()
