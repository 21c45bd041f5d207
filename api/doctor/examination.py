"""The order of an examination: is it there, what is it, and what does it tell.

A Turnstile proxy takes off again what it asks for, so of one that answers its backend is examined. A router
in front of SGLang may drop what it does not know: then the server says that it gives ids and the reply has
none, or there is a list of workers.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from turnstile.addon.backends.errors import BackendNeedsKey, BackendUnreachable
from turnstile.addon.backends.facts import at_least
from turnstile.addon.backends.probe import probe
from turnstile.doctor.chat_checks import IDS_SINCE, Asked, chat_checks, first_choice
from turnstile.doctor.extra_checks import (
    count_check,
    image_check,
    routing_check,
    stream_check,
    token_in_check,
)
from turnstile.doctor.report import Check, Report
from turnstile.doctor.server import Answer, Server

PROBE_TIMEOUT_S = 10.0


def examine(url: str, api_key: str | None = None) -> Report:
    """Asks the server at `url`, a backend, a router or a proxy of ours; sends some requests of 4 tokens."""
    server = Server(url.rstrip("/"), api_key)
    health = server.get("/turnstile/health")
    if "backend" in health.json and "log" in health.json:
        return _of_proxy(server, health)
    if health.json.get("error", {}) and "This proxy needs its key" in health.problem:
        checks = (
            Check("reachable", "missing", "a Turnstile proxy that wants its key", "name it by --api-key"),
        )
        return Report(server.url, "turnstile", None, checks)
    return _of_backend(server)


def _of_proxy(server: Server, health: Answer) -> Report:
    told = health.json
    checks = [Check("proxy", "ok", f"Turnstile {told.get('version')} before {told['backend'].get('url')}")]
    if told.get("status") == "ok":
        checks.append(Check("recording", "ok", f"into {told['log'].get('path')}"))
    else:
        mend = "free space, or mend the log's directory"
        checks.append(Check("recording", "missing", "the last write failed", mend))
    checks += [Check("capture so far", "missing", str(each)) for each in told.get("problems", [])]
    behind = _of_backend(Server(str(told["backend"].get("url"))))
    if behind.kind == "unknown":  # it may be out of reach from here, or want a key that is the harness's
        behind_it = tuple(replace(check, name="backend", status="unknown") for check in behind.checks[:1])
    else:
        behind_it = behind.checks
    return Report(server.url, "turnstile", told.get("version"), (*checks, *behind_it))


def _of_backend(server: Server) -> Report:
    try:
        facts = probe(server.url, authorization=server.authorization, timeout_s=PROBE_TIMEOUT_S)
    except BackendNeedsKey as error:
        return _unreachable(server, str(error).partition(";")[0], "name the server's key by --api-key")
    except BackendUnreachable as error:
        return _unreachable(server, str(error), "start the server, or name where it listens")
    models = server.get("/v1/models")
    model = facts.served_model_name or _listed_model(models.json) or "default"
    asked = Asked(server, facts, model, behind_router=_has_workers(server))
    checks = tuple(_checks(asked))
    kind = "router" if asked.behind_router else facts.kind
    return Report(server.url, kind, facts.version_text, checks)


def _checks(asked: Asked) -> Iterator[Check]:
    yield Check("reachable", "ok", _what(asked))
    answer = asked.chat()
    of_chat = chat_checks(asked, answer)
    if of_chat[0].status == "ok":
        yield from _router_checks(asked, of_chat)
    yield from of_chat
    if of_chat[0].status != "ok":
        return
    yield from routing_check(asked)
    yield stream_check(asked)
    yield token_in_check(asked, first_choice(answer))
    yield count_check(asked)
    yield from image_check(asked)


def _router_checks(asked: Asked, of_chat: list[Check]) -> Iterator[Check]:
    """A router that strips fields is the one cause that no flag of the request helps against."""
    lacks_ids = any(check.status == "missing" and check.name.endswith("token ids") for check in of_chat)
    should_give_ids = asked.facts.kind == "sglang" and at_least(asked.facts, *IDS_SINCE)
    if lacks_ids and (asked.behind_router or should_give_ids):
        found = "fields of the request do not reach SGLang"
        advice = "name a worker (GET /workers lists them), or have every worker started with the flags below"
        yield Check("router", "missing", found, advice)
    elif asked.behind_router:
        yield Check("router", "ok", "it hands on what capture asks for")


def _what(asked: Asked) -> str:
    facts = asked.facts
    if facts.kind == "unknown":
        return "a router" if asked.behind_router else "no server that Turnstile knows"
    name = {"sglang": "SGLang", "vllm": "vLLM"}[facts.kind]
    return f"{name} {facts.version_text or 'of no known version'}"


def _has_workers(server: Server) -> bool:
    return isinstance(server.get("/workers").json.get("workers"), list)


def _listed_model(models: dict[str, Any]) -> str | None:
    listed = models.get("data")
    model = (
        listed[0].get("id") if isinstance(listed, list) and listed and isinstance(listed[0], dict) else None
    )
    return model if isinstance(model, str) else None


def _unreachable(server: Server, found: str, advice: str) -> Report:
    return Report(server.url, "unknown", None, (Check("reachable", "missing", found, advice),))
