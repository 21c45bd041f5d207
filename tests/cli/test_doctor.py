import json
from collections.abc import Iterator
from importlib.resources import as_file, files
from threading import Thread

import pytest
from click.testing import CliRunner, Result

from turnstile.cli.main import main
from turnstile.doctor import Report
from turnstile.recorded_replies import RecordedReplies
from turnstile.replay_server import ReplayServer


@pytest.fixture(scope="module")
def replayed() -> Iterator[str]:
    """What `turnstile replay` serves."""
    sample = as_file(files("turnstile.sample_traces") / "tool_loop.tslog")
    with sample as log, RecordedReplies([log]) as replies, ReplayServer(replies, "127.0.0.1", 0) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.port}"
        server.shutdown()
        thread.join()


def doctor(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["doctor", *arguments])


def test_a_replayed_log_is_recognised_and_answers_no_question_of_its_own(replayed: str) -> None:
    result = doctor(replayed)
    assert result.exit_code == 1
    assert "SGLang 0.5.23" in result.stdout
    assert result.stderr == f"Error: a capture of {replayed} would be incomplete: chat completions\n"


def test_the_report_can_be_had_as_json(replayed: str) -> None:
    result = doctor(replayed, "--json")
    report = json.loads(result.stdout)
    assert (result.exit_code, report["kind"], report["complete"]) == (1, "sglang", False)
    assert [check["status"] for check in report["checks"]] == ["ok", "missing"]
    assert report["checks"][1]["found"].startswith("status 404: No recorded exchange answers")
    assert report["checks"][1]["advice"].startswith("this is `turnstile replay`")


def test_a_closed_port_ends_with_1_and_says_what_to_do() -> None:
    result = doctor("http://127.0.0.1:9")
    assert result.exit_code == 1
    assert "Connection refused" in " ".join(result.stdout.split())


@pytest.mark.parametrize(
    "url", ["127.0.0.1:30000", "ftp://host", "http://", "http://[::1", "http://host:port"]
)
def test_what_is_no_url_is_refused(url: str) -> None:
    result = doctor(url)
    assert (result.exit_code, "expected http://HOST:PORT" in result.stderr) == (2, True)


def test_only_the_key_that_is_meant_for_the_server_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    given = list[str | None]()

    def examined(url: str, api_key: str | None) -> Report:
        given.append(api_key)
        return Report(url, "sglang", None, ())

    monkeypatch.setattr("turnstile.doctor.examine", examined)
    monkeypatch.setenv("OPENAI_API_KEY", "of another service")
    monkeypatch.delenv("TURNSTILE_API_KEY", raising=False)
    assert doctor("http://host").exit_code == 0
    monkeypatch.setenv("TURNSTILE_API_KEY", "named")
    assert doctor("http://host").exit_code == 0
    assert doctor("http://host", "--api-key", "given").exit_code == 0
    assert given == [None, "named", "given"]
