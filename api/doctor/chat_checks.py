"""What a chat completion must tell for its tokens to be trained on: ids, logprobs, weight versions."""

import json
from dataclasses import dataclass
from typing import Any

from turnstile.addon.backends.asking import Moe, ask_chat
from turnstile.addon.backends.errors import UndecodableReply
from turnstile.addon.backends.facts import BackendFacts, at_least
from turnstile.addon.backends.reading import ChoiceReading, PromptText, read_chat
from turnstile.addon.tracelog.records import spliced
from turnstile.doctor.report import Check
from turnstile.doctor.server import CHAT, Answer, Server, encoded

IDS_SINCE = (0, 5, 13)
ID_FLAGS_SINCE = (0, 5, 20)
MAX_TOKENS = 4


@dataclass(frozen=True, slots=True)
class Asked:
    """A server with what is known of it."""

    server: Server
    facts: BackendFacts
    model: str
    behind_router: bool

    def chat(self, *, moe: Moe = "off", **fields: Any) -> Answer:
        """The answer to a tiny request, asked for all that capture asks for."""
        body = encoded(self.request(**fields))
        asking = ask_chat(body, self.facts, moe=moe)
        return self.server.post(CHAT, spliced(body, asking.splices))

    def request(self, **fields: Any) -> dict[str, Any]:
        """A tiny request."""
        message = {"role": "user", "content": "Name a colour."}
        return {"model": self.model, "messages": [message], "max_tokens": MAX_TOKENS} | fields


def first_choice(answer: Answer) -> ChoiceReading | None:
    """The first choice of a chat completion; None where the answer is none."""
    try:
        return read_chat(answer.body)[0] if answer.status == 200 else None
    except UndecodableReply:
        return None


def chat_checks(asked: Asked, answer: Answer) -> list[Check]:
    """Ids, logprobs and weight version of the answer to `Asked.chat`."""
    choice = first_choice(answer)
    if choice is None:
        return [
            Check(
                "chat completions", "missing", answer.problem or "no chat completion", _no_chat(asked, answer)
            )
        ]
    sampled, logprobs = _first(choice.sampled_ids), _first(choice.logprobs)
    counts = [*choice.completion_token_counts.values()][:1]
    return [
        Check("chat completions", "ok", f"model {asked.model}"),
        _ids(asked, "prompt token ids", prompt_ids_of(choice), [*choice.prompt_token_counts.values()][:1]),
        _ids(asked, "sampled token ids", sampled, counts),
        _logprobs(asked, logprobs, sampled, counts),
        _weights(asked, choice),
    ]


def prompt_ids_of(choice: ChoiceReading | None) -> list[Any]:
    """The prompt's ids; [] where they are not told."""
    found = _first(choice.prompt_ids) if choice is not None else None
    try:
        ids = json.loads(found.array) if isinstance(found, PromptText) else found
    except ValueError:
        return []
    return ids if isinstance(ids, list) else []


def how_to_get_ids(asked: Asked) -> str:
    """What brings ids that are not there."""
    facts = asked.facts
    if facts.kind == "vllm":
        return "upgrade vLLM to one that knows return_token_ids"
    if facts.kind == "sglang" and facts.version and not at_least(facts, *IDS_SINCE):
        return f"upgrade SGLang {facts.version_text} to 0.5.13 or later"
    flags = "start SGLang with --return-input-ids --return-output-ids"
    if not at_least(facts, *ID_FLAGS_SINCE):
        flags = f"{flags} (0.5.20 or later)"
    between = "a router" if asked.behind_router else "something in between, a router perhaps,"
    return f"{between} drops fields of the request: name a worker instead, or {flags}"


def _no_chat(asked: Asked, answer: Answer) -> str:
    error = answer.json.get("error")
    if isinstance(error, dict) and error.get("code") == "not_recorded":
        return "this is `turnstile replay`, which answers recorded requests alone: ask the server itself"
    if asked.facts.kind == "unknown":
        return "name the URL of an SGLang server"
    return "see the server's own log"


def _ids(asked: Asked, name: str, ids: list[Any] | None, counts: list[Any]) -> Check:
    if not ids:
        return Check(name, "missing", "not in the reply", how_to_get_ids(asked))
    found = len(ids)
    if counts and counts[0] != found:
        return Check(name, "missing", f"{found}, and the usage says {counts[0]}", "upgrade the server")
    return Check(name, "ok", f"{found}, as many as the usage says" if counts else str(found))


def _logprobs(asked: Asked, logprobs: Any, sampled: Any, counts: list[Any]) -> Check:
    if not logprobs:
        return Check("logprobs", "missing", "not in the reply", "the server must honour logprobs: true")
    wanted = len(sampled) if sampled else (counts or [len(logprobs)])[0]
    if len(logprobs) != wanted:
        return Check(
            "logprobs", "missing", f"{len(logprobs)} for {wanted} sampled tokens", "upgrade the server"
        )
    return Check("logprobs", "ok", f"{len(logprobs)}, one for each sampled token")


def _weights(asked: Asked, choice: ChoiceReading) -> Check:
    name = "weight version"
    if choice.weight_spans:
        return Check(name, "ok", f"{_first(choice.weight_versions)!r}, told token by token")
    upgrade = "upgrade SGLang to 0.5.19 or later to have it token by token"
    if choice.weight_versions:
        return Check(name, "ok", f"{_first(choice.weight_versions)!r}, one for the whole reply", upgrade)
    return Check(
        name, "off", "not in the reply", "" if asked.facts.kind == "sglang" else "only SGLang tells it"
    )


def _first(found: Any) -> Any:
    return next(iter(found.values()), None)
