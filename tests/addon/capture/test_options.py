from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional

import pytest
from mitmproxy.options import Options

from turnstile.addon.capture.image_hosts import parse_hosts
from turnstile.addon.capture.options import (
    DEFAULTS,
    Settings,
    SettingsError,
    read_settings,
    take_out_malformed,
    touches_settings,
)

REVERSE = ["reverse:http://127.0.0.1:30000"]


def options(**values: Any) -> Options:
    made = Options()
    for hosts in ("ignore_hosts", "allow_hosts", "tcp_hosts"):
        made.add_option(hosts, Sequence[str], [], "")
    made.add_option("rfile", Optional[str], None, "")  # noqa: UP045 (as mitmproxy does)
    made.add_option("stream_large_bodies", Optional[str], None, "")  # noqa: UP045 (as mitmproxy does)
    for name, (default, meaning) in DEFAULTS.items():
        made.add_option(name, str, default, meaning)
    made.update(**{"mode": REVERSE} | values)
    return made


def refused(**values: Any) -> str:
    with pytest.raises(SettingsError) as caught:
        read_settings(options(**values))
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_the_defaults_are_the_documented_ones() -> None:
    assert read_settings(options()) == Settings(
        backend_url="http://127.0.0.1:30000",
        log_directory=Path("turnstile-traces"),
        rotate_bytes=1 << 30,
        backend="auto",
        streaming="buffered",
        moe="auto",
        durability="record",
        on_log_error="fail",
        image_hosts=None,
        secret=b"",
        redacted_headers=frozenset(
            {"authorization", "cookie", "x-api-key", "proxy-authorization", "x-turnstile-key"}
        ),
    )


def test_every_option_reaches_the_settings() -> None:
    made = options(
        mode=["reverse:https://[::1]:8443@9000"],
        turnstile_log="~/traces",
        turnstile_backend="sglang",
        turnstile_streaming="auto",
        turnstile_moe="full",
        turnstile_durability="fsync",
        turnstile_on_log_error="pass",
        turnstile_fetch_images="a.example,10.0.0.0/8",
        turnstile_secret="s3cret",
        turnstile_redact_headers=" X-Api-Key ,, cookie",
        turnstile_rotate_mib="2",
    )
    assert read_settings(made) == Settings(
        backend_url="https://[::1]:8443",
        log_directory=Path("~/traces").expanduser(),
        rotate_bytes=2 << 20,
        backend="sglang",
        streaming="auto",
        moe="full",
        durability="fsync",
        on_log_error="pass",
        image_hosts=parse_hosts("a.example,10.0.0.0/8"),
        secret=b"s3cret",
        redacted_headers=frozenset({"x-api-key", "cookie"}),
    )


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("log", " ", "turnstile_log=' ': expected a directory"),
        ("backend", "vllm", "turnstile_backend='vllm': expected auto or sglang (it is not built yet)"),
        ("backend", "sgl", "turnstile_backend='sgl': expected auto or sglang"),
        ("streaming", "Live", "turnstile_streaming='Live': expected buffered or live or auto"),
        ("moe", "part", "turnstile_moe='part': expected auto or off or full or delta"),
        ("token_in", "on", "turnstile_token_in='on': expected off (it is not built yet)"),
        ("durability", "Record", "turnstile_durability='Record': expected record or fsync or batch"),
        ("on_log_error", "", "turnstile_on_log_error='': expected fail or pass"),
        (
            "fetch_images",
            "http://a.example",
            "turnstile_fetch_images='http://a.example': expected off, or hosts separated by commas; "
            "'http://a.example' is no host name",
        ),
        (
            "redact_headers",
            "a b",
            "turnstile_redact_headers='a b': expected header names separated by commas",
        ),
        ("rotate_mib", "0", "turnstile_rotate_mib='0': expected a whole number of at least 1"),
        ("rotate_mib", "1.5", "turnstile_rotate_mib='1.5': expected a whole number of at least 1"),
    ],
)
def test_a_value_that_cannot_be_honoured_is_refused_in_one_line(name: str, value: str, message: str) -> None:
    assert refused(**{f"turnstile_{name}": value}) == message


