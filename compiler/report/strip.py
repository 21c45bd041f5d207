"""A sequence as a strip: how long it is beside the others, what it shares, what of it is trained."""

from turnstile.compiler.report.markup import Markup, tag
from turnstile.compiler.report.placed import Placed

_WIDTH = 1000


def strip(placed: Placed, longest: int) -> Markup:
    """Drawn to the scale of the longest sequence of the report."""
    scale = _WIDTH / max(longest, 1)
    size = len(placed.sequence.tokens) * scale
    trained, at = list[str](), 0
    for is_trained, length in placed.sequence.segment_info:
        if is_trained:
            width = max(length * scale, 2)
            trained.append(f"M{at * scale:.1f} 0h{width:.1f}v8h-{width:.1f}z")
        at += length
    shared = min(placed.shared * scale, size)
    return tag(
        "svg",
        tag("rect", width=f"{size:.1f}", height=8, class_="context"),
        tag("path", d="".join(trained), class_="trained") if trained else None,
        tag("rect", width=f"{shared:.1f}", height=8, class_="shared") if shared else None,
        viewBox=f"0 0 {_WIDTH} 8",
        preserveAspectRatio="none",
        class_="strip",
        aria_hidden="true",
    )
