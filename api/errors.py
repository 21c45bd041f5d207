"""What can go wrong between a program and the proxies that it runs.

ProxyError
└── ProxyStartError   a proxy did not come up
"""


class ProxyError(Exception):
    """A proxy cannot do what was asked of it, or does not answer; the message says what and why."""


class ProxyStartError(ProxyError):
    """The proxy did not come up; the message says why, with mitmdump's last words where it had any."""
