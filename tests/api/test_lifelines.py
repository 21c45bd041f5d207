import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from turnstile import lifelines
from turnstile.lifelines import end, hold

READS_TO_ITS_END = "import sys; print('up', flush=True); sys.stdin.read(); sys.exit(7)"
IGNORES_SIGTERM = (
    "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('up', flush=True)\nsignal.pause()\n"
)


@pytest.fixture
def started(request: pytest.FixtureRequest) -> Iterator["subprocess.Popen[bytes]"]:
    command = [sys.executable, "-c", request.param]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"up\n"
        hold(child)
        yield child
        child.kill()


@pytest.mark.parametrize("started", [READS_TO_ITS_END], indirect=True)
def test_a_child_is_ended_once(started: "subprocess.Popen[bytes]") -> None:
    end(started)
    assert started.returncode == -signal.SIGTERM
    end(started)


@pytest.mark.parametrize("started", [IGNORES_SIGTERM], indirect=True)
def test_a_child_that_does_not_end_is_killed(
    started: "subprocess.Popen[bytes]", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifelines, "STOP_S", 0.1)
    end(started)
    assert started.returncode == -signal.SIGKILL


@pytest.mark.parametrize("started", [READS_TO_ITS_END], indirect=True)
def test_a_process_that_is_forked_off_neither_holds_nor_ends_it(started: "subprocess.Popen[bytes]") -> None:
    release, hold_on = os.pipe()
    forked = os.fork()
    if forked == 0:
        end(started)  # another's
        os.close(hold_on)
        os.read(release, 1)
        os._exit(0)
    assert started.poll() is None
    assert started.stdin is not None
    started.stdin.close()  # as the end of this process would
    assert started.wait(20) == 7
    os.close(hold_on)
    os.close(release)
    assert os.waitpid(forked, 0)[1] == 0
