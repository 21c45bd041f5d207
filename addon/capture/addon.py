"""The addon: mitmproxy's hooks in lifecycle order, each a few lines.

mitmproxy reloads the script when its file changes: the old script's addons get `done`, then the new ones
load, configure and running. The addon is one object for the whole process, so that a reload changes nothing.
When the new script does not load, or an option of another script is bad, mitmproxy would forward on without
the addon and say nothing of it; so it looks after itself.
"""

import asyncio
import logging
from collections.abc import Sequence
from functools import cache
from typing import Any

from mitmproxy import contentviews, ctx
from mitmproxy.addonmanager import Loader, traverse
from mitmproxy.exceptions import OptionsError
from mitmproxy.hooks import UpdateHook
from mitmproxy.http import HTTPFlow

from turnstile.addon.capture import flows
from turnstile.addon.capture.answers import Answer, give, internal_error, not_capturing
from turnstile.addon.capture.content_view import TurnstileContentview
from turnstile.addon.capture.defaults import set_better_defaults
from turnstile.addon.capture.error_pages import use_html_errors, use_openai_errors
from turnstile.addon.capture.http_stream import (
    extend_http_streams,
    restore_http_streams,
    what_mitmproxy_changed,
)
from turnstile.addon.capture.merging import Merging
from turnstile.addon.capture.onlookers import Onlookers
from turnstile.addon.capture.options import (
    Settings,
    SettingsError,
    declare_options,
    read_settings,
    take_out_malformed,
    touches_settings,
)
from turnstile.addon.capture.parent_watch import watch_parent
from turnstile.addon.capture.recording import interrupt
from turnstile.addon.capture.session import Session, open_session
from turnstile.addon.capture.shortcomings import note_own_error
from turnstile.addon.capture.web_handlers import add_pages
from turnstile.addon.tracelog.errors import LogWriteError

logger = logging.getLogger(__name__)


