"""The real mitmweb and mitmdump: what their users see of captured exchanges, live and from files."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.link_tree import ROOT
from tests.support.backend import EVENT_STREAM, Backend, Reply
from tests.support.chat import compact, completion
from tests.support.logs import answered_choice, stream_events
from tests.support.mitmdump import SCRIPT, Proxy, running_mitmdump, started_mitmdump
from tests.support.mitmweb import Interface, capturing_mitmweb, mitmweb_of_file, write_flows_of

TOOL_LOOP = ROOT / "sample_traces" / "tool_loop.tslog"
BODY = b'{"model": "m", "messages": [{"role": "user", "content": "2+2?"}]}'
STREAM = b'{"model": "m", "messages": [{"role": "user", "content": "2+2?"}], "stream": true}'
JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def flows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the tool loop."""
    path = tmp_path_factory.mktemp("flows") / "trace.mitm"
    write_flows_of(TOOL_LOOP, path)
    return path


@pytest.fixture(scope="module")
def capturing(
    shared_backend: Backend, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Interface, Proxy]]:
    log = tmp_path_factory.mktemp("web") / "log"
    with capturing_mitmweb(shared_backend.url, log, streaming="live") as found:
        yield found


def told(interface: Interface, group: str) -> list[tuple[str, str]]:
    """Comment and mark of a group's flows, once what is recorded is merged."""
    assert interface.get(f"/turnstile/group/{group}")[0] == 200  # is made behind what came before it
    flows = [flow for flow in interface.flows() if flow["comment"].startswith(f"{group}/")]
    return [(flow["comment"], flow["marked"]) for flow in flows]


def ask(proxy: Proxy, group: str, body: bytes = BODY) -> bytes:
    return proxy.ask("POST", f"/group/{group}/rollout/r/v1/chat/completions", body, JSON).body


def test_a_captured_exchange_is_shown_with_its_tokens_while_it_is_fresh(
    capturing: tuple[Interface, Proxy], backend: Backend
) -> None:
    interface, proxy = capturing
    assert b"prompt_token_ids" not in ask(proxy, "fresh")
    assert told(interface, "fresh") == [("fresh/r  turn 1  3+2 tokens  stop", "")]
    (flow,) = [each for each in interface.flows() if each["comment"].startswith("fresh/r")]
    reply, request = (interface.view(flow["id"], message) for message in ("response", "request"))
    assert (reply["view_name"], request["view_name"]) == ("Turnstile", "Turnstile")
    assert "prompt: 3 tokens, mask 0" in reply["text"]
    assert "user:\n    2+2?" in request["text"]
    assert "prompt_token_ids" not in interface.view(flow["id"], "response", "raw")["text"]


def test_a_live_stream_is_shown_with_its_tokens(capturing: tuple[Interface, Proxy], backend: Backend) -> None:
    interface, proxy = capturing
    backend.script = lambda received: Reply(stream_events([1, 2, 3], [4, 5]), headers=EVENT_STREAM)
    assert b"output_ids" not in ask(proxy, "streamed", STREAM)
    assert told(interface, "streamed") == [("streamed/r  turn 1  3+2 tokens  stop", "")]
    (flow,) = [each for each in interface.flows() if each["comment"].startswith("streamed/r")]
    assert '"<5>"' in interface.view(flow["id"], "response")["text"]


def test_an_exchange_that_lacks_something_is_marked(
    capturing: tuple[Interface, Proxy], backend: Backend
) -> None:
    interface, proxy = capturing
    backend.script = lambda received: Reply(b'{"choices": [{"index": 0, "message": {"content": "4"}}]}')
    ask(proxy, "lacking")
    comment = "lacking/r  missing prompt_token_ids, sampled_token_ids, logprobs"
    assert told(interface, "lacking") == [(comment, "⚠")]


def test_a_rollout_that_does_not_go_on_is_marked_while_it_is_captured(
    capturing: tuple[Interface, Proxy], backend: Backend
) -> None:
    interface, proxy = capturing
    for prompt_ids, sampled_ids in (([1, 2], [3]), ([1, 2, 3, 4], [5]), ([1, 2, 9, 4], [6])):
        answer = compact(completion(answered_choice(0, prompt_ids, sampled_ids)))
        backend.script = lambda received, answer=answer: Reply(answer)  # type: ignore[misc]
        ask(proxy, "parted")
    assert told(interface, "parted") == [
        ("parted/r  turn 1  2+1 tokens  stop", ""),
        ("parted/r  turn 2  4+1 tokens  stop", ""),
        ("parted/r  turn 3  4+1 tokens  stop  split: new_prompt", "✂"),
    ]
    split = [flow for flow in interface.flows() if "split" in flow["comment"]]
    assert "split: new_prompt\n" in interface.view(split[0]["id"], "response")["text"]


