"""Settings that hold for every test."""

import os

from hypothesis import settings

# No test may go through the user's own proxy: what it talks to is on this machine.
for _name in ("http_proxy", "https_proxy", "all_proxy"):
    os.environ.pop(_name, None)
    os.environ.pop(_name.upper(), None)

# How long an example takes says something of the machine, nothing of the code.
settings.register_profile("turnstile", deadline=None)
settings.load_profile("turnstile")
