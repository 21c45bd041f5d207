"""A headless Chromium with one tab, for tests of pages.

The protocol it is driven by: https://chromedevtools.github.io/devtools-protocol/
"""

import base64
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.devtools import ANSWER_S, JSON, DevTools, TargetNavigated

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
    "--hide-scrollbars", "--remote-debugging-pipe",
)  # fmt: skip
_KEYS = {"Tab": 9, "Enter": 13, "Escape": 27, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowUp": 38,
         "ArrowRight": 39, "ArrowDown": 40}  # fmt: skip


def chromium() -> str | None:
    """Where the browser is; None where there is none."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class ScriptFailed(Exception):
    """A script that a test ran in the page raised; the message is the page's."""


class Page:
    """A tab. What it asked for and what it complained about is kept in `requests` and `complaints`."""

    def __init__(self, browser: DevTools, session: str) -> None:
        self._browser, self._session = browser, session
        self.requests: list[str] = []  # addresses, `data:` ones too
        self.complaints: list[str] = []
        self._is_loaded = False
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> JSON:
        """A command of the protocol and its answer."""
        return self._browser.call(method, parameters, self._session, self._note)

    def open(self, path: Path) -> None:
        """Loads a file and waits until it has loaded. Raises RuntimeError when there is none."""
        self._is_loaded = False
        if error := self.call("Page.navigate", url=path.as_uri()).get("errorText"):
            raise RuntimeError(f"{path}: {error}")
        while not self._is_loaded:
            self._browser.listen(self._session, self._note)

    def run(self, script: str) -> Any:
        """The value of an expression in the page; a promise is awaited."""
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise ScriptFailed(json.dumps(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def wait(self, condition: str) -> None:
        """Until an expression is true in the page. Raises ScriptFailed when it never is.

        A click before may have it look at a page that another is about to take the place of.
        """
        never = json.dumps(f"never true: {condition}")
        looking = (
            f"new Promise((done, fail) => {{ let left = {ANSWER_S * 30};"
            f"const look = () => {{ if ({condition}) done();"
            f"else if ((left -= 1) < 0) fail(new Error({never})); else setTimeout(look, 16); }}; look(); }})"
        )
        try:
            self.run(looking)
        except TargetNavigated:
            self.run(looking)

    def point_at(self, selector: str, *, click: bool = False) -> None:
        """Moves the pointer to the middle of an element, which is brought into sight and drawn before."""
        at = self.run(
            f"(async () => {{ const element = document.querySelector({json.dumps(selector)});"
            "element.scrollIntoView({ block: 'center' });"
            "for (const _ of [1, 2]) await new Promise(requestAnimationFrame);"
            "const rect = element.getBoundingClientRect();"
            "return [rect.left + rect.width / 2, rect.top + rect.height / 2]; })()"
        )
        kinds = ["mouseMoved", *(["mousePressed", "mouseReleased"] if click else [])]
        for kind in kinds:
            button = "none" if kind == "mouseMoved" else "left"
            self.call("Input.dispatchMouseEvent", type=kind, x=at[0], y=at[1], button=button, clickCount=1)

    def press(self, key: str) -> None:
        """A key that writes nothing: ArrowRight, Enter, Tab."""
        for kind in ("rawKeyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=_KEYS[key])

    def resize(self, width: int, height: int, scale: float = 1) -> None:
        """The size of the window, in CSS pixels."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=scale, mobile=False,
        )  # fmt: skip

    def prefer(self, scheme: str) -> None:
        """`light` or `dark`."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def screenshot(self, path: Path) -> None:
        """The visible part as a PNG."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def _note(self, event: JSON) -> None:
        method, parameters = event["method"], event["params"]
        if method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif method == "Page.loadEventFired":
            self._is_loaded = True
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(parameters["exceptionDetails"]))
        elif method in ("Runtime.consoleAPICalled", "Log.entryAdded"):
            self.complaints.append(json.dumps(parameters))


@contextmanager
def browser_page(executable: str, profile: Path) -> Iterator[Page]:
    """A tab of a browser of its own, whose profile is made in the folder `profile`."""
    pipe = DevTools([executable, *FLAGS, f"--user-data-dir={profile}", "about:blank"])
    try:
        target = pipe.call("Target.createTarget", {"url": "about:blank"})["targetId"]
        attached = pipe.call("Target.attachToTarget", {"targetId": target, "flatten": True})
        yield Page(pipe, attached["sessionId"])
    finally:
        pipe.end()
