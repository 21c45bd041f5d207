"""The pages under /turnstile of mitmweb's own interface, behind its own password."""

from typing import Any

from mitmproxy.http import HTTPFlow

from turnstile.addon.capture.annotations import is_annotated
from turnstile.addon.capture.onlookers import KeptReplies
from turnstile.addon.capture.web_page import group_page, overview_page


def add_pages(master: Any, kept: KeptReplies) -> None:
    """Adds the pages where mitmproxy has a web interface, and nothing elsewhere."""
    if not hasattr(master, "app"):
        return
    # mitmweb has it loaded; mitmdump and mitmproxy shall not
    from mitmproxy.tools.web.app import RequestHandler

    class Overview(RequestHandler):  # type: ignore[no-untyped-call]
        def get(self) -> None:
            self.write(overview_page(_captured(master)))

    class Group(RequestHandler):  # type: ignore[no-untyped-call]
        def get(self, group: str) -> None:
            self.write(group_page(group, _captured(master), kept.reply_of))

    pages = [(r"/turnstile/?", Overview), (r"/turnstile/group/([A-Za-z0-9._:-]{1,128})", Group)]
    master.app.add_handlers(r".*", pages)


def _captured(master: Any) -> list[HTTPFlow]:
    return [flow for flow in master.view.resolve("@all") if is_annotated(flow)]
