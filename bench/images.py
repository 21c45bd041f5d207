"""What an image in a request costs: mitmdump with the addon against bare mitmdump, over the same bytes.

As `capture`, with one client. A new screenshot is in its log for the first time; one that is sent again
stands at the beginning of the request, as in a conversation that goes on. A megabyte is one of the request,
in which images are base64.
"""

import asyncio
import base64
import random
import tempfile
from collections.abc import Iterator, Sequence

from capture import ADDON, ROUNDS, check_captured
from figures import Figure, run_alone
from load import Connection, Request, cpu_s, peak_memory_mib, send
from processes import Proxy, mitmdump, mock_backend
from recording import CHAT_PATH
from workloads import SMALL, calls

REQUESTS = 10  # of a round
SCREENSHOT_BYTES = 3_000_000
MEMORY_MIB_AT_MOST = 400.0


def measure() -> list[Figure]:
    """The figures of new images and of one sent again."""
    figures = list[Figure]()
    for name in ("new", "again"):
        with (
            mock_backend(SMALL) as backend_port,
            tempfile.TemporaryDirectory() as log,
            mitmdump(backend_port) as bare,
            mitmdump(backend_port, "-s", str(ADDON), "--set", f"turnstile_log={log}") as capturing,
        ):
            least = {proxy: float("inf") for proxy in (bare, capturing)}
            for number in range(ROUNDS):
                for proxy in least:
                    least[proxy] = min(least[proxy], asyncio.run(_cpu_of_round(proxy, name, number)))
            check_captured(capturing, REQUESTS * ROUNDS)
            figures += _figures(f"a screenshot, {name}", bare, capturing, least)
    return figures


def _figures(what: str, bare: Proxy, capturing: Proxy, least: dict[Proxy, float]) -> Iterator[Figure]:
    megabytes = REQUESTS * SCREENSHOT_BYTES * 4 / 3 / 1e6
    bare_ms, capturing_ms = (least[proxy] / megabytes * 1000 for proxy in (bare, capturing))
    yield Figure(what=f"{what}: bare mitmdump", value=bare_ms, unit="CPU-ms a MB")
    yield Figure(what=f"{what}: with Turnstile", value=capturing_ms, unit="CPU-ms a MB")
    yield Figure(what=f"{what}: ratio", value=capturing_ms / bare_ms, unit="x bare")
    peak = peak_memory_mib(capturing.process_id)
    yield Figure(what=f"{what}: peak memory", value=peak, unit="MiB", at_most=MEMORY_MIB_AT_MOST)


async def _cpu_of_round(proxy: Proxy, name: str, number: int) -> float:
    connection = await Connection.open(proxy.port)
    requests = _requests(proxy, name, number)
    before = cpu_s(proxy.process_id)
    await send([connection], [requests])
    spent = cpu_s(proxy.process_id) - before
    connection.close()
    return spent


def _requests(proxy: Proxy, name: str, number: int) -> Sequence[Request]:
    call = next(calls(SMALL, 0))
    path = f"/group/{name}-{number}{CHAT_PATH}" if proxy.captures else CHAT_PATH
    images = [random.Random(f"{name}-{number}-{at}").randbytes(SCREENSHOT_BYTES) for at in range(REQUESTS)]
    if name == "again":
        images = images[:1] * REQUESTS
    return [Request(path, _body(image, at, call.key), call.answer) for at, image in enumerate(images)]


def _body(image: bytes, more: int, key: str) -> bytes:
    part = b'{"type":"image_url","image_url":{"url":"data:image/png;base64,%b"}}' % base64.b64encode(image)
    history = b',{"role":"user","content":"go on"}' * more
    messages = b'[{"role":"user","content":[%b]}%b]' % (part, history)
    return b'{"model":"mock","messages":%b,"user":"%b"}' % (messages, key.encode())


if __name__ == "__main__":
    run_alone(__doc__, measure)
