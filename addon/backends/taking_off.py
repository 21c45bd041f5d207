"""Takes off a parsed reply what the harness did not ask for.

Where each field lies: SGLang's serving_chat (0.5.9 to 0.5.23) and vLLM's (0.33); see the table in
`places`. What a server sends unasked (`metadata`, a server flag's `sglext.input_ids`) stays.
"""

from collections.abc import Iterator
from typing import Any

from turnstile.addon.backends.asking import (
    INPUT_IDS_IN_SGLEXT,
    LOGPROBS,
    META_INFO,
    OUTPUT_IDS_IN_SGLEXT,
    PROMPT_IDS,
    ROUTED_EXPERTS,
    TOKEN_IDS,
    Asking,
)

ROUTING_FIELDS = ("routed_experts", "routed_experts_dtype")


def take_off(reply: dict[str, Any], asking: Asking) -> bool:
    """Changes `reply` in place to what the harness's own fields would have brought; whether it had to."""
    choices = [choice for choice in reply["choices"] if isinstance(choice, dict)]
    changes = [_move_routing_back(reply, choices, asking)]
    changes += [_drop(holder, fields) for holder, fields in _hidden(reply, choices, asking)]
    if LOGPROBS in asking.added:
        changes += [_blank_logprobs(choice) for choice in choices]
    changes += [_drop_if_empty(holder, name) for holder, name in _extensions(reply, choices)]
    return any(changes)


def _move_routing_back(reply: dict[str, Any], choices: list[dict[str, Any]], asking: Asking) -> bool:
    """With meta_info asked for, 0.5.19 and later put the routing there and no longer in sglext."""
    moved = META_INFO in asking.added and ROUTED_EXPERTS in asking.harness.flags
    meta_info = choices[0].get("meta_info") if choices else None
    if not moved or not isinstance(meta_info, dict) or meta_info.get("routed_experts") is None:
        return False
    sglext = reply.get("sglext") or {}
    routing = {name: meta_info[name] for name in ROUTING_FIELDS if name in meta_info}
    reply["sglext"] = {**routing, **sglext}
    return bool(routing.keys() - sglext.keys())


def _hidden(
    reply: dict[str, Any], choices: list[dict[str, Any]], asking: Asking
) -> Iterator[tuple[Any, tuple[str, ...]]]:
    """(object, fields that were added to it)."""
    added, own = asking.added, asking.harness.flags
    in_choice, in_reply, in_sglext = [], [], []
    if added & {PROMPT_IDS, TOKEN_IDS} and not own & {PROMPT_IDS, TOKEN_IDS}:
        in_choice.append("prompt_token_ids")
        in_reply.append("prompt_token_ids")
    if TOKEN_IDS in added:
        in_choice += ["response_token_ids", "token_ids"]
    if META_INFO in added:
        in_choice.append("meta_info")
    if INPUT_IDS_IN_SGLEXT in added:
        in_sglext.append("input_ids")
    if OUTPUT_IDS_IN_SGLEXT in added:
        in_sglext.append("output_ids")
    if ROUTED_EXPERTS in added:
        in_sglext += ROUTING_FIELDS
        for choice in choices:
            yield choice.get("meta_info"), ROUTING_FIELDS
            yield choice.get("sgl_ext"), ROUTING_FIELDS
    yield reply, tuple(in_reply)
    yield reply.get("sglext"), tuple(in_sglext)
    for choice in choices:
        yield choice, tuple(in_choice)


def _drop(holder: Any, fields: tuple[str, ...]) -> bool:
    if not isinstance(holder, dict):
        return False
    present = [name for name in fields if name in holder]
    for name in present:
        del holder[name]
    return bool(present)


def _blank_logprobs(choice: dict[str, Any]) -> bool:
    """The server's answer without logprobs: null in the choice, none of their fields in meta_info."""
    changed = choice.get("logprobs") is not None
    if changed:
        choice["logprobs"] = None
    meta_info = choice.get("meta_info")
    fields = tuple(name for name in meta_info if "logprobs" in name) if isinstance(meta_info, dict) else ()
    return _drop(meta_info, fields) or changed


def _extensions(reply: dict[str, Any], choices: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], str]]:
    yield reply, "sglext"
    for choice in choices:
        yield choice, "sgl_ext"


def _drop_if_empty(holder: dict[str, Any], name: str) -> bool:
    extension = holder.get(name)
    if not isinstance(extension, dict) or any(value is not None for value in extension.values()):
        return False
    del holder[name]
    return True
