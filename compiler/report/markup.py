"""HTML from values: every text is escaped unless it is markup already."""

import json
from html import escape
from typing import Any


class Markup(str):
    """Text that is HTML."""

    __slots__ = ()


Child = Markup | str | None
Attribute = str | int | bool | None

_VOID = frozenset({"meta", "link", "input", "rect", "path", "line", "br"})


def tag(name: str, /, *children: Child, **attributes: Attribute) -> Markup:
    """An element; children and attributes that are None or False are left out.

    Attribute names are written as in Python: `class_`, `data_sequence`.
    """
    written = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in _VOID and not children:
        return Markup(f"<{name}{written}>" if name not in _SHAPES else f"<{name}{written}/>")
    return Markup(f"<{name}{written}>{joined(*children)}</{name}>")


def joined(*children: Child) -> Markup:
    """Children one after the other."""
    return Markup(
        "".join(child if isinstance(child, Markup) else escape(child) for child in children if child)
    )


def data_block(id_: str, value: Any) -> Markup:
    """A value as JSON that no browser runs; nothing in it can end the element that holds it.

    Raises ValueError for NaN and infinities, which JSON has not.
    """
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    safe = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return Markup(f'<script type="application/json" id="{escape(id_)}">{safe}</script>')


def text_block(id_: str, base64_text: str) -> Markup:
    """Base64, which needs no escaping, in an element that no browser runs."""
    return Markup(f'<script type="text/plain" id="{escape(id_)}">{base64_text}</script>')


_SHAPES = frozenset({"rect", "path", "line"})


def _attribute(key: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    name = _SPELLED.get(key) or key.removesuffix("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escape(str(value))}"'


_SPELLED = {"viewBox": "viewBox", "preserveAspectRatio": "preserveAspectRatio"}
