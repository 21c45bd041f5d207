"""What a chat completion asks the backend for, so that the reply tells what the model saw and sampled.

SGLang from 0.5.13 on gives prompt ids, sampled ids with their logprobs and weight versions to a request
that does not stream. Older servers, other engines and gateways pass over what they do not know, so the same
is asked of them and the reply shows what came of it. vLLM has one field for both kinds of ids.

To a stream SGLang gives ids from 0.5.20 on, by fields of their own, and refuses the other ones with it.

Only what is missing is added, as byte edits: the harness's own fields keep their bytes. Source: SGLang's
ChatCompletionRequest (0.5.4 to 0.5.23) and vLLM's (0.33).

Routed experts may be asked for from some row on. That stays within what the reply can prove: never where the
harness wants rows itself, nor of several samples, whose replies hide that the prompt was computed anew.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from turnstile.addon.backends.facts import BackendFacts, Kind, at_least
from turnstile.addon.backends.json_edit import JsonObject, edits, parse_object
from turnstile.addon.backends.limiting import TOKEN_LIMITS
from turnstile.addon.backends.nested_edits import edits_inside, joined_edits
from turnstile.addon.tracelog.records import Splice, spliced

Moe = Literal["off", "full"]
"""Whether to ask for routed experts: not at all, or for every row every turn."""

LOGPROBS = "logprobs"
META_INFO = "return_meta_info"
PROMPT_IDS = "return_prompt_token_ids"
TOKEN_IDS = "return_token_ids"
ROUTED_EXPERTS = "return_routed_experts"
INPUT_IDS_IN_SGLEXT = "return_input_ids_in_sglext"
OUTPUT_IDS_IN_SGLEXT = "return_output_ids_in_sglext"

ROUTING_START = "routed_experts_start_len"
"""The first row of routed experts that is wanted; SGLang from 0.5.12 on, others give all rows."""

FLAGS = (
    LOGPROBS,
    META_INFO,
    PROMPT_IDS,
    TOKEN_IDS,
    ROUTED_EXPERTS,
    INPUT_IDS_IN_SGLEXT,
    OUTPUT_IDS_IN_SGLEXT,
)
"""The fields of a request that are on or off and decide what a reply holds."""

REFUSED_WITH_STREAM = frozenset({META_INFO, PROMPT_IDS, TOKEN_IDS})
"""SGLang from 0.5.13 on answers 400 to these together with `stream`."""

ASKED_OF: Mapping[Kind, frozenset[str]] = {
    "sglang": frozenset({META_INFO, PROMPT_IDS}),
    "vllm": frozenset({TOKEN_IDS}),
    "unknown": frozenset({META_INFO, PROMPT_IDS, TOKEN_IDS}),
}
"""Beside logprobs, which every engine knows."""

ASKED_OF_STREAMS = frozenset({LOGPROBS, INPUT_IDS_IN_SGLEXT, OUTPUT_IDS_IN_SGLEXT})
"""Of SGLang from 0.5.20 on."""

ID_FLAGS_ELSEWHERE = {
    # flag: (request header that sets it with "1", switch of the server that sets it for everybody)
    INPUT_IDS_IN_SGLEXT: ("x-sglext-return-input-ids", "return_input_ids"),
    OUTPUT_IDS_IN_SGLEXT: ("x-sglext-return-output-ids", "return_output_ids"),
}
"""Other ways by which a harness gets ids in a stream (SGLang's serving_chat, 0.5.20 to 0.5.23)."""

_TRUE_WORDS = frozenset({"1", "on", "t", "true", "y", "yes"})  # what pydantic reads as true


@dataclass(frozen=True, slots=True)
class Harness:
    """How the harness itself wanted to be answered."""

    wants_stream: bool = False
    include_usage: bool = False  # of a stream: a usage chunk at its end
    flags: frozenset[str] = frozenset()  # those of FLAGS that it set, or whose effect it has anyhow
    top_logprobs: int | None = None
    n: int = 1
    names_first_row: bool = False  # of routed experts: it gets what it asks for, and no more is asked


@dataclass(frozen=True, slots=True)
class Asking:
    """A request as it goes to the backend, against what the harness sent."""

    splices: tuple[Splice, ...]  # turn the harness's body into the forwarded one
    harness: Harness
    wanted: frozenset[str] = frozenset()  # those of FLAGS that capture needs
    live: bool = False  # the backend was asked to stream: its reply is for LiveRestorer, not restore_chat
    routing_start: int = 0  # row from which on capture asked for routed experts

    @property
    def added(self) -> frozenset[str]:
        """Those of FLAGS that the harness did not set: what they bring is not for it."""
        return self.wanted - self.harness.flags


def ask_chat(
    body: bytes,
    facts: BackendFacts | None,
    *,
    moe: Moe = "off",
    routing_start: int = 0,
    set: Mapping[str, Any] | None = None,
) -> Asking:
    """The edits by which a /v1/chat/completions request asks for all that capture needs, without streaming.

    `facts` None: nothing is known of the backend. Rows of routed experts before `routing_start` are not
    needed; the Asking says from where on they were asked for. `set` are fields that are to be set as well. A
    request that this backend refuses as it stands goes as it stands, so that the harness gets its error.
    Raises AskingError when the body is no JSON object.
    """
    request = parse_object(body)
    return _ask_whole(request, _harness(request, facts), facts, moe, routing_start, set or {})


def ask_chat_live(
    body: bytes,
    facts: BackendFacts | None,
    *,
    moe: Moe = "off",
    routing_start: int = 0,
    headers: Iterable[tuple[str, str]] = (),
    set: Mapping[str, Any] | None = None,
) -> Asking:
    """As `ask_chat`, but a request that wants a stream asks for one, which can pass on as it comes.

    For SGLang from 0.5.20 on. `headers` are the request's: some of them ask for ids. A request that wants
    no stream is asked as by `ask_chat`; `live` tells which came of it. A stream is asked for all rows of
    routed experts: that a start is refused would show within it, when the harness has it already.
    """
    request = parse_object(body)
    harness = _harness(request, facts)
    if not harness.wants_stream or _is_refused(harness, facts):
        return _ask_whole(request, harness, facts, moe, routing_start, set or {})
    harness = replace(harness, flags=harness.flags | _ids_anyhow(facts, headers))
    wanted = ASKED_OF_STREAMS | _routing(harness, moe)
    fields: dict[str, Any] = {flag: True for flag in FLAGS if flag in wanted - harness.flags}
    fields |= set or {}
    usage = {} if harness.include_usage else {"include_usage": True}
    if usage and request.value("stream_options") is None:
        fields["stream_options"] = usage
    inner = edits_inside(request, "stream_options", set=usage, remove=())
    return Asking(joined_edits(request, inner, set=fields), harness, wanted, live=True)


def ask_all_rows(forwarded: bytes) -> bytes:
    """The forwarded request with one token to sample, and all rows of routed experts.

    Raises AskingError when it is no JSON object.
    """
    request = parse_object(forwarded)
    named = [limit for limit in TOKEN_LIMITS if request.member(limit) is not None]
    limits = dict.fromkeys(named or TOKEN_LIMITS[:1], 1)
    return spliced(forwarded, edits(request, set=limits, remove=(ROUTING_START, "min_tokens")))


def harness_of(body: bytes, facts: BackendFacts | None = None) -> Harness:
    """How a request wants to be answered; raises AskingError when the body is no JSON object."""
    return _harness(parse_object(body), facts)


def _ask_whole(
    request: JsonObject,
    harness: Harness,
    facts: BackendFacts | None,
    moe: Moe,
    routing_start: int,
    set: Mapping[str, Any],
) -> Asking:
    if _is_refused(harness, facts):
        return Asking((), harness)
    of_engine = ASKED_OF["unknown" if facts is None else facts.kind]
    wanted = of_engine | {LOGPROBS} | _routing(harness, moe)
    added = wanted - harness.flags
    start = routing_start if ROUTED_EXPERTS in added and request.value("n") in (None, 1) else 0
    fields: dict[str, Any] = {"stream": False} if harness.wants_stream else {}
    fields |= {flag: True for flag in FLAGS if flag in added}
    fields |= {ROUTING_START: start} if start else {}
    fields |= set
    # stream_options without stream is an error to vLLM, and means nothing to SGLang.
    remove = ("stream_options",) if harness.wants_stream else ()
    return Asking(edits(request, set=fields, remove=remove), harness, wanted, routing_start=start)


def _routing(harness: Harness, moe: Moe) -> frozenset[str]:
    """ROUTED_EXPERTS where capture needs it; beside it counts a start that the server passes over alone."""
    needed = moe == "full" and (not harness.names_first_row or ROUTED_EXPERTS in harness.flags)
    return frozenset({ROUTED_EXPERTS}) if needed else frozenset()


def _ids_anyhow(facts: BackendFacts | None, headers: Iterable[tuple[str, str]]) -> frozenset[str]:
    """Flags whose effect a stream has whatever the body says."""
    switched_on = {name.lower() for name, value in headers if value == "1"}
    switches = {} if facts is None else facts.server_info
    return frozenset(
        flag
        for flag, (header, switch) in ID_FLAGS_ELSEWHERE.items()
        if header in switched_on or switches.get(switch) is True
    )


def _harness(request: JsonObject, facts: BackendFacts | None) -> Harness:
    keys = {member.key for member in request.members}
    options = request.value("stream_options") if "stream_options" in keys else None
    asks_for_usage = isinstance(options, dict) and _is_on(options.get("include_usage"))
    n, top_logprobs = request.value("n"), request.value("top_logprobs")
    return Harness(
        wants_stream=_is_on(request.value("stream")),
        include_usage=asks_for_usage or (facts is not None and facts.usage_by_default),
        flags=frozenset(flag for flag in FLAGS if flag in keys and _is_on(request.value(flag))),
        top_logprobs=top_logprobs if isinstance(top_logprobs, int) else None,
        n=n if isinstance(n, int) else 1,
        names_first_row=request.value(ROUTING_START) not in (None, 0),
    )


def _is_refused(harness: Harness, facts: BackendFacts | None) -> bool:
    known_to_refuse = facts is not None and facts.kind == "sglang" and at_least(facts, 0, 5, 13)
    return known_to_refuse and harness.wants_stream and bool(harness.flags & REFUSED_WITH_STREAM)


def _is_on(value: object) -> bool:
    """Whether the servers' models (pydantic) read the value as true."""
    if isinstance(value, str):
        return value.lower() in _TRUE_WORDS
    return isinstance(value, int | float) and value == 1
