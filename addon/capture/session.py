"""Everything that capturing holds while the proxy runs; opened once the settings are known."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.metadata import version
from typing import Any

from turnstile.addon.backends.facts import BackendFacts
from turnstile.addon.capture.backend_watch import BackendWatch
from turnstile.addon.capture.counters import Counters
from turnstile.addon.capture.fetched_images import FetchedImages
from turnstile.addon.capture.groups import Groups
from turnstile.addon.capture.in_flight import InFlight
from turnstile.addon.capture.known_prefixes import KnownPrefixes
from turnstile.addon.capture.onlookers import Onlookers
from turnstile.addon.capture.options import Settings
from turnstile.addon.capture.recorder import Recorder
from turnstile.addon.capture.routing import routing_problem
from turnstile.addon.capture.weight_reader import WeightReader
from turnstile.addon.tracelog.records import WeightReading
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
    prefixes: KnownPrefixes = field(default_factory=KnownPrefixes)
    counters: Counters = field(default_factory=Counters)
    groups: Groups = field(default_factory=Groups)
    in_flight: dict[str, InFlight] = field(default_factory=dict)  # by the flow's id
    said: set[str] = field(default_factory=set)  # what the console was told and need not be told again
    onlookers: Onlookers = field(default_factory=Onlookers)
    cannot_tokenize: bool = False  # the backend has no /tokenize
    context_of: tuple[BackendFacts, int | None] | None = None  # tokens that the list of models names
    slow_to_tokenize_until: float = 0.0  # by the monotonic clock; until then only who must know asks it
    fell_back: bool = False  # with streaming=auto: a live stream was not whole, so all are buffered now

    def begin_anew(self) -> None:
        """Forgets what the backend has shown: it may be another server, or the same one started anew."""
        self.prefixes.begin_anew()
        self.cannot_tokenize, self.slow_to_tokenize_until = False, 0.0


def open_session(settings: Settings, onlookers: Onlookers) -> Session:
    """Begins a log and a probe of the backend; raises LogWriteError when the log cannot be begun."""
    program = f"turnstile {turnstile_version()}, mitmproxy {version('mitmproxy')}"
    writer = LogWriter(
        settings.log_directory,
        program=program,
        rotate_bytes=settings.rotate_bytes,
        fsync=settings.durability == "fsync",
    )
    recorder, prefixes = Recorder(writer, settings.durability), KnownPrefixes()

    def learned(facts: Mapping[str, Any]) -> None:
        session.begin_anew()
        recorder.set_backend(facts)

    def weights_read(reading: WeightReading) -> None:
        prefixes.weights_seen(reading.weight_version)
        recorder.record_at_once(reading)

    backend = BackendWatch(
        settings.backend_url,
        settings.backend,
        learned,
        weights_read,
        shortcoming_of=partial(routing_problem, settings.moe),
    )
    weights = WeightReader(settings.backend_url, weights_read)
    images = FetchedImages(settings.image_hosts)
    session = Session(settings, recorder, backend, weights, images, prefixes, onlookers=onlookers)
    backend.start()
    logger.info("turnstile: recording into %s", writer.position.path)
    return session


@cache
def turnstile_version() -> str:
    """The installed version of Turnstile."""
    return version("turnstile-rl")