def test_a_file_of_flows_is_shown_and_nothing_is_captured(flows: Path, tmp_path: Path) -> None:
    with mitmweb_of_file(flows, tmp_path / "log", "-n") as (interface, _):
        shown = interface.flows()
        assert [(flow["comment"], flow["marked"]) for flow in shown] == [
            ("demo/steady  turn 1  191+27 tokens  tool_calls", ""),
            ("demo/steady  turn 2  237+27 tokens  tool_calls", ""),
            ("demo/steady  turn 3  284+11 tokens  stop", ""),
            ("demo/drifting  turn 1  191+52 tokens  tool_calls", ""),
            ("demo/drifting  turn 2  237+55 tokens  tool_calls  split: retokenized", "✂"),
            ("demo/drifting  turn 3  284+15 tokens  stop  split: retokenized", "✂"),
        ]
        reply = interface.view(shown[2]["id"], "response")
        assert "sampled: 11 tokens" in reply["text"]
    assert not (tmp_path / "log").exists()


def test_the_pages_of_the_groups_stand_behind_the_password(
    capturing: tuple[Interface, Proxy], backend: Backend
) -> None:
    interface, proxy = capturing
    ask(proxy, "paged")
    ask(proxy, "paged")
    assert told(interface, "paged")[1] == ("paged/r  turn 2  3+2 tokens  stop  split: sibling", "✂")
    status, page = interface.get("/turnstile")
    assert (status, "paged/r  turn 1  3+2 tokens  stop" in page) == (200, True)
    status, page = interface.get("/turnstile/group/paged")
    assert (status, "paged, so far" in page, page.count('href="/#/flows/')) == (200, True, 2)
    for path in ("/turnstile", "/turnstile/group/paged"):
        status, page = interface.get(path, password="wrong")
        assert (status, "paged" in page) == (403, False)


def test_without_its_log_the_page_of_a_group_shows_the_answers_of_the_flows(tmp_path: Path) -> None:
    log, flows = tmp_path / "moved.tslog", tmp_path / "trace.mitm"
    log.write_bytes(TOOL_LOOP.read_bytes())
    write_flows_of(log, flows)
    with mitmweb_of_file(flows, tmp_path / "none", "-n") as (interface, _):
        assert "Turnstile report" in interface.get("/turnstile/group/demo")[1]
        log.unlink()
        page = interface.get("/turnstile/group/demo")[1]
        assert ("Turnstile report" in page, page.count("<pre>")) == (False, 6)


def test_beside_a_file_of_flows_a_port_forwards_nothing(
    flows: Path, tmp_path: Path, backend: Backend
) -> None:
    listen = ("--listen-host", "127.0.0.1", "-p", "0")
    with mitmweb_of_file(flows, tmp_path / "log", *listen) as (_, web):
        web.port = int(web.wait_for_line(r"listening at [^ ]*:(\d+)\.")[1])
        answer = web.ask("POST", f"{backend.url}/v1/chat/completions", BODY, JSON)
        assert answer.status == 503
        assert "no backend is named" in answer.json["error"]["message"]
    assert backend.received == []
    assert not (tmp_path / "log").exists()


def test_mitmdump_reads_a_file_of_flows(flows: Path, tmp_path: Path) -> None:
    settings = ("--set", f"turnstile_log={tmp_path / 'log'}", "--set", "flow_detail=4")
    arguments = ("-n", "-r", str(flows), "-s", str(SCRIPT), *settings, "~meta turnstile_rollout:.drifting")
    with started_mitmdump(*arguments, log_directory=tmp_path / "log") as dump:
        assert dump.process.wait(30) == 0
        dump.stop()
    sampled = [line.strip() for line in dump.lines if "sampled:" in line]
    assert sampled == ["sampled: 52 tokens", "sampled: 55 tokens", "sampled: 15 tokens"]
    assert not (tmp_path / "log").exists()


def test_flows_that_mitmdump_saves_tell_of_their_exchanges(
    shared_backend: Backend, backend: Backend, tmp_path: Path
) -> None:
    saved = tmp_path / "saved.mitm"
    with running_mitmdump(shared_backend.url, tmp_path / "log", "-w", str(saved)) as proxy:
        ask(proxy, "saved")
        proxy.stop()
    with mitmweb_of_file(saved, tmp_path / "none", "-n") as (interface, _):
        (flow,) = interface.flows()
        assert flow["comment"] == "saved/r  3+2 tokens  stop"
        assert "`turnstile flows` makes flows" in interface.view(flow["id"], "response")["text"]
