"""`turnstile proxy`: the proxy without mitmdump around it."""

import signal
from pathlib import Path

import click

from turnstile.cli.errors import CheckFailed, InputInvalid


@click.command(
    epilog="""\b
Example:
  turnstile proxy --backend http://127.0.0.1:30000 --port 8080 --log traces/
"""
)
@click.option("--backend", metavar="URL", required=True, help="The server to stand in front of.")
@click.option(
    "--port", type=click.IntRange(1, 65535), default=8080, show_default=True, help="Port to listen on."
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--log",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("turnstile-traces"),
    show_default=True,
    help="Directory for trace logs; made if absent.",
)
@click.option(
    "--set",
    "options",
    metavar="NAME=VALUE",
    multiple=True,
    help="An option as for mitmdump. May be repeated.",
)
@click.option(
    "--workers",
    metavar="N",
    type=click.IntRange(1, 256),
    default=1,
    show_default=True,
    help="So many processes, on PORT and the ports behind it.",
)
def command(backend: str, port: int, host: str, log: Path, options: tuple[str, ...], workers: int) -> None:
    """Capture as mitmdump with the addon does, for less.

    Runs the same addon in mitmproxy without the parts that capturing does not need. The URLs are printed on
    stdout. With several workers each records into a log of its own in DIR, and all requests of a group must
    go to the same one. Ctrl-C ends it.
    """
    from turnstile.errors import ProxyError, ProxyStartError
    from turnstile.workers import running_workers

    settings = _settings(options)
    if port + workers > 65536:
        raise click.UsageError(f"there are no {workers} ports from {port} on")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with running_workers(
            backend, log, host=host, port=port, workers=workers, options=settings
        ) as running:
            for proxy in running.proxies:
                click.echo(f"http://{proxy.address}")
            click.echo(_rule(log, port, workers), err=True)
            running.wait()
    except KeyboardInterrupt:
        click.echo("ended", err=True)
    except ProxyStartError as error:
        raise InputInvalid(str(error)) from error
    except ProxyError as error:
        raise CheckFailed(str(error)) from error


def _settings(options: tuple[str, ...]) -> dict[str, str]:
    settings: dict[str, str] = {}
    for option in options:
        name, mark, value = option.partition("=")
        if not mark or not name:
            raise click.BadParameter(f"{name!r} has no value; expected NAME=VALUE", param_hint="'--set'")
        if name in settings or name == "turnstile_log":
            again = "is --log here" if name == "turnstile_log" else "is set twice"
            raise click.BadParameter(f"{name} {again}", param_hint="'--set'")
        settings[name] = value
    return settings


def _rule(log: Path, port: int, workers: int) -> str:
    if workers == 1:
        return f"Capturing into {log}. Ctrl-C ends it."
    return (
        f"Capturing into {log} with {workers} processes. All requests of a group go to one port: "
        f"{port} + crc32(group_id) % {workers}, zlib.crc32 of its bytes. Ctrl-C ends all."
    )
