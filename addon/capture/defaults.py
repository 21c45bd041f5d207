"""Sets what mitmproxy's own defaults get wrong for long generations, unless the user chose otherwise.

connection_strategy: eager connects to the backend as soon as a harness connects, and with the backend down
closes that connection without an answer; the control URLs would be out of reach too. tcp_timeout: 600 s cuts
off a harness that waits for a long generation.
"""

from collections.abc import Mapping

from mitmproxy.optmanager import OptManager, unset

BETTER: Mapping[str, object] = {"connection_strategy": "lazy", "tcp_timeout": 86_400}


def set_better_defaults(options: OptManager) -> None:
    """Sets the options of BETTER that nobody has set; they hold for connections made from now on."""
    better = {name: value for name, value in BETTER.items() if _is_unset(options, name)}
    if better:
        options.update(**better)  # type: ignore[no-untyped-call]


def _is_unset(options: OptManager, name: str) -> bool:
    # has_changed() would take a user's explicit `eager` for no choice: it equals the default.
    return name in options and options._options[name].value is unset
