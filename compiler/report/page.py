"""The page: one file with its styles and scripts in it, which asks the network for nothing.

Its content security policy allows the styles and scripts that stand in it, by their hashes, and images from
`data:` addresses; everything else is forbidden, whatever a prompt may hold.
"""

from base64 import b64encode
from hashlib import sha256
from importlib.resources import files

from turnstile.compiler.report.contents import Contents
from turnstile.compiler.report.findings_section import findings_section
from turnstile.compiler.report.markup import Markup, joined, tag
from turnstile.compiler.report.placed import placed_sequences, sequences_by_finding
from turnstile.compiler.report.summary_section import summary_section
from turnstile.compiler.report.token_data import token_data
from turnstile.compiler.report.toolbar import toolbar
from turnstile.compiler.report.trees_section import trees_section

STYLES = ("page.css", "tokens.css")
SCRIPTS = ("decode.js", "model.js", "chips.js", "card.js", "blocks.js", "pane.js", "split.js", "page.js")
"""In this order they are one script: each uses what stands before it."""


def report_page(contents: Contents) -> bytes:
    """The whole page in UTF-8; the same contents give the same bytes."""
    placed = placed_sequences(contents)
    style, script = (_together(names) for names in (STYLES, SCRIPTS))
    body = tag(
        "body",
        tag("a", "Skip to the sequences", href="#sequences-heading", class_="skip"),
        tag(
            "header",
            tag("h1", "Turnstile report"),
            tag("p", contents.source, class_="source"),
            tag("a", "All groups", href=contents.links.home) if contents.links else None,
            tag("button", "Dark", type="button", id="theme", aria_pressed="false", class_="with-scripts"),
        ),
        tag(
            "main",
            summary_section(contents),
            toolbar(contents),
            trees_section(contents, placed),
            findings_section(contents.findings, placed, sequences_by_finding(placed)),
        ),
        tag("div", id="card", role="tooltip", hidden=True),
        *token_data(contents, placed),
        tag("script", Markup(script), type="module"),
    )
    page = joined(
        Markup("<!doctype html>\n"),
        tag("html", tag("head", *_head(contents, style, script)), body, lang="en"),
        "\n",
    )
    return page.encode("utf-8", "replace")


def _head(contents: Contents, style: str, script: str) -> list[Markup]:
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    return [
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("link", rel="icon", href="data:,"),
        tag("title", f"{contents.source} - Turnstile report"),
        tag("style", Markup(style)),
    ]


def _together(names: tuple[str, ...]) -> str:
    folder = files("turnstile.compiler.report") / "assets"
    return "\n".join((folder / name).read_text(encoding="utf-8") for name in names)


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"
