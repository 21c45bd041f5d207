import subprocess
import sys
from math import inf
from pathlib import Path

import pytest

from tests.support.logs import FACTS, answered, write_log
from turnstile.addon.tracelog.errors import TraceLogError
from turnstile.addon.tracelog.writer import LogWriter
from turnstile.compiler.standing import Standing
from turnstile.live_merging import LiveMerging

FIRST, SECOND = answered(1, [1, 2], [3], rollout_id="r"), answered(2, [1, 2, 3, 4], [5], rollout_id="r")
LINKS = {FIRST.exchange_id: "/#/flows/f1/response"}


@pytest.fixture
def writer(tmp_path: Path) -> LogWriter:
    made = LogWriter(tmp_path, program="test")
    made.set_backend(FACTS)
    return made


def test_what_is_recorded_is_told_of_and_shown_as_it_comes(writer: LogWriter) -> None:
    merging, log = LiveMerging(), Path(writer.position.path)
    writer.write([FIRST])
    assert merging.standings(log, writer.position.offset, "g", inf) == [Standing(FIRST.exchange_id, 1)]
    page = merging.group_page(log, writer.position.offset, "g", {3: "three"}, LINKS).decode()
    assert ("g, so far" in page, "3 tokens" in page, '"3":"three"' in page) == (True, True, True)
    assert 'href="/#/flows/f1/response"' in page
    writer.write([SECOND])
    assert merging.standings(log, writer.position.offset, "g", inf) == [Standing(SECOND.exchange_id, 2)]
    assert "5 tokens" in merging.group_page(log, writer.position.offset, "g", {}, LINKS).decode()
    merging.close()
    writer.close()


def test_after_a_session_comes_another(tmp_path: Path) -> None:
    merging = LiveMerging()
    for part in ("1", "2"):
        writer = LogWriter(tmp_path / part, program="test")
        writer.write([FIRST])
        log, size = Path(writer.position.path), writer.position.offset
        assert len(merging.standings(log, size, "g", inf)) == 1
        assert b"3 tokens" in merging.group_page(log, size, "g", {}, {})
        merging.close()
        writer.close()


def test_a_page_is_made_of_logs_that_are_there(tmp_path: Path) -> None:
    logs = [write_log(tmp_path / part, each) for part, each in (("1", FIRST), ("2", SECOND))]
    page = LiveMerging().group_page_of_logs(logs, "g", {}, LINKS).decode()
    assert ("5 tokens" in page, "so far" in page, 'href="/turnstile"' in page) == (True, False, True)
    with pytest.raises(TraceLogError):
        LiveMerging().group_page_of_logs([tmp_path / "none.tslog"], "g", {}, {})


def test_loading_the_script_imports_nothing_of_the_compiler() -> None:
    script = (
        "import sys, turnstile_addon\n"
        "print([name for name in sys.modules if name.startswith(('turnstile.compiler', 'numpy'))])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")
