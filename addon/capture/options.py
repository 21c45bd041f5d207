"""The addon's options: declared as strings, checked once, read nowhere else.

mitmproxy checks only the type of an option, drops an addon whose typed option does not parse without a word,
and copies an option's value at every read. So all are strings, a bad one is a SettingsError with one line
that says what was found and what is expected, and the rest of the addon sees one frozen Settings.
"""

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

from mitmproxy.addonmanager import Loader
from mitmproxy.optmanager import OptManager
from mitmproxy.proxy.mode_specs import ProxyMode, ReverseMode

from turnstile.addon.capture.image_hosts import ImageHosts, parse_hosts

Durability = Literal["record", "fsync", "batch"]
OnLogError = Literal["fail", "pass"]
Moe = Literal["auto", "off", "full", "delta"]
BackendChoice = Literal["auto", "sglang"]
Streaming = Literal["buffered", "live", "auto"]

DEFAULTS: Mapping[str, tuple[str, str]] = {
    "turnstile_log": ("turnstile-traces", "Directory for trace logs; made if absent."),
    "turnstile_backend": ("auto", "What answers: auto (asks the backend), sglang."),
    "turnstile_streaming": (
        "buffered",
        "For a harness that streams: buffered asks the backend without streaming and answers with a stream "
        "made from the whole reply; live hands the stream on as it comes; auto does so where the backend "
        "says that the capture will be complete.",
    ),
    "turnstile_moe": (
        "auto",
        "Routed experts: auto asks where the server has them on; off; full always, for all rows; delta "
        "always, for the rows behind the longest known prefix.",
    ),
    "turnstile_token_in": ("off", "Whether later turns are sent as the tokens that were sampled: off."),
    "turnstile_durability": (
        "record",
        "A record is with the operating system before the reply's last byte leaves (record), on the disk "
        "before it (fsync), or written within 200 ms (batch).",
    ),
    "turnstile_on_log_error": (
        "fail",
        "A harness whose exchange cannot be written gets 507 (fail), or its answer all the same (pass).",
    ),
    "turnstile_fetch_images": (
        "off",
        "Hosts that http(s) image URLs are fetched from, separated by commas: names, addresses, networks; "
        "off refuses such URLs.",
    ),
    "turnstile_secret": ("", "When set, every URL needs it as bearer key or as X-Turnstile-Key."),
    "turnstile_redact_headers": (
        "authorization,cookie,x-api-key,proxy-authorization,x-turnstile-key",
        "Headers whose values never reach the log, separated by commas.",
    ),
    "turnstile_rotate_mib": ("1024", "A trace log of this many MiB is closed and the next one begun."),
}

NOT_BUILT = {
    ("turnstile_backend", "vllm"),
    ("turnstile_token_in", "on"),
}


class SettingsError(Exception):
    """An option cannot be honoured; the message is one line: which option, found against expected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All options, checked."""

    backend_url: str  # scheme://host:port, without a path
    log_directory: Path
    rotate_bytes: int
    backend: BackendChoice
    streaming: Streaming
    moe: Moe
    durability: Durability
    on_log_error: OnLogError
    image_hosts: ImageHosts | None  # None: no image is fetched
    secret: bytes = field(repr=False)  # empty: none needed
    redacted_headers: frozenset[str]  # lower case


def declare_options(loader: Loader) -> None:
    """Makes the options known to mitmproxy."""
    for name, (default, meaning) in DEFAULTS.items():
        loader.add_option(name, str, default, meaning)


def take_out_malformed(deferred: dict[str, Any]) -> list[SettingsError]:
    """Takes options of ours out of those that mitmproxy has yet to set, where it could not; says which.

    mitmproxy would drop the addon without a word: over an option that is given twice, or without a value, or
    as anything but text in config.yaml.
    """
    errors = []
    for name in [name for name in deferred if name in DEFAULTS]:
        given = getattr(deferred[name], "val", [deferred[name]])
        if len(given) == 1 and isinstance(given[0], str):
            continue
        del deferred[name]
        found = f"{len(given)} values" if len(given) != 1 else f"a {type(given[0]).__name__}"
        errors.append(SettingsError(f"{name}: expected one text, --set {name}=VALUE; found {found}"))
    return errors


def touches_settings(updated: set[str]) -> bool:
    """Whether a change of these options can change the settings."""
    return not updated.isdisjoint(DEFAULTS.keys() | {"mode", "rfile", "server", "stream_large_bodies"})


