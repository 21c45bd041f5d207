"""The shape of a model's routing, out of its configuration (the fields of backends/model_config.py).

fact                     fields
layers                   num_hidden_layers: every layer has its place in a row, dense ones too
experts a token          num_experts_per_tok, experts_per_token, moe_topk, moe_k
experts                  num_experts, num_local_experts, n_routed_experts, moe_num_experts
dense layers             first_k_dense_replace with moe_layer_freq (DeepSeek, GLM-4),
mlp_only_layers with decoder_sparse_step (Qwen), moe_layers (Llama 4)
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

TOP_K_FIELDS = ("num_experts_per_tok", "experts_per_token", "moe_topk", "moe_k")
MOST_LAYERS = 1 << 12  # no model has more
EXPERTS_FIELDS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")


@dataclass(frozen=True, slots=True)
class MoeShape:
    """What is known of it; None is unknown."""

    layers: int | None = None
    top_k: int | None = None  # experts a token
    experts: int | None = None  # every id is below it
    dense_layers: frozenset[int] = frozenset()  # without experts: their ids mean nothing

    @property
    def row_size(self) -> int | None:
        """Ids of a row."""
        return None if self.layers is None or self.top_k is None else self.layers * self.top_k


def moe_shape(config: Mapping[str, Any] | None) -> MoeShape:
    """The shape that `config` tells of."""
    config = config or {}
    layers = _positive(config, "num_hidden_layers")
    layers = layers if layers is not None and layers <= MOST_LAYERS else None
    return MoeShape(
        layers=layers,
        top_k=_positive(config, *TOP_K_FIELDS),
        experts=_positive(config, *EXPERTS_FIELDS),
        dense_layers=frozenset(layer for layer in range(layers or 0) if not _has_experts(layer, config)),
    )


def _positive(config: Mapping[str, Any], *names: str) -> int | None:
    found = (config.get(name) for name in names)
    return next((value for value in found if type(value) is int and value > 0), None)


def _has_experts(layer: int, config: Mapping[str, Any]) -> bool:
    if isinstance(listed := config.get("moe_layers"), list) and listed:
        return layer in listed
    if isinstance(dense := config.get("mlp_only_layers"), list) and layer in dense:
        return False
    if (first := _positive(config, "first_k_dense_replace")) and layer < first:
        return False
    frequency = config.get("moe_layer_freq")
    if isinstance(frequency, list):  # one entry a layer, 0 for a dense one
        return layer >= len(frequency) or bool(frequency[layer])
    if layer % (_positive(config, "moe_layer_freq") or 1):
        return False
    return (layer + 1) % (_positive(config, "decoder_sparse_step") or 1) == 0
