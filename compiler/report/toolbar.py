"""What a reader can choose: how tokens are coloured and spelled, and which sequences are shown."""

from turnstile.compiler.report.contents import Contents
from turnstile.compiler.report.markup import Markup, joined, tag

COLOURINGS = {"mask": "Mask", "logprob": "Logprob", "version": "Weights", "routing": "Routing"}
SPELLINGS = {"text": "Text", "both": "Both", "ids": "Ids"}


def toolbar(contents: Contents) -> Markup:
    """Works with scripts only, and is hidden without."""
    return tag(
        "form",
        _choice("colour", "Colour tokens by", COLOURINGS, "mask"),
        None if contents.texts is None else _choice("spelling", "Show tokens as", SPELLINGS, "both"),
        tag(
            "label",
            tag("span", "Find sequences"),
            tag(
                "input",
                type="search",
                id="filter",
                placeholder="id, rollout, cause, flag",
                autocomplete="off",
            ),
            class_="find",
        ),
        tag("output", id="filtered", class_="quiet", aria_live="polite"),
        tag("div", id="legend", class_="legend"),
        class_="toolbar with-scripts",
        aria_label="How sequences are shown",
    )


def _choice(name: str, legend: str, choices: dict[str, str], chosen: str) -> Markup:
    options = [
        joined(
            tag("input", type="radio", name=name, id=f"{name}-{value}", value=value, checked=value == chosen),
            tag("label", label, for_=f"{name}-{value}"),
        )
        for value, label in choices.items()
    ]
    return tag("fieldset", tag("legend", legend), *options, class_="choice")
