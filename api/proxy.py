"""A proxy for as long as a program needs one: it runs, groups are made, their sequences are compiled."""

import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from os import PathLike
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, urlsplit

from turnstile.addon.backends.errors import BackendNeedsKey, BackendUnreachable
from turnstile.addon.backends.probe import probe
from turnstile.compiler.compilation import Compilation
from turnstile.compiler.growing import GrowingLogs
from turnstile.compiler.model_folders import ModelFolders
from turnstile.compiler.pipeline import Options
from turnstile.compiler.selection import Selection
from turnstile.compiler.sequence import TrainingSequence
from turnstile.errors import ProxyError, ProxyStartError
from turnstile.live_merging import log_id_of
from turnstile.mitmdump_process import running_proxy
from turnstile.running_proxy import RunningProxy

PROBE_TIMEOUT_S = 5.0


class Proxy:
    """A mitmdump with the addon on 127.0.0.1, in front of `backend_url`; this program's end is its own.

    `model` names the policy; where it is a folder, its config.json tells the experts. Logs go to `log_dir`,
    else into a temporary folder that goes with the proxy. `port` 0 is a free one. `options` are the addon's,
    `{"turnstile_streaming": "live"}`, or mitmproxy's. `policy` and `max_tokens` are as for `compile_logs`.

    Use as a context manager, or `close` it. Safe to use from several threads; several proxies may run side
    by side. Raises ProxyStartError when the backend does not answer (unless `require_backend` is false), the
    port is taken, mitmdump is missing, or an option is bad.
    """

    def __init__(
        self,
        backend_url: str,
        model: str | PathLike[str] | None = None,
        *,
        log_dir: str | PathLike[str] | None = None,
        port: int = 0,
        options: Mapping[str, str] | None = None,
        policy: str = "strict",
        max_tokens: int | None = None,
        require_backend: bool = True,
    ) -> None:
        self.backend_url, self.model = _checked_url(backend_url), model
        compile_options = Options(policy, Selection(max_tokens), ModelFolders(_folder(model)))
        if require_backend:
            _reach(self.backend_url)
        self._lock = Lock()  # of the compiled state
        self._is_closed = False
        with ExitStack() as opened:
            if log_dir is None:
                log_dir = opened.enter_context(tempfile.TemporaryDirectory(prefix="turnstile-traces-"))
            self.log_dir = Path(log_dir).resolve()
            self._proxy = opened.enter_context(
                running_proxy(self.backend_url, self.log_dir, options=options, port=port)
            )
            self.addr = self._proxy.address  # host:port
            log_id = log_id_of(Path(self._proxy.health()["log"]["path"]))
            self._logs = opened.enter_context(GrowingLogs(self.log_dir, log_id, compile_options))
            self._opened = opened.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the proxy in order; the logs stay in `log_dir`, if that was named. May be called again."""
        with self._lock:
            self._is_closed = True
            self._opened.close()

    def base_url(self, group_id: str, rollout_id: str | None = None) -> str:
        """The base URL of an OpenAI client for a group, or for one of its rollouts."""
        rollout = "" if rollout_id is None else f"/rollout/{rollout_id}"
        return f"http://{self.addr}/group/{group_id}{rollout}/v1"

    def create_group(
        self,
        max_trajectory_tokens: int | None = None,
        metadata: Mapping[str, Any] | None = None,
        group_id: str | None = None,
    ) -> str:
        """Makes a group and gives its id, which is drawn where none is named.

        The same group once more changes nothing. Raises ProxyError where it was made with other settings, and
        for values that cannot be meant.
        """
        body = {
            "group_id": group_id,
            "max_trajectory_tokens": max_trajectory_tokens,
            "metadata": _object(metadata),
        }
        return str(self._running.ask("POST", "groups", body)["group_id"])

    def get_group(self, group_id: str) -> dict[str, Any]:
        """The counters of a group. Raises ProxyError for one that was neither made nor used."""
        return self._running.ask("GET", f"groups/{quote(group_id, safe='')}")

    def add_reward(
        self,
        group_id: str,
        reward: float,
        *,
        rollout_id: str | None = None,
        sequence_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Records a reward for a sequence, a rollout or the whole group. Raises ProxyError for a bad one."""
        body = {
            "reward": _number(reward),
            "rollout_id": rollout_id,
            "sequence_id": sequence_id,
            "metadata": _object(metadata),
        }
        self._running.ask("POST", f"groups/{quote(group_id, safe='')}/reward", body)

    def flush(self) -> None:
        """Returns when all that was captured so far is readable in the log. Raises ProxyError."""
        self._running.flush()

    def health(self) -> dict[str, Any]:
        """What the proxy says of itself. Raises ProxyError when it cannot record."""
        return self._running.health()

    def get_training_sequences(self, group_id: str) -> list[TrainingSequence]:
        """What was captured of a group so far, as training sequences; see `compile_group`."""
        return list(self.compile_group(group_id))

    def compile_group(self, group_id: str) -> Compilation:
        """What was captured of a group so far, as sequences and findings; none for a group without exchanges.

        May be called while traffic goes on. Only what is new is read, unless an exchange ended later than one
        that is compiled and had begun before it: then its group is compiled anew. Raises ProxyError when the
        proxy is gone.
        """
        with self._lock:
            position = self._running.flush()["log"]
            self._logs.read_on(Path(position["path"]), position["offset"])
            return self._logs.compiled(group_id)

    @property
    def _running(self) -> RunningProxy:
        if self._is_closed:
            raise ProxyError("the proxy is closed; compile its logs, if they were kept, with compile_logs")
        return self._proxy


def _checked_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:  # its words may repeat a password
        raise ProxyStartError(
            "backend_url has no readable host or port, expected http://HOST:PORT without a path"
        ) from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/"):
        shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
        raise ProxyStartError(f"backend_url is {shown!r}, expected http://HOST:PORT without a path")
    return url.rstrip("/")


def _number(reward: float) -> float:
    """Of NumPy or a tensor, too."""
    try:
        return float(reward)
    except (TypeError, ValueError, OverflowError):
        raise ProxyError(f"reward is a {type(reward).__name__}, expected a number") from None


def _object(metadata: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if metadata is None or isinstance(metadata, Mapping):
        return None if metadata is None else dict(metadata)
    raise ProxyError(f"metadata is a {type(metadata).__name__}, expected a mapping")


def _folder(model: str | PathLike[str] | None) -> Path | None:
    """A model's folder; None for one that is only named."""
    return Path(model) if model is not None and Path(model).is_dir() else None


def _reach(url: str) -> None:
    try:
        probe(url, authorization=None, timeout_s=PROBE_TIMEOUT_S)
    except BackendNeedsKey:
        pass  # it answers; the harness has its key
    except BackendUnreachable as error:
        raise ProxyStartError(f"the backend cannot be reached: {error}") from error
