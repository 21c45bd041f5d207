"""Pages of captured exchanges: groups with their rollouts, and a group's answers coloured by logprob.

What the flows themselves tell; the report of a group's sequences, where it can be made, takes the place of
its answers.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from html import escape
from itertools import chain, groupby

from mitmproxy.http import HTTPFlow

from turnstile.addon.capture.annotations import SPLIT_MARK
from turnstile.addon.capture.sampled_tokens import SampledToken, sampled_tokens

PAGE_BYTES = 16 << 20  # of replies that are read for one page
_HALF = "\ufffd"  # what a server writes for half a character
_SHADES = 10  # of a token: 0 was as good as sure, the last one hardly likely

_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: #8881; padding: .6rem; border-radius: 4px; }
.wrong { font-weight: bold; } .wrong::before { content: "\\26a0  "; } .split::before { content: "\\2702  "; }
.unknown { outline: 1px dotted; }
"""


def overview_page(flows: Iterable[HTTPFlow]) -> str:
    """All groups with their rollouts and exchanges; links lead to mitmweb's own flows."""
    lines = []
    for group, of_group in _by(flows, "turnstile_group"):
        lines.append(f'<h2><a href="/turnstile/group/{escape(group)}">{escape(group)}</a></h2>')
        for rollout, of_rollout in _by(of_group, "turnstile_rollout"):
            lines += [f"<h3>{escape(rollout or 'without a rollout')}</h3>", "<ul>"]
            lines += [f"<li>{_link(flow)}</li>" for flow in of_rollout]
            lines.append("</ul>")
    return _page("Turnstile", lines or ["<p>Nothing has been captured yet.</p>"])


def group_page(group: str, flows: Iterable[HTTPFlow], reply_of: Callable[[HTTPFlow], bytes]) -> str:
    """The answers of a group, their tokens shaded: the darker, the less likely."""
    lines, left = ['<p><a href="/turnstile">all groups</a></p>'], PAGE_BYTES
    of_group = [flow for flow in flows if flow.metadata.get("turnstile_group") == group]
    for rollout, of_rollout in _by(of_group, "turnstile_rollout"):
        lines.append(f"<h2>{escape(rollout or 'without a rollout')}</h2>")
        for flow in of_rollout:
            lines.append(f"<p>{_link(flow)}</p>")
            try:
                reply = reply_of(flow)
                left -= len(reply)
                lines += _answers(reply) if left >= 0 else ["<p>not read: this page has read enough</p>"]
            except Exception as error:
                lines.append(f"<p>no tokens can be shown: {escape(type(error).__name__)}</p>")
    return _page(group, lines)


def texts_in(flows: Iterable[HTTPFlow], reply_of: Callable[[HTTPFlow], bytes]) -> dict[int, str]:
    """What the sampled tokens of the flows stand for, by their ids, of no more than PAGE_BYTES of replies."""
    texts, left = dict[int, str](), PAGE_BYTES
    for flow in flows:
        with suppress(Exception):  # a reply that cannot be read tells no texts
            reply = reply_of(flow)
            left -= len(reply)
            if left < 0:
                break
            for token in chain.from_iterable(sampled_tokens(reply).values()):
                if type(token.id) is int and token.text and _HALF not in token.text:
                    texts.setdefault(token.id, token.text)
    return texts


def address_of(flow: HTTPFlow) -> str:
    """Of its reply in mitmweb."""
    return f"/#/flows/{flow.id}/response"


def _answers(reply: bytes) -> Iterator[str]:
    for tokens in sampled_tokens(reply).values():
        yield f"<pre>{''.join(map(_token, tokens)) or 'no token ids'}</pre>"


def _token(token: SampledToken) -> str:
    is_number = type(token.logprob) in (int, float) and not math.isnan(token.logprob)
    shade = min(_SHADES - 1, int(_SHADES * (1 - math.exp(min(0.0, token.logprob))))) if is_number else -1
    kind = f"s{shade}" if is_number else "unknown"
    title = f"{token.id}, logprob {token.logprob}"
    return f'<span class="{kind}" title="{escape(title)}">{escape(token.text or f" {token.id} ")}</span>'


def _link(flow: HTTPFlow) -> str:
    kind = {"": "", SPLIT_MARK: ' class="split"'}.get(flow.marked, ' class="wrong"')
    return f'<a href="{escape(address_of(flow))}"{kind}>{escape(flow.comment)}</a>'


def _by(flows: Iterable[HTTPFlow], key: str) -> Iterator[tuple[str, list[HTTPFlow]]]:
    """Flows by what their metadata has under the key, in the order in which they came."""

    def value(flow: HTTPFlow) -> str:
        return str(flow.metadata.get(key, ""))

    for found, same in groupby(sorted(flows, key=value), key=value):
        yield found, list(same)


def _page(title: str, lines: Sequence[str]) -> str:
    shades = "".join(f".s{at} {{ background: rgb(220 60 30 / {at * 7}%); }}\n" for at in range(_SHADES))
    head = f"<title>{escape(title)}</title><style>{_STYLE}{shades}</style>"
    body = "\n".join((f"<h1>{escape(title)}</h1>", *lines))
    return f'<!doctype html>\n<html lang="en"><meta charset="utf-8">{head}<body>\n{body}\n</body></html>\n'
