"""The proxy's own key, and which header values reach the log."""

from collections.abc import Collection
from hmac import compare_digest

Fields = tuple[tuple[bytes, bytes], ...]
OWN_PREFIX = b"x-turnstile-"


def without_key(fields: Fields, secret: bytes) -> Fields | None:
    """The headers without the one that carries the proxy's secret; None when none carries it.

    An Authorization header that carries something else is the backend's and stays. Every candidate is
    compared, in constant time.
    """
    carriers = [compare_digest(_offered_key(field), secret) for field in fields]
    if not any(carriers):
        return None
    return tuple(field for field, carries in zip(fields, carriers, strict=True) if not carries)


def without_own_headers(fields: Fields) -> Fields:
    """The headers without X-Turnstile-..., which are not the backend's business."""
    return tuple(field for field in fields if not field[0].lower().startswith(OWN_PREFIX))


def recorded_headers(
    fields: Fields, redacted: Collection[str], secret: bytes = b""
) -> tuple[tuple[str, str], ...]:
    """Headers for the log, in order; a redacted value, and one that carries the secret, is empty.

    Bytes are read as Latin-1, which keeps every one of them (RFC 9110, section 5.5).
    """
    return tuple(
        (
            name.decode("latin-1"),
            ""
            if name.decode("latin-1").lower() in redacted or (secret and secret in value)
            else value.decode("latin-1"),
        )
        for name, value in fields
    )


def _offered_key(field: tuple[bytes, bytes]) -> bytes:
    """The key that a header offers; empty when it is no header for keys."""
    name, value = field[0].lower(), field[1].strip()
    if name == b"x-turnstile-key":
        return value
    scheme, _, key = value.partition(b" ")
    return key.strip() if name == b"authorization" and scheme.lower() == b"bearer" else b""
