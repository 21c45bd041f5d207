"""What a probe found out about a backend: which engine, which version, what is switched on.

Only named fields are kept. SGLang's /server_info repeats every launch argument, secrets such as `api_key`
among them, and none of those may reach a log.
"""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Self

Kind = Literal["sglang", "vllm", "unknown"]

SERVER_INFO_KEYS = frozenset(
    {
        "attention_backend",
        "chunked_prefill_size",
        "context_length",
        "device",
        "disable_radix_cache",
        "dp_size",
        "dtype",
        "enable_cache_report",
        "enable_deterministic_inference",
        "enable_hierarchical_cache",
        "enable_return_hidden_states",
        "enable_return_routed_experts",
        "grammar_backend",
        "incremental_streaming_output",
        "max_running_requests",
        "max_total_num_tokens",
        "max_total_tokens",
        "model_path",
        "reasoning_parser",
        "return_input_ids",
        "return_output_ids",
        "sampling_backend",
        "served_model_name",
        "skip_tokenizer_init",
        "speculative_algorithm",
        "stream_interval",
        "stream_response_default_include_usage",
        "tool_call_parser",
        "tp_size",
        "version",
        "weight_version",
    }
)
EXPERT_COUNTS = ("num_experts", "num_local_experts", "n_routed_experts")
"""Fields of a model's configuration, by family."""

MODEL_INFO_KEYS = frozenset(
    {
        "architectures",
        "has_audio_understanding",
        "has_image_understanding",
        "is_generation",
        "load_format",
        "model_path",
        "model_type",
        "reasoning_parser",
        "served_model_name",
        "tokenizer_path",
        "tool_call_parser",
        "weight_version",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendFacts:
    """What is known of a backend; None and absent keys are unknown, not off."""

    kind: Kind
    version: tuple[int, ...] | None = None  # numbers of the release; None for what names none
    version_text: str | None = None  # as the backend gave it
    model_path: str | None = None  # the live one, which a weight update moves
    served_model_name: str | None = None
    server_info: Mapping[str, Any] = field(default_factory=dict)  # of SERVER_INFO_KEYS
    model_info: Mapping[str, Any] = field(default_factory=dict)  # of MODEL_INFO_KEYS
    model_config: Mapping[str, Any] | None = None  # see model_config.py; None: not readable here

    @property
    def vocab_size(self) -> int | None:
        """As `vocab_size_in`."""
        return vocab_size_in({"model_config": self.model_config})

    @property
    def has_experts(self) -> bool:
        """Whether the model is known to be a mixture of experts: by its configuration, else by its name."""
        counts = [(self.model_config or {}).get(field) for field in EXPERT_COUNTS]
        architectures = self.model_info.get("architectures")
        names = architectures if isinstance(architectures, list) else []
        return any(isinstance(count, int) and count > 1 for count in counts) or any(
            "moe" in str(name).lower() for name in names
        )

    @property
    def routed_experts_on(self) -> bool:
        """Whether the server was started so that it can return routed experts."""
        return self.server_info.get("enable_return_routed_experts") is True

    @property
    def routed_experts_off(self) -> bool:
        """Whether the server says that it was started so that it cannot."""
        return self.server_info.get("enable_return_routed_experts") is False

    @property
    def usage_by_default(self) -> bool:
        """Whether a stream ends with a usage chunk although the request did not ask for one."""
        return self.server_info.get("stream_response_default_include_usage") is True

    @property
    def tool_call_parser(self) -> str | None:
        """Name of the parser that turns text into tool calls."""
        return self._named("tool_call_parser")

    @property
    def reasoning_parser(self) -> str | None:
        """Name of the parser that splits reasoning from content."""
        return self._named("reasoning_parser")

    def as_record(self) -> dict[str, Any]:
        """Plain values, for a log record or JSON."""
        return asdict(self)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """The facts that `as_record` wrote; fields of a later version are passed over."""
        known = {name: record[name] for name in cls.__slots__ if name in record}
        if known.get("version") is not None:
            known["version"] = tuple(known["version"])
        return cls(**known)

    def _named(self, key: str) -> str | None:
        name = self.model_info.get(key, self.server_info.get(key))
        return name if isinstance(name, str) and name else None


def vocab_size_in(record: Mapping[str, Any]) -> int | None:
    """Rows of the embedding, so that a valid token id is below it, in what `as_record` wrote."""
    size = (record.get("model_config") or {}).get("vocab_size")
    return size if isinstance(size, int) else None


def at_least(facts: BackendFacts, *version: int) -> bool:
    """Whether the backend is known to be of that release or a later one."""
    return facts.version is not None and facts.version >= version


def parsed_version(text: object) -> tuple[int, ...] | None:
    """The release numbers of a version: (0, 5, 20) for "v0.5.20.post1"; None where there are none.

    A candidate or development build counts as the release it leads to. "0.0.0..." is what a build
    without tags calls itself, which says nothing.
    """
    match = re.match(r"v?(\d+(?:\.\d+)*)", text.strip()) if isinstance(text, str) else None
    if match is None:
        return None
    numbers = tuple(int(number) for number in match[1].split("."))
    return numbers if any(numbers) else None
