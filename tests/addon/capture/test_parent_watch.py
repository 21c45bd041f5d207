import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.mitmdump import SCRIPT, running_mitmdump
from turnstile.addon.capture.parent_watch import ENDS_WITH_STDIN
from turnstile.addon.tracelog.reader import log_paths, open_log


@pytest.mark.parametrize("watched", ["1", ""])
def test_mitmdump_ends_in_order_with_its_standard_input_where_that_is_wanted(
    tmp_path: Path, watched: str
) -> None:
    log = tmp_path / "log"
    command = [str(Path(sys.executable).with_name("mitmdump")), "-s", str(SCRIPT), "-p", "0"]
    command += ["--mode", "reverse:http://127.0.0.1:9", "--listen-host", "127.0.0.1"]
    for setting in (f"turnstile_log={log}", f"confdir={tmp_path / 'conf'}", "key_size=1024"):
        command += ["--set", setting]
    environment = {**os.environ, ENDS_WITH_STDIN: watched, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        while "recording into" not in process.stdout.readline():
            assert process.poll() is None
        process.stdin.close()
        if not watched:
            process.terminate()
        assert process.wait(20) == 0
    (path,) = log_paths([log])
    with open_log(path) as found:
        assert found.damage is None


def test_without_the_variable_an_empty_standard_input_ends_nothing(tmp_path: Path) -> None:
    with running_mitmdump("http://127.0.0.1:9", tmp_path / "log") as proxy:
        assert proxy.ask("GET", "/turnstile/health").status == 200