@pytest.mark.parametrize("moe", ["auto", "off", "full", "delta"])
def test_routed_experts_may_be_wanted_in_each_way(moe: str) -> None:
    settings = read_settings(options(turnstile_moe=moe))
    assert settings is not None
    assert settings.moe == moe


@pytest.mark.parametrize("mode", ["regular", "reverse:tcp://127.0.0.1:1", "socks5", "upstream:http://a:1"])
def test_a_mode_without_a_backend_is_refused(mode: str) -> None:
    assert refused(mode=[mode]) == (
        f"--mode {mode}: expected reverse:http://HOST:PORT or reverse:https://HOST:PORT, "
        "the backend to record"
    )


def test_several_ports_may_lead_to_one_backend_but_not_to_two() -> None:
    two_ports = read_settings(options(mode=["reverse:http://a:1@81", "reverse:http://a:1@82"]))
    assert two_ports is not None
    assert two_ports.backend_url == "http://a:1"
    two_backends = ["reverse:http://a:1@81", "reverse:http://b:1@82"]
    assert refused(mode=two_backends).endswith(": expected one backend; start one proxy for each backend")


def test_an_option_that_nobody_knows_is_a_typing_error() -> None:
    made = options()
    made.set("turnstile_durabilty=fsync", "other_addon=1", defer=True)
    with pytest.raises(
        SettingsError, match="unknown option turnstile_durabilty; did you mean turnstile_durability"
    ):
        read_settings(made)


def test_an_option_that_mitmproxy_could_not_set_is_taken_out_and_named() -> None:
    made = Options()
    made.set("turnstile_moe=off", "turnstile_moe=full", "turnstile_log", "turnstile_secret=a=b", defer=True)
    made.deferred["turnstile_rotate_mib"] = 1024  # as from config.yaml
    assert [str(error) for error in take_out_malformed(made.deferred)] == [
        "turnstile_moe: expected one text, --set turnstile_moe=VALUE; found 2 values",
        "turnstile_log: expected one text, --set turnstile_log=VALUE; found 0 values",
        "turnstile_rotate_mib: expected one text, --set turnstile_rotate_mib=VALUE; found a int",
    ]
    assert made.deferred.keys() == {"turnstile_secret"}


def test_streamed_bodies_are_refused_because_they_would_pass_uncaptured() -> None:
    assert refused(stream_large_bodies="1m").startswith("stream_large_bodies='1m': expected it unset")


@pytest.mark.parametrize("name", ["ignore_hosts", "allow_hosts", "tcp_hosts"])
def test_hosts_that_mitmproxy_would_pass_by_are_refused(name: str) -> None:
    assert refused(**{name: [".*"]}).startswith(f"{name} is set: expected it unset")


def test_nothing_is_captured_or_checked_where_no_port_is_served() -> None:
    assert read_settings(options(server=False, mode=["regular"], turnstile_moe="nonsense")) is None


def test_nothing_is_captured_or_checked_where_a_file_is_shown_and_no_backend_is_named() -> None:
    assert read_settings(options(rfile="t.mitm", mode=["regular"], turnstile_moe="nonsense")) is None


def test_a_backend_that_is_named_is_captured_also_where_a_file_is_shown() -> None:
    assert read_settings(options(rfile="t.mitm")) == read_settings(options())


def test_the_secret_is_shown_nowhere() -> None:
    assert "s3cret" not in repr(read_settings(options(turnstile_secret="s3cret")))


def test_only_changes_that_matter_are_looked_at() -> None:
    assert touches_settings({"turnstile_moe"})
    assert touches_settings({"mode", "flow_detail"})
    assert not touches_settings({"flow_detail", "connection_strategy", "tcp_timeout"})


def test_a_secret_that_is_no_text_is_refused_and_not_repeated() -> None:
    said = refused(turnstile_secret=b"k\xffy".decode("utf-8", "surrogateescape"))
    assert said == "turnstile_secret: expected text in UTF-8; found bytes that are none"
