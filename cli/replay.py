"""`turnstile replay`: a log as a deterministic stand-in for the backend."""

import contextlib
import signal
from pathlib import Path

import click


@click.command(
    epilog="""\b
Example:
  turnstile replay traces/ --port 30000
  mitmdump -s "$(turnstile addon-path)" --mode reverse:http://127.0.0.1:30000 -p 8080
"""
)
@click.argument("logs", metavar="LOG...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--port",
    required=True,
    type=click.IntRange(0, 65535),
    help="Port to listen on; 0 takes a free one and prints it on stdout.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
def command(logs: tuple[Path, ...], port: int, host: str) -> None:
    """Serve a log as a stand-in for the backend.

    A request gets the reply that was recorded for it, as a stream where it asks for one, and with the fields
    that it asks for. The same request again gets the next reply recorded for it, and after the last one the
    first again. Any other request gets 404. Ctrl-C ends it.
    """
    from turnstile.recorded_replies import RecordedReplies
    from turnstile.replay_server import ReplayServer

    with RecordedReplies(logs) as replies:
        for damage in replies.damages:
            click.echo(f"Warning: {damage}", err=True)
        try:
            server = ReplayServer(replies, host, port)
        except OSError as error:
            raise click.BadParameter(
                f"cannot listen on {host}:{port}: {error.strerror or error}", param_hint="'--port'"
            ) from error
        # kill and Ctrl-C end it in the same way.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        with server, contextlib.suppress(KeyboardInterrupt):
            if port == 0:
                click.echo(server.port)
            click.echo(f"Replaying {len(replies)} exchanges at http://{host}:{server.port}", err=True)
            server.serve_forever()
