"""The whole way on one machine: a backend, the proxy, an agent on the OpenAI client, the compiler.

Without a backend of the user's, one is replayed from `turnstile.sample_traces`: the answers of a real
SGLang, whose model was tiny and random.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.resources import as_file, files
from pathlib import Path

import openai

from turnstile.compiler.compilation import Compilation, compile_logs
from turnstile.compiler.export import format_named
from turnstile.demo_agent import SPELLINGS, asked_whole, run_rollout
from turnstile.mitmdump_process import running_proxy
from turnstile.recorded_replies import RecordedReplies
from turnstile.replay_server import ReplayServer

GROUP = "demo"
SAMPLE = "tool_loop.tslog"
SAMPLE_LOG = files("turnstile.sample_traces") / SAMPLE
SEQUENCES = "sequences.jsonl"

Say = Callable[[str], object]


def run_demo(directory: Path, backend_url: str | None, say: Say) -> Compilation:
    """Plays the demo's rollouts against `backend_url`, else the replayed backend, and compiles the log.

    The log and the sequences are left in `directory`; `say` is told, a line at a time, what happens. Raises
    ProxyStartError when the proxy does not come up and openai.OpenAIError when the backend does not answer.
    """
    log = directory / "traces"
    with _backend(backend_url, say) as url, running_proxy(url, log) as proxy:
        say(f"mitmdump with the addon listens on {proxy.address}, in front of {url}")
        for spelling in SPELLINGS:
            base_url = f"http://{proxy.address}/group/{GROUP}/rollout/{spelling.rollout_id}/v1"
            with openai.OpenAI(base_url=base_url, api_key="none", max_retries=0) as client:
                words = run_rollout(client, _model(client), spelling, asked_whole)
            say(f"rollout {spelling.rollout_id}: 3 turns, the agent's answer: {words}")
        proxy.flush()
    compilation, output = compile_logs([log]), directory / SEQUENCES
    with format_named(None, output).open_writer(output) as writer:
        for sequence in compilation:
            writer.write(sequence)
    return compilation


@contextmanager
def _backend(url: str | None, say: Say) -> Iterator[str]:
    if url is not None:
        yield url
        return
    with as_file(SAMPLE_LOG) as sample, _replayed(sample) as replayed:
        say(f"a recorded SGLang answers on {replayed.removeprefix('http://')}")
        yield replayed


@contextmanager
def _replayed(log: Path) -> Iterator[str]:
    with RecordedReplies([log]) as replies, ReplayServer(replies, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.port}"
        finally:
            server.shutdown()
            thread.join()


def _model(client: openai.OpenAI) -> str:
    return client.models.list().data[0].id
