import subprocess
import sys

import pytest

import turnstile
from turnstile.compiler.compilation import compile_logs
from turnstile.compiler.export import read_sequences
from turnstile.compiler.sequence import TrainingSequence


def test_the_names_are_those_of_the_compiler() -> None:
    assert (turnstile.compile_logs, turnstile.read_sequences) == (compile_logs, read_sequences)
    assert turnstile.TrainingSequence is TrainingSequence


def test_every_public_name_is_there_and_listed() -> None:
    assert all(hasattr(turnstile, name) for name in turnstile.__all__)
    assert set(turnstile.__all__) <= set(dir(turnstile))


def test_another_name_is_not_there() -> None:
    with pytest.raises(AttributeError, match="module 'turnstile' has no attribute 'Trainer'"):
        turnstile.Trainer  # noqa: B018


def test_importing_turnstile_imports_nothing_else() -> None:
    script = "import sys, turnstile; print([name for name in sys.modules if name.startswith('turnstile.')])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
