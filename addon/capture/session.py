"""Everything that capturing holds while the proxy runs; opened once the settings are known."""

import logging
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version

from turnstile.addon.capture.backend_watch import BackendWatch
from turnstile.addon.capture.counters import Counters
from turnstile.addon.capture.fetched_images import FetchedImages
from turnstile.addon.capture.in_flight import InFlight
from turnstile.addon.capture.options import Settings
from turnstile.addon.capture.recorder import Recorder
from turnstile.addon.capture.weight_reader import WeightReader
from turnstile.addon.tracelog.writer import LogWriter

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Session:
    """One run of capturing, on one event loop."""

    settings: Settings
    recorder: Recorder
    backend: BackendWatch
    weights: WeightReader
    images: FetchedImages
    counters: Counters = field(default_factory=Counters)
    in_flight: dict[str, InFlight] = field(default_factory=dict)  # by the flow's id
    said: set[str] = field(default_factory=set)  # what the console was told and need not be told again
    fell_back: bool = False  # with streaming=auto: a live stream was not whole, so all are buffered now


def open_session(settings: Settings) -> Session:
    """Begins a log and a probe of the backend; raises LogWriteError when the log cannot be begun."""
    program = f"turnstile {turnstile_version()}, mitmproxy {version('mitmproxy')}"
    writer = LogWriter(
        settings.log_directory,
        program=program,
        rotate_bytes=settings.rotate_bytes,
        fsync=settings.durability == "fsync",
    )
    recorder = Recorder(writer, settings.durability)
    backend = BackendWatch(
        settings.backend_url, settings.backend, recorder.set_backend, recorder.record_at_once
    )
    backend.start()
    weights = WeightReader(settings.backend_url, recorder.record_at_once)
    logger.info("turnstile: recording into %s", writer.position.path)
    images = FetchedImages(settings.image_hosts)
    return Session(settings, recorder, backend, weights, images)


@cache
def turnstile_version() -> str:
    """The installed version of Turnstile."""
    return version("turnstile-rl")