def read_settings(options: OptManager) -> Settings | None:
    """The settings that mitmproxy's options ask for; None when nothing is to be captured.

    That is when it serves no port, or shows a file of flows and no backend is named. Raises SettingsError.
    """
    if not options.server or _only_shows_a_file(options):
        return None
    found = {name: str(getattr(options, name)) for name in DEFAULTS}
    _refuse_unknown(options.deferred)
    _refuse_streamed_bodies(options.stream_large_bodies)
    _refuse_hosts_passed_by(options)
    _choice(found, "turnstile_token_in", "off")
    return Settings(
        backend_url=_backend_url(options.mode),
        log_directory=_directory(found),
        rotate_bytes=_positive(found, "turnstile_rotate_mib") << 20,
        backend=cast(BackendChoice, _choice(found, "turnstile_backend", "auto", "sglang")),
        streaming=cast(Streaming, _choice(found, "turnstile_streaming", "buffered", "live", "auto")),
        moe=cast(Moe, _choice(found, "turnstile_moe", "auto", "off", "full", "delta")),
        durability=cast(Durability, _choice(found, "turnstile_durability", "record", "fsync", "batch")),
        on_log_error=cast(OnLogError, _choice(found, "turnstile_on_log_error", "fail", "pass")),
        image_hosts=_image_hosts(found),
        secret=_secret(found),
        redacted_headers=_header_names(found),
    )


def _only_shows_a_file(options: OptManager) -> bool:
    """Whether flows are read (`mitmweb -r`), by somebody who named no backend to record."""
    named = any(mode.startswith("reverse:") for mode in options.mode)
    return getattr(options, "rfile", None) is not None and not named


def _refuse_unknown(deferred: Mapping[str, Any]) -> None:
    """Mitmproxy keeps options that nobody declares for later, so that a typing error would go unseen."""
    for name in deferred:
        if name.startswith("turnstile_"):
            near = difflib.get_close_matches(name, DEFAULTS, n=1)
            meant = f"; did you mean {near[0]}?" if near else ""
            raise SettingsError(f"unknown option {name}{meant} (known: {', '.join(DEFAULTS)})")


def _refuse_streamed_bodies(threshold: str | None) -> None:
    """A streamed request is on its way before a hook sees its body: nothing could be asked for or kept."""
    if threshold is not None:
        raise SettingsError(
            f"stream_large_bodies={threshold!r}: expected it unset, for a streamed body cannot be captured"
        )


def _refuse_hosts_passed_by(options: OptManager) -> None:
    """Connections that mitmproxy passes by are raw bytes to it: no hook sees them."""
    for name in ("ignore_hosts", "allow_hosts", "tcp_hosts"):
        if getattr(options, name):
            raise SettingsError(f"{name} is set: expected it unset, for what it passes by cannot be captured")


def _backend_url(modes: list[str]) -> str:
    targets = {_target(mode) for mode in modes}
    if len(targets) != 1:
        raise SettingsError(
            f"--mode {' '.join(modes)}: expected one backend; start one proxy for each backend"
        )
    return targets.pop()


def _target(mode: str) -> str:
    spec = ProxyMode.parse(mode)
    if not isinstance(spec, ReverseMode) or spec.scheme not in ("http", "https"):
        raise SettingsError(
            f"--mode {mode}: expected reverse:http://HOST:PORT or reverse:https://HOST:PORT, "
            "the backend to record"
        )
    host, port = spec.address
    return f"{spec.scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def _directory(found: Mapping[str, str]) -> Path:
    text = found["turnstile_log"].strip()
    if not text:
        raise SettingsError(_line(found, "turnstile_log", "a directory"))
    return Path(text).expanduser()


def _positive(found: Mapping[str, str], name: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", found[name]) or int(found[name]) == 0:
        raise SettingsError(_line(found, name, "a whole number of at least 1"))
    return int(found[name])


def _choice(found: Mapping[str, str], name: str, *choices: str) -> str:
    value = found[name]
    if value not in choices:
        late = " (it is not built yet)" if (name, value) in NOT_BUILT else ""
        raise SettingsError(_line(found, name, f"{' or '.join(choices)}{late}"))
    return value


def _image_hosts(found: Mapping[str, str]) -> ImageHosts | None:
    name = "turnstile_fetch_images"
    if found[name] == "off":
        return None
    try:
        return parse_hosts(found[name])
    except ValueError as error:
        raise SettingsError(_line(found, name, f"off, or hosts separated by commas; {error}")) from error


def _secret(found: Mapping[str, str]) -> bytes:
    """Unlike other values it is not repeated in a message."""
    try:
        return found["turnstile_secret"].encode()
    except UnicodeEncodeError:  # a command line may hold any bytes
        problem = "turnstile_secret: expected text in UTF-8; found bytes that are none"
        raise SettingsError(problem) from None


def _header_names(found: Mapping[str, str]) -> frozenset[str]:
    name = "turnstile_redact_headers"
    names = [part.strip().lower() for part in found[name].split(",") if part.strip()]
    if not all(re.fullmatch(r"[!#$%&'*+.^_`|~0-9a-z-]+", part) for part in names):
        raise SettingsError(_line(found, name, "header names separated by commas"))
    return frozenset(names)


def _line(found: Mapping[str, str], name: str, expected: str) -> str:
    return f"{name}={found[name]!r}: expected {expected}"
