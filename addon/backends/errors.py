"""What can go wrong between Turnstile and a backend.

BackendError
├── BackendUnreachable     a probe got no usable answer
│   └── BackendNeedsKey    the backend answers, and wants a key (401, 403)
├── AskingError            a request body that cannot be edited: it is no JSON object
└── UndecodableReply       a reply body that holds no choices to read
"""


class BackendError(Exception):
    """Any of the errors of this package."""


class BackendUnreachable(BackendError):
    """A probe got no usable answer; the message names the URL and the reason."""


class BackendNeedsKey(BackendUnreachable):
    """The backend refused a probe for want of a key."""


class AskingError(BackendError):
    """A request body is no JSON object; the message says where it stops being one."""


class UndecodableReply(BackendError):
    """A reply body is no chat completion; the message says why."""
