"""Commands that a message tells the user to type."""

import shlex
import shutil
import sys
from pathlib import Path


def as_typed(*arguments: object) -> str:
    """A command line of this `turnstile`: by its path where the bare name is not found, or is another."""
    return shlex.join([_program(), *map(str, arguments)])


def _program() -> str:
    running, found = Path(sys.argv[0]), shutil.which("turnstile")
    is_known = running.name != "turnstile" or (found is not None and running.samefile(found))
    return "turnstile" if is_known else str(running)
