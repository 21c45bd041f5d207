"""The online part: a mitmproxy addon that records what passes; the only code that imports mitmproxy."""

from turnstile.addon.capture.addon import addon

__all__ = ["addon"]
