"""Where in a chat completion each fact lies, by engine and version.

    fact            SGLang                                               vLLM
    prompt ids      choices[].prompt_token_ids (0.5.13+)                 prompt_token_ids
                    sglext.input_ids (0.5.20+)
    sampled ids     choices[].meta_info.output_token_logprobs[][1]       choices[].token_ids
                    choices[].response_token_ids (0.5.18+), token_ids (0.5.17)
                    sglext.output_ids[] (0.5.20+)
    logprobs        choices[].meta_info.output_token_logprobs[][0]
                    choices[].logprobs.content[].logprob                 the same
    weights         choices[].meta_info.weight_version(s)                choices[].weight_versions
                    metadata.weight_version(s), of the first choice
    routed experts  choices[].meta_info, choices[].sgl_ext               choices[].routed_experts
                    sglext, of the first choice

Each function gives what stands in the places that are not empty, by the place's name, as it was found.
"""

from collections.abc import Mapping
from typing import Any

OUTPUT_ROWS = "meta_info.output_token_logprobs"
"""The place of rows [logprob, token id, text]."""

CONTENT = "logprobs.content"
"""The place of OpenAI's rows {token, bytes, logprob, top_logprobs}."""


class Choice:
    """One choice and what else in its reply speaks of it; objects that are absent are empty here."""

    __slots__ = ("alone", "fields", "meta_info", "metadata", "number", "reply", "sglext", "usage")

    def __init__(self, reply: Mapping[str, Any], fields: Mapping[str, Any], position: int) -> None:
        index = fields.get("index")
        self.reply, self.fields = reply, fields
        self.number: int = index if type(index) is int else position
        self.alone = len(reply["choices"]) == 1
        self.meta_info = inner_object(fields, "meta_info")
        self.sglext = inner_object(reply, "sglext")
        self.usage = inner_object(reply, "usage")
        self.metadata = inner_object(reply, "metadata") if self.number == 0 else {}


def prompt_ids(choice: Choice) -> dict[str, Any]:
    """Arrays of ids."""
    return _present(
        {
            "prompt_token_ids": choice.fields.get("prompt_token_ids"),
            "reply.prompt_token_ids": choice.reply.get("prompt_token_ids"),
            "sglext.input_ids": choice.sglext.get("input_ids"),
        }
    )


def sampled_ids(choice: Choice) -> dict[str, Any]:
    """Arrays of ids, and of rows under OUTPUT_ROWS."""
    of_choices, in_sglext = choice.sglext.get("output_ids"), None
    if isinstance(of_choices, list):
        in_sglext = of_choices[choice.number] if 0 <= choice.number < len(of_choices) else None
    return _present(
        {
            OUTPUT_ROWS: choice.meta_info.get("output_token_logprobs"),
            "response_token_ids": choice.fields.get("response_token_ids"),
            "token_ids": choice.fields.get("token_ids"),
            "sglext.output_ids": in_sglext,
        }
    )


def logprobs(choice: Choice) -> dict[str, Any]:
    """Rows under OUTPUT_ROWS and CONTENT."""
    of_choice = choice.fields.get("logprobs")
    return _present(
        {
            OUTPUT_ROWS: choice.meta_info.get("output_token_logprobs"),
            CONTENT: of_choice.get("content") if isinstance(of_choice, dict) else of_choice,
        }
    )


def prompt_token_counts(choice: Choice) -> dict[str, Any]:
    """Lengths of the prompt."""
    return _present(
        {
            "meta_info.prompt_tokens": choice.meta_info.get("prompt_tokens"),
            "usage.prompt_tokens": choice.usage.get("prompt_tokens"),
        }
    )


def completion_token_counts(choice: Choice) -> dict[str, Any]:
    """Numbers of sampled ids."""
    return _present(
        {
            "meta_info.completion_tokens": choice.meta_info.get("completion_tokens"),
            "meta_info.output_token_logprobs_length": choice.meta_info.get("output_token_logprobs_length"),
            # Of several choices the usage is their sum.
            "usage.completion_tokens": choice.usage.get("completion_tokens") if choice.alone else None,
        }
    )


def completion_token_sums(choice: Choice) -> dict[str, Any]:
    """Numbers of the sampled ids of all choices together."""
    return _present(
        {"usage.completion_tokens": None if choice.alone else choice.usage.get("completion_tokens")}
    )


def weight_versions(choice: Choice) -> dict[str, Any]:
    """Versions of the whole choice; of its end where they changed within it."""
    return _present(
        {
            "meta_info.weight_version": choice.meta_info.get("weight_version"),
            "metadata.weight_version": choice.metadata.get("weight_version"),
        }
    )


def weight_spans(choice: Choice) -> dict[str, Any]:
    """Lists of {version, start, end}: half-open, over the sampled ids."""
    return _present(
        {
            "meta_info.weight_versions": choice.meta_info.get("weight_versions"),
            "weight_versions": choice.fields.get("weight_versions"),
            "metadata.weight_versions": choice.metadata.get("weight_versions"),
        }
    )


def routed_experts(choice: Choice) -> dict[str, Any]:
    """Base64 text."""
    return _present(
        {
            "meta_info.routed_experts": choice.meta_info.get("routed_experts"),
            "sgl_ext.routed_experts": inner_object(choice.fields, "sgl_ext").get("routed_experts"),
            "routed_experts": choice.fields.get("routed_experts"),
            "sglext.routed_experts": choice.sglext.get("routed_experts") if choice.number == 0 else None,
        }
    )


def routed_experts_dtype(choice: Choice) -> dict[str, Any]:
    """Names of the type of the routing's numbers, which are int32 where none is told."""
    name, sgl_ext = "routed_experts_dtype", inner_object(choice.fields, "sgl_ext")
    return _present(
        {
            f"meta_info.{name}": choice.meta_info.get(name),
            f"sgl_ext.{name}": sgl_ext.get(name),
            f"sglext.{name}": choice.sglext.get(name),
        }
    )


def cached_tokens_details(choice: Choice) -> dict[str, Any]:
    """Objects that say which cache the cached prompt tokens came from."""
    return _present(
        {
            "meta_info.cached_tokens_details": choice.meta_info.get("cached_tokens_details"),
            "sglext.cached_tokens_details": choice.sglext.get("cached_tokens_details"),
        }
    )


def inner_object(holder: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The object that `holder` has under `name`; an empty one for anything else."""
    value = holder.get(name)
    return value if isinstance(value, dict) else {}


def _present(found: Mapping[str, Any]) -> dict[str, Any]:
    return {place: value for place, value in found.items() if value is not None}
