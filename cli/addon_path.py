"""`turnstile addon-path`: where the script for `mitmdump -s` was installed."""

import click

from turnstile.cli.errors import InputInvalid


@click.command(
    epilog="""\b
Example:
  mitmdump -s "$(turnstile addon-path)" --mode reverse:http://127.0.0.1:30000 -p 8080
"""
)
def command() -> None:
    """Print where turnstile_addon.py lies.

    The path is for mitmdump's -s option; the script is not imported for it.
    """
    from turnstile.errors import ProxyStartError
    from turnstile.mitmdump_process import addon_path

    try:
        click.echo(addon_path())
    except ProxyStartError as error:
        raise InputInvalid(str(error)) from error
