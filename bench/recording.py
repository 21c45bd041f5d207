"""Calls as the exchanges that capture makes of them, and logs of these without a proxy in between."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from workloads import Call

from turnstile.addon.backends.asking import ask_chat
from turnstile.addon.backends.facts import BackendFacts
from turnstile.addon.tracelog.records import Exchange
from turnstile.addon.tracelog.writer import LogWriter

CHAT_PATH = "/v1/chat/completions"
BACKEND = BackendFacts(kind="sglang", version=(0, 5, 23), version_text="0.5.23", served_model_name="mock")


@dataclass(frozen=True, slots=True)
class Place:
    """Where an exchange is filed."""

    group_id: str
    rollout_id: str | None = None


def exchanges(calls: Iterable[Call], log_id: str, place_of: Callable[[Call], Place]) -> Iterator[Exchange]:
    """The exchanges of the calls, one a second."""
    for number, call in enumerate(calls):
        place, reply = place_of(call), call.whole_reply()
        yield Exchange(
            exchange_id=f"{log_id}-{number:06d}",
            group_id=place.group_id,
            rollout_id=place.rollout_id,
            started_at=1_796_021_198.0 + number,
            duration_s=0.0831,
            method="POST",
            path=CHAT_PATH,
            outcome="complete",
            status=200,
            request_headers=_headers(call.request, host="127.0.0.1:8080"),
            request=call.request,
            splices=ask_chat(call.request, BACKEND, moe="full" if call.routing else "off").splices,
            reply_headers=_headers(reply, server="uvicorn"),
            reply=reply,
        )


def write_log(directory: Path, calls: Iterable[Call], place_of: Callable[[Call], Place]) -> None:
    """A closed trace log of the calls in `directory`."""
    writer = LogWriter(directory, program="bench")
    writer.set_backend(BACKEND.as_record())
    for exchange in exchanges(calls, writer.log_id, place_of):
        writer.write([exchange])
    writer.close()


def size_bytes(directory: Path) -> int:
    """What the trace logs in `directory` take on the disk."""
    return sum(path.stat().st_size for path in directory.glob("*.tslog"))


def _headers(body: bytes, **more: str) -> tuple[tuple[str, str], ...]:
    always = {"content-type": "application/json", "content-length": str(len(body))}
    return tuple((more | always).items())
