"""The `turnstile` command: a table of subcommands, each imported only when it is run.

`turnstile --help` costs no more than click: it reads the help lines from the table here. Every way to
fail ends in one line on stderr and an exit code of turnstile.cli.errors.
"""

import importlib
from typing import NamedTuple

import click

from turnstile.cli.errors import as_cli_error


class Entry(NamedTuple):
    """Where a subcommand lies and what the overview says about it."""

    target: str
    """`module:attribute` of a click command."""
    short_help: str
    """The first sentence of the command's own help."""


COMMANDS = {
    "compile": Entry("turnstile.cli.compile:command", "Turn trace logs into training sequences."),
    "show": Entry("turnstile.cli.show:command", "List the exchanges in a log."),
    "explain": Entry(
        "turnstile.cli.explain:command", "Say why rollouts split: why a turn went on no earlier sequence."
    ),
    "audit": Entry(
        "turnstile.cli.audit:command", "Say what a trainer that works from text would have got wrong."
    ),
    "flows": Entry("turnstile.cli.flows:command", "Make flows of a log, for mitmweb."),
    "verify": Entry("turnstile.cli.verify:command", "Check every invariant of logs and of compiled files."),
    "report": Entry("turnstile.cli.report:command", "Make one page of sequences, to debug rollouts by."),
    "replay": Entry("turnstile.cli.replay:command", "Serve a log as a stand-in for the backend."),
    "proxy": Entry("turnstile.cli.proxy:command", "Capture as mitmdump with the addon does, for less."),
    "doctor": Entry("turnstile.cli.doctor:command", "Ask a server for what capture needs."),
    "demo": Entry("turnstile.cli.demo:command", "Run the whole way on this machine, without a GPU."),
    "addon-path": Entry("turnstile.cli.addon_path:command", "Print where turnstile_addon.py lies."),
}


class CommandTable(click.Group):
    """A group that shows its table as it stands and imports a command when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Give the names in the order of the table: the order of a user's work."""
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that `args` name, and import it."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, load_command(name) if name in COMMANDS else command, rest

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; errors of the packages become errors of the command line."""
        try:
            return super().invoke(ctx)
        except Exception as error:
            if (cli_error := as_cli_error(error)) is None:
                raise
            raise cli_error from error


def load_command(name: str) -> click.Command:
    """Import the command of that name in the table."""
    module, _, attribute = COMMANDS[name].target.partition(":")
    command = getattr(importlib.import_module(module), attribute)
    assert isinstance(command, click.Command), f"{COMMANDS[name].target} is no click command"
    return command


def _listed(entry: Entry) -> click.Command:
    return click.Command(None, short_help=entry.short_help)


@click.group(
    cls=CommandTable,
    commands={name: _listed(entry) for name, entry in COMMANDS.items()},
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Each COMMAND --help ends with an example: turnstile compile --help",
)
@click.version_option(package_name="turnstile-rl", prog_name="turnstile")
def main() -> None:
    """Turn what an LLM policy really saw and sampled into training sequences."""
