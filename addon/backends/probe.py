"""Asks a backend what it is: SGLang, vLLM or something else, and what it was started with.

SGLang answers GET /server_info and /model_info (/get_server_info, /get_model_info before 0.5.8, and still
served). vLLM answers GET /version, which SGLang does not have; its own /server_info, in development mode,
holds a `vllm_config`.
"""

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Collection, Mapping
from typing import Any
from urllib.parse import urlsplit

from turnstile.addon.backends.direct import direct_opener
from turnstile.addon.backends.errors import BackendNeedsKey, BackendUnreachable
from turnstile.addon.backends.facts import (
    MODEL_INFO_KEYS,
    SERVER_INFO_KEYS,
    BackendFacts,
    parsed_version,
)
from turnstile.addon.backends.model_config import read_model_config

SGLANG_MARKS = frozenset({"internal_states", "served_model_name", "tokenizer_path", "tp_size"})
ANSWER_LIMIT_BYTES = 64 * 1024 * 1024


def probe(base_url: str, *, authorization: str | None, timeout_s: float) -> BackendFacts:
    """What the backend at `base_url` says of itself; blocks for a few requests of `timeout_s` each.

    Proxies that the environment names are not used: the backend is what the user named. Raises
    BackendNeedsKey when it wants another `authorization`, BackendUnreachable when it does not answer.
    """
    backend = _Backend(base_url, authorization, timeout_s)
    server_info = backend.first_of("/server_info", "/get_server_info")
    model_info = backend.first_of("/model_info", "/get_model_info")
    if "vllm_config" not in server_info and SGLANG_MARKS & (server_info.keys() | model_info.keys()):
        return _sglang_facts(server_info, model_info)
    version = backend.json_at("/version").get("version")
    return _other_facts(version, backend.json_at("/v1/models"))


def _sglang_facts(server_info: Mapping[str, Any], model_info: Mapping[str, Any]) -> BackendFacts:
    # A weight update moves model_path and served_model_name in /model_info only.
    live = {**server_info, **model_info}
    model_path = _text(live.get("model_path"))
    return BackendFacts(
        kind="sglang",
        version=parsed_version(server_info.get("version")),
        version_text=_text(server_info.get("version")),
        model_path=model_path,
        served_model_name=_text(live.get("served_model_name")),
        server_info=_only(SERVER_INFO_KEYS, server_info),
        model_info=_only(MODEL_INFO_KEYS, model_info),
        model_config=read_model_config(model_path),
    )


def _other_facts(version: object, models: Mapping[str, Any]) -> BackendFacts:
    listed = models.get("data")
    model = listed[0] if isinstance(listed, list) and listed and isinstance(listed[0], dict) else {}
    model_path = _text(model.get("root"))
    return BackendFacts(
        kind="vllm" if isinstance(version, str) else "unknown",
        version=parsed_version(version),
        version_text=_text(version),
        model_path=model_path,
        served_model_name=_text(model.get("id")),
        model_config=read_model_config(model_path),
    )


def _only(keys: Collection[str], info: Mapping[str, Any]) -> dict[str, Any]:
    return {key: info[key] for key in sorted(keys) if key in info}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


class _Backend:
    """GET requests to one backend."""

    def __init__(self, base_url: str, authorization: str | None, timeout_s: float) -> None:
        self.base_url, self.timeout_s = base_url.rstrip("/"), timeout_s
        self.headers = {"Accept": "application/json"} | (
            {"Authorization": authorization} if authorization else {}
        )

    def first_of(self, *paths: str) -> dict[str, Any]:
        """The first JSON object that one of `paths` gives; empty where none does."""
        return next(filter(None, map(self.json_at, paths)), {})

    def json_at(self, path: str) -> dict[str, Any]:
        """The JSON object at `path`; empty where the backend has none there."""
        try:
            request = urllib.request.Request(self.base_url + path, headers=self.headers)
            with direct_opener().open(request, timeout=self.timeout_s) as answer:
                value = json.loads(answer.read(ANSWER_LIMIT_BYTES))
        except urllib.error.HTTPError as error:
            error.close()
            if error.code in (401, 403):
                raise BackendNeedsKey(self._wants_key(path, error.code)) from None
            if error.code in (502, 503, 504):
                raise BackendUnreachable(f"{self._shown(path)} answers {error.code}: not ready") from None
            return {}
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            raise BackendUnreachable(f"{self._shown(path)} cannot be reached: {reason}") from error
        except (ValueError, RecursionError):
            return {}
        return value if isinstance(value, dict) else {}

    def _wants_key(self, path: str, status: int) -> str:
        sent = "the one that was sent is not accepted" if "Authorization" in self.headers else "none was sent"
        return (
            f"{self._shown(path)} answers {status}: the backend wants an API key, and {sent}; "
            "let the harness send the backend's key as its bearer key"
        )

    def _shown(self, path: str) -> str:
        """The URL without a user name or password in it."""
        url = urlsplit(self.base_url)
        return f"{url.scheme}://{url.netloc.rpartition('@')[2]}{url.path}{path}"
