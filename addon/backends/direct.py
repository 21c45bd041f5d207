"""How Turnstile sends requests of its own: straight to the address, never through the user's own proxy."""

import urllib.request
from functools import cache


@cache
def direct_opener() -> urllib.request.OpenerDirector:
    """One for all threads: making it reads the system's certificates, which takes milliseconds of a core."""
    return urllib.request.build_opener(urllib.request.ProxyHandler({}))
