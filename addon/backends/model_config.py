"""The shape of a model, out of the config.json beside its weights.

The folder is the one that the backend names as `model_path`. It is read where this machine has it and
passed over where not: a hub id, another machine's path and a broken file all count as unknown.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

CONFIG_KEYS = frozenset(
    {
        "architectures",
        "audio_token_id",
        "boi_token_index",
        "decoder_sparse_step",
        "experts_per_token",
        "first_k_dense_replace",
        "image_start_token_id",
        "image_token_id",
        "image_token_index",
        "img_context_token_id",
        "media_placeholder_token_id",
        "mlp_only_layers",
        "model_type",
        "moe_k",
        "moe_layer_freq",
        "moe_layers",
        "moe_num_experts",
        "moe_topk",
        "n_routed_experts",
        "n_shared_experts",
        "num_experts",
        "num_experts_per_tok",
        "num_hidden_layers",
        "num_local_experts",
        "video_token_id",
        "video_token_index",
        "vision_end_token_id",
        "vision_start_token_id",
        "vision_token_id",
        "vocab_size",
    }
)
WHOLE_MODEL = frozenset({"model_type", "architectures"})
TEXT_PARTS = ("text_config", "llm_config", "language_config")
SIZE_LIMIT_BYTES = 16 * 1024 * 1024


def read_model_config(model_path: str | None) -> dict[str, Any] | None:
    """The known fields of `model_path`/config.json, the language model's first; None if unreadable."""
    if not model_path:
        return None
    try:
        file = Path(model_path) / "config.json"
        if not file.is_file() or file.stat().st_size > SIZE_LIMIT_BYTES:
            return None
        config = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return _flattened(config) if isinstance(config, dict) else None


def _flattened(config: Mapping[str, Any]) -> dict[str, Any]:
    fields = {key: config[key] for key in CONFIG_KEYS if key in config}
    for part in TEXT_PARTS:
        if isinstance(text := config.get(part), dict):
            # These are of the whole model, as in /model_info; the text part may have token ids as null.
            own = {key for key in fields if key in WHOLE_MODEL or key.endswith(("_token_id", "_token_index"))}
            fields |= {key: text[key] for key in CONFIG_KEYS - own if key in text}
    return dict(sorted(fields.items()))
