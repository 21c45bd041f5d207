"""Routed experts for tests, of a model of two layers with 64 experts, two a token: rows that can be seen."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.support.logs import answered
from turnstile.addon.backends.facts import BackendFacts
from turnstile.addon.backends.reading import ChoiceReading, read_chat
from turnstile.addon.backends.row_placement import DTYPES
from turnstile.addon.tracelog.records import Exchange
from turnstile.compiler.routing.rows import RoutedRows

MOE_CONFIG: Mapping[str, Any] = {"num_hidden_layers": 2, "num_experts_per_tok": 2, "num_experts": 64}


def experts(*numbers: int) -> NDArray[np.int32]:
    """[rows, 2, 2]; row number n is [[n, n + 1], [n + 2, n + 3]]."""
    firsts = np.array(numbers, np.int32).reshape(-1, 1, 1)
    return firsts + np.array([[0, 1], [2, 3]], np.int32)


def rows(*numbers: int, start: int = 0, dtype: type[np.integer] = np.uint8) -> RoutedRows:
    """What an answer tells from token `start` on, as row numbers of `experts`."""
    return RoutedRows(start, experts(*numbers).astype(dtype))


def bare_rows(*numbers: int, start: int = 0) -> RoutedRows:
    """The same of a model whose shape is unknown."""
    return RoutedRows(start, experts(*numbers).astype(np.uint8).reshape(-1, 4, 1), has_shape=False)


def encoded(ids: Any, dtype: str = "int32") -> str:
    """The text that SGLang sends for these ids."""
    return b64encode(np.asarray(ids).astype(DTYPES[dtype]).tobytes()).decode()


def npy(array: NDArray[Any]) -> str:
    """The text that vLLM sends for this array."""
    file = BytesIO()
    np.save(file, array)
    return b64encode(file.getvalue()).decode()


def facts(**fields: Any) -> BackendFacts:
    """Of an SGLang that serves the model; `fields` take the place of the usual ones."""
    usual: dict[str, Any] = {
        "kind": "sglang",
        "version": (0, 5, 23),
        "version_text": "0.5.23",
        "model_config": MOE_CONFIG,
    }
    return BackendFacts(**usual | fields)


def routed(
    number: int,
    prompt_ids: Sequence[int],
    sampled_ids: Sequence[int],
    routed_experts: Any,
    *,
    start: int | None = None,
    meta_info: Mapping[str, Any] | None = None,
    backend: BackendFacts | None = None,
    **fields: Any,
) -> Exchange:
    """An exchange that was asked for its routing, from row `start` on, and answered with `routed_experts`.

    An array is sent as SGLang sends it, anything else as it is. The whole prompt was in the cache.
    """
    sent = encoded(routed_experts) if isinstance(routed_experts, np.ndarray) else routed_experts
    asked: dict[str, Any] = {"messages": [{"role": "user", "content": str(number)}]}
    asked |= {"return_routed_experts": True} | ({} if start is None else {"routed_experts_start_len": start})
    told = {"routed_experts": sent, "cached_tokens": len(prompt_ids)} | dict(meta_info or {})
    return answered(
        number,
        prompt_ids,
        sampled_ids,
        request=asked,
        choice_fields={"meta_info": told},
        backend=(backend or facts()).as_record(),
        **fields,
    )


def reading_of(exchange: Exchange) -> ChoiceReading:
    """Its first choice."""
    assert exchange.reply is not None
    return read_chat(exchange.reply)[0]
