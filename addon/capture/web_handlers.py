"""The pages under /turnstile of mitmweb's own interface, behind its own password.

The overview is made of the flows that mitmweb holds. The page of a group is a report of the sequences that
its exchanges give so far, where their log is at hand, and else shows what the flows hold of the answers.
"""

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mitmproxy.http import HTTPFlow

from turnstile.addon.capture.annotations import EXCHANGE, GROUP, LOG, is_annotated
from turnstile.addon.capture.onlookers import Onlookers
from turnstile.addon.capture.web_page import address_of, group_page, overview_page, texts_in

logger = logging.getLogger(__name__)

SETTLING_S = 1.0  # that the overview waits for what is being merged


def add_pages(master: Any, onlookers: Onlookers) -> None:
    """Adds the pages where mitmproxy has a web interface, and nothing elsewhere."""
    if not hasattr(master, "app"):
        return
    # mitmweb has it loaded; mitmdump and mitmproxy shall not
    from mitmproxy.tools.web.app import RequestHandler

    class Overview(RequestHandler):  # type: ignore[no-untyped-call]
        async def get(self) -> None:
            if onlookers.follower is not None:
                await onlookers.follower.settled(SETTLING_S)
            self.write(overview_page(_captured(master)))

    class Group(RequestHandler):  # type: ignore[no-untyped-call]
        async def get(self, group_id: str) -> None:
            flows = [flow for flow in _captured(master) if flow.metadata.get(GROUP) == group_id]
            report = await _report(group_id, flows, onlookers)
            if report is None:
                page = await asyncio.to_thread(group_page, group_id, flows, onlookers.kept.reply_of)
                self.write(page)
            else:
                self.clear_header("Content-Security-Policy")  # its own is stricter, and lets its script run
                self.write(report)

    pages = [(r"/turnstile/?", Overview), (r"/turnstile/group/([A-Za-z0-9._:-]{1,128})", Group)]
    master.app.add_handlers(r".*", pages)


async def _report(group_id: str, flows: Sequence[HTTPFlow], onlookers: Onlookers) -> bytes | None:
    """The sequences of the session's log, or of the logs that the flows were made from; None without any."""
    follower, merging = onlookers.follower, onlookers.merging
    logs = {Path(str(flow.metadata[LOG])) for flow in flows if LOG in flow.metadata}
    is_live = follower is not None and not logs
    # a file of flows may come from anywhere: what it names must be there, and be no folder to search
    if merging is None or not (is_live or (logs and all(log.is_file() for log in logs))):
        return None
    links = {flow.metadata[EXCHANGE]: address_of(flow) for flow in flows}
    try:
        texts = await asyncio.to_thread(texts_in, flows, onlookers.kept.reply_of)
        if follower is not None and is_live:
            return await follower.group_page(group_id, texts, links)
        return await asyncio.to_thread(merging.group_page_of_logs, sorted(logs), group_id, texts, links)
    except Exception as error:
        logger.warning("turnstile: no report of a group can be made: %s", type(error).__name__)
        return None


def _captured(master: Any) -> list[HTTPFlow]:
    return [flow for flow in master.view.resolve("@all") if is_annotated(flow)]
