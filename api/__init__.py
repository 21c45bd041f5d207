"""What `import turnstile` gives: training sequences from trace logs.

    import turnstile

    for sequence in turnstile.compile_logs("traces/"):
        ...  # sequence.tokens, sequence.loss_mask, sequence.logprobs

The names below are imported when they are first used, so that `import turnstile` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from turnstile.compiler.compilation import Compilation, compile_logs
    from turnstile.compiler.export import read_sequences
    from turnstile.compiler.finding import Finding
    from turnstile.compiler.sequence import TrainingSequence

__all__ = ["Compilation", "Finding", "TrainingSequence", "compile_logs", "read_sequences"]

_HOMES = {
    "Compilation": "turnstile.compiler.compilation",
    "Finding": "turnstile.compiler.finding",
    "TrainingSequence": "turnstile.compiler.sequence",
    "compile_logs": "turnstile.compiler.compilation",
    "read_sequences": "turnstile.compiler.export",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("importlib.metadata").version("turnstile-rl")
    if name not in _HOMES:
        raise AttributeError(f"module 'turnstile' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
