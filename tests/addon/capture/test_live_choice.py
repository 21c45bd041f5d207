from pathlib import Path

import pytest

from turnstile.addon.backends.facts import BackendFacts
from turnstile.addon.capture.backend_watch import BackendWatch
from turnstile.addon.capture.fetched_images import FetchedImages
from turnstile.addon.capture.live_choice import fall_back, may_stream_live
from turnstile.addon.capture.options import Settings, Streaming
from turnstile.addon.capture.recorder import Recorder
from turnstile.addon.capture.session import Session
from turnstile.addon.capture.weight_reader import WeightReader
from turnstile.addon.tracelog.writer import LogWriter

PARSED = {"tool_call_parser": "qwen25"}
NEW = BackendFacts(kind="sglang", version=(0, 5, 20), version_text="0.5.20", model_info=PARSED)
OLD = BackendFacts(kind="sglang", version=(0, 5, 19), version_text="0.5.19", model_info=PARSED)
PLAIN = BackendFacts(kind="sglang", version=(0, 5, 23), version_text="0.5.23")
OTHER = BackendFacts(kind="vllm", version=(0, 33), version_text="0.33.0")
NAMELESS = BackendFacts(kind="sglang")


def session(directory: Path, streaming: Streaming) -> Session:
    settings = Settings(
        backend_url="http://127.0.0.1:9",
        log_directory=directory,
        rotate_bytes=1 << 30,
        backend="auto",
        streaming=streaming,
        moe="off",
        durability="record",
        on_log_error="fail",
        image_hosts=None,
        secret=b"",
        redacted_headers=frozenset(),
    )
    recorder = Recorder(LogWriter(directory, program="test"), "record")
    recorder.close()
    return Session(
        settings,
        recorder,
        BackendWatch(settings.backend_url, "auto", recorder.set_backend),
        WeightReader(settings.backend_url, recorder.record_at_once),
        FetchedImages(None),
    )


@pytest.mark.parametrize(
    ("facts", "live", "auto"),
    [
        (NEW, True, True),
        (PLAIN, True, False),  # loses logprobs
        (OLD, False, False),
        (OTHER, False, False),
        (NAMELESS, False, False),
        (None, False, False),
    ],
)
async def test_streams_are_live_where_the_option_and_the_backend_have_it(
    tmp_path: Path, facts: BackendFacts | None, live: bool, auto: bool
) -> None:
    assert not may_stream_live(session(tmp_path, "buffered"), facts)
    assert may_stream_live(session(tmp_path, "live"), facts) == live
    assert may_stream_live(session(tmp_path, "auto"), facts) == auto


async def test_that_live_streams_cannot_be_had_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    live, auto = session(tmp_path, "live"), session(tmp_path, "auto")
    for _ in range(2):
        may_stream_live(live, OLD)
        may_stream_live(auto, OLD)
    problem = (
        "streams are buffered: to be live they need SGLang 0.5.20 or later, and the backend is sglang 0.5.19"
    )
    assert [record.message for record in caplog.records] == [f"turnstile: {problem}"]
    assert (live.said, auto.said) == ({problem}, set())
    may_stream_live(live, NAMELESS)
    assert "the backend is sglang of no known version" in caplog.text


async def test_auto_falls_back_for_good_and_live_never(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    live, auto = session(tmp_path, "live"), session(tmp_path, "auto")
    for _ in range(2):
        fall_back(live, ("logprobs",))
        fall_back(auto, ("logprobs",))
    assert may_stream_live(live, NEW)
    assert not may_stream_live(auto, NEW)
    assert len(caplog.records) == 1


async def test_that_the_backend_is_not_known_is_said_to_who_asked_for_live_streams(tmp_path: Path) -> None:
    live, auto = session(tmp_path, "live"), session(tmp_path, "auto")
    for _ in range(2):
        may_stream_live(live, None)
        may_stream_live(auto, None)
    problem = "streams are buffered: it is not known yet what the backend is"
    assert (live.said, auto.said) == ({problem}, set())
