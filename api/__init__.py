"""What `import turnstile` gives: training sequences, from trace logs or from a proxy that runs.

    import turnstile

    for sequence in turnstile.compile_logs("traces/"):
        ...  # sequence.tokens, sequence.loss_mask, sequence.logprobs

    with turnstile.Proxy(backend_url="http://localhost:30000", model="Qwen/Qwen3-1.7B") as proxy:
        group_id = proxy.create_group(max_trajectory_tokens=4096)
        ...  # an OpenAI client at f"http://{proxy.addr}/group/{group_id}/v1"
        sequences = proxy.get_training_sequences(group_id)

The names below are imported when they are first used, so that `import turnstile` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from turnstile.async_proxy import AsyncProxy
    from turnstile.compiler.compilation import Compilation, compile_logs
    from turnstile.compiler.export import read_sequences
    from turnstile.compiler.finding import Finding
    from turnstile.compiler.sequence import TrainingSequence
    from turnstile.errors import ProxyError, ProxyStartError
    from turnstile.proxy import Proxy

__all__ = [
    "AsyncProxy",
    "Compilation",
    "Finding",
    "Proxy",
    "ProxyError",
    "ProxyStartError",
    "TrainingSequence",
    "compile_logs",
    "read_sequences",
]

_HOMES = {
    "AsyncProxy": "turnstile.async_proxy",
    "Compilation": "turnstile.compiler.compilation",
    "Finding": "turnstile.compiler.finding",
    "Proxy": "turnstile.proxy",
    "ProxyError": "turnstile.errors",
    "ProxyStartError": "turnstile.errors",
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