class TurnstileAddon:
    """Captures; idle where mitmproxy serves no port (`-n`), or shows a file (`-r`) and has no backend."""

    name = "turnstile"

    def __init__(self) -> None:
        self._settings: Settings | None = None  # None: nothing is to be captured, or an option is bad
        self._session: Session | None = None
        self._onlookers = Onlookers()
        self._running = False
        self._refused = False  # mitmproxy is about to end
        self._why_not = "it is starting"  # without a session
        self._cut_off: set[str] = set()  # flows that were under way when it stopped

    def merge_with(self, merging: Merging) -> None:
        """Has flows in an interface tell what becomes of their exchanges."""
        self._onlookers.merging = self._onlookers.merging or merging

    def load(self, loader: Loader) -> None:
        """Declares the options and the content view."""
        declare_options(loader)
        contentviews.add(TurnstileContentview(self._onlookers.kept))
        for error in take_out_malformed(ctx.options.deferred):
            self._refuse_to_start(error)
        asyncio.get_running_loop().call_soon(self._look_after_itself)
        watch_parent(ctx.master.shutdown)

    def configure(self, updated: set[str]) -> None:
        """Checks the options; a bad one ends mitmproxy at its start, and no change is taken later."""
        if "save_stream_file" in updated:
            self._onlookers.in_file = bool(ctx.options.save_stream_file)
        if self._refused or not touches_settings(updated):
            return
        try:
            settings = read_settings(ctx.options)
            if self._running and settings not in (None, self._settings):
                raise SettingsError("options cannot be changed while capturing; start the proxy anew")
        except SettingsError as error:
            if self._running:
                raise OptionsError(f"turnstile: {error}") from error  # type: ignore[no-untyped-call]
            self._refuse_to_start(error)
            return
        if settings is not None:
            self._settings = settings
            set_better_defaults(ctx.options)

    def running(self) -> None:
        """Begins the log and asks the backend what it is."""
        self._running = True
        if not self._onlookers.in_interface:
            self._onlookers.in_interface = _is_registered("view")
            add_pages(ctx.master, self._onlookers)
        if self._settings is None and not self._refused:
            self._why_not = "it shows flows from a file (-r) and no backend is named (--mode reverse:...)"
        if self._settings is None or self._session is not None:
            return
        changed = what_mitmproxy_changed()
        if changed is not None and self._settings.streaming != "buffered":
            self._refuse_to_start(f"{changed}; set turnstile_streaming=buffered")
            return
        try:
            self._session = open_session(self._settings, self._onlookers)
        except LogWriteError as error:
            self._refuse_to_start(error)
        else:
            self._onlookers.follow(self._session.recorder, self._session.in_flight, _update_list)
            use_openai_errors()
            if changed is None:
                extend_http_streams()
            else:
                logger.warning(
                    "turnstile: %s, so what came of a reply that broke off is not recorded, and what has "
                    "trailers is not answered",
                    changed,
                )

    async def request(self, flow: HTTPFlow) -> None:
        """Answers what is Turnstile's; asks the backend for more than the harness did."""
        session = self._session
        if not _from_harness(flow):
            return
        if session is None:
            give(flow, not_capturing(self._why_not))
            return
        try:
            await flows.on_request(session, flow)
        except Exception as error:
            note_own_error(session, "routing a request", error)
            give(flow, internal_error("routing the request"))

    def responseheaders(self, flow: HTTPFlow) -> None:
        """Decides whether the reply is held until it is whole."""
        session = self._session
        if session is None or not _from_harness(flow):
            return
        try:
            flows.on_response_headers(session, flow)
        except Exception as error:
            note_own_error(session, "looking at a reply's head", error)

    async def turnstile_done(self, flow: HTTPFlow) -> None:
        """Records a stream before its [DONE] leaves; see http_stream."""
        await self.response(flow)

    async def response(self, flow: HTTPFlow) -> None:
        """Records the exchange before the reply leaves."""
        session = self._session
        if flow.id in self._cut_off:
            _cut(flow, not_capturing(self._why_not))  # its record says that nobody got this reply
            return
        if session is None or not _from_harness(flow):
            return
        try:
            await flows.on_response(session, flow)
        except Exception as error:
            await flows.on_own_error(session, flow, note_own_error(session, "dealing with a reply", error))

    async def error(self, flow: HTTPFlow) -> None:
        """Records an exchange that came to no whole reply."""
        session = self._session
        if session is None:
            return
        try:
            await flows.on_error(session, flow)
        except Exception as error:
            await flows.on_own_error(
                session, flow, note_own_error(session, "recording a failed exchange", error)
            )

    def done(self) -> None:
        """Ends the log; or, taken out by a reload of the script, sees to it that capture goes on.

        mitmproxy goes on calling hooks of open flows after this one.
        """
        if not _is_registered(self.name):
            asyncio.get_running_loop().call_soon(self._look_after_itself)
            return
        self._running, self._why_not = False, "it has stopped"
        session, self._session = self._session, None
        if session is not None:
            self._onlookers.unfollow()
            self._cut_off = interrupt(session)
            session.recorder.close()
            use_html_errors()
            restore_http_streams()

    def _refuse_to_start(self, error: Exception | str) -> None:
        # An exception would be shown with its traceback; an error that is logged before mitmproxy runs
        # ends it as well.
        self._settings, self._refused, self._why_not = None, True, str(error)
        logger.error("turnstile: %s", error)

    def _look_after_itself(self) -> None:
        """Once mitmproxy has loaded or unloaded the script: whether its hooks are still called."""
        addons: Any = ctx.master.addons
        hooked = any(each is self for each in traverse(addons.chain))  # type: ignore[no-untyped-call]
        if hooked or ctx.master.should_exit.is_set():
            return
        if not self._running:
            self._refuse_to_start(
                "mitmproxy did not take the addon, most likely for a bad option of another script"
            )
            return
        logger.error(
            "turnstile: the addon's script is gone or does not load; capture goes on with the code in memory"
        )
        addons.lookup.pop(self.name, None)
        addons.add(self)


@cache
def the_addon() -> TurnstileAddon:
    """The one addon of this process."""
    return TurnstileAddon()


def addon(merging: Merging | None = None) -> TurnstileAddon:
    """The one addon of this process, for a script that is being loaded."""
    found = the_addon()
    if merging is not None:
        found.merge_with(merging)
    master: Any = getattr(ctx, "master", None)
    if master is not None and found in master.addons.chain:
        master.addons.remove(found)  # it had put itself back; the script shall hold it again
    return found


def _is_registered(name: str) -> bool:
    """Whether mitmproxy has an addon of that name: not ours while it is taken out."""
    addons: Any = ctx.master.addons
    return addons.get(name) is not None


def _update_list(flows: Sequence[HTTPFlow]) -> None:
    """Has the interfaces show these flows as they are now."""
    ctx.master.addons.trigger(UpdateHook(flows))


def _from_harness(flow: HTTPFlow) -> bool:
    """Not read from a file, not sent again by mitmproxy's user."""
    return flow.live and flow.is_replay is None


def _cut(flow: HTTPFlow, answer: Answer) -> None:
    """The harness gets the answer, or no end of the stream that it has begun to read."""
    if flow.response is None or not flow.response.stream:
        give(flow, answer)
    elif flow.killable:
        flow.kill()  # type: ignore[no-untyped-call]
