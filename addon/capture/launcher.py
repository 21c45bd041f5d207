"""The process of `turnstile proxy`: the addon in mitmproxy, with only those of its own addons that it needs.

mitmdump brings some thirty addons, to each of which every event of a flow is told. Kept are the ones that
serve the port (proxyserver, next_layer, tlsconfig, core), that keep strangers out of it as mitmdump does
(block) and no protocol from passing by unseen (disable_h2c), and that end a start which failed (errorcheck).

Run as a module, it takes mitmproxy's options as a JSON object of texts from the environment: unlike a command
line, that is not for every user of the machine to read. Console and signals are mitmdump's.
"""

import argparse
import json
import os

from mitmproxy.addons import block, core, disable_h2c, errorcheck, next_layer, proxyserver, tlsconfig
from mitmproxy.hooks import ConfigureHook
from mitmproxy.master import Master
from mitmproxy.options import Options
from mitmproxy.tools.main import run

from turnstile.addon.capture.addon import addon

OPTIONS = "TURNSTILE_PROXY_OPTIONS"


class LeanMaster(Master):
    """A mitmdump that only captures."""

    def __init__(self, options: Options) -> None:
        super().__init__(options, with_termlog=True)
        self.addons.add(  # type: ignore[no-untyped-call]
            core.Core(),
            block.Block(),
            disable_h2c.DisableH2C(),
            proxyserver.Proxyserver(),  # type: ignore[no-untyped-call]
            next_layer.NextLayer(),
            tlsconfig.TlsConfig(),
            errorcheck.ErrorCheck(),
        )

    async def run(self) -> None:
        """Captures until it is told to end."""
        found, addons = addon(), self.addons
        addons.add(found)  # type: ignore[no-untyped-call]  # now that the options are set: it reads them at once
        addons.invoke_addon_sync(found, ConfigureHook(self.options.keys()))  # type: ignore[no-untyped-call]
        await super().run()


def main() -> None:
    """Serves with the options in the environment."""
    options = json.loads(os.environ.pop(OPTIONS))
    arguments = [part for name, value in options.items() for part in ("--set", f"{name}={value}")]
    run(LeanMaster, _parser, arguments)


def _parser(options: Options) -> argparse.ArgumentParser:
    """The few arguments that mitmproxy's own `run` looks at."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--set", dest="setoptions", action="append", default=[])
    parser.set_defaults(version=False, quiet=False, verbose=False, options=False, commands=False)
    return parser


if __name__ == "__main__":
    main()
