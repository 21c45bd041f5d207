from pathlib import Path
from typing import Any

import pytest

from turnstile.addon.backends.model_config import read_model_config
from turnstile.addon.backends.moe_shape import EXPERTS_FIELDS, MOST_LAYERS, TOP_K_FIELDS, MoeShape, moe_shape


def dense_layers(**config: Any) -> list[int]:
    return sorted(moe_shape({"num_hidden_layers": 6} | config).dense_layers)


@pytest.mark.parametrize("top_k", TOP_K_FIELDS)
@pytest.mark.parametrize("experts", EXPERTS_FIELDS)
def test_a_configuration_tells_the_shape_in_its_own_words(top_k: str, experts: str) -> None:
    shape = moe_shape({"num_hidden_layers": 3, top_k: 2, experts: 60})
    assert (shape, shape.row_size) == (MoeShape(layers=3, top_k=2, experts=60), 6)


@pytest.mark.parametrize("name", [*TOP_K_FIELDS, *EXPERTS_FIELDS])
def test_every_field_of_the_shape_is_kept_of_the_models_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "config.json").write_text(f'{{"num_hidden_layers": 2, "{name}": 7}}')
    shape = moe_shape(read_model_config(str(tmp_path)))
    assert (shape.top_k, shape.experts) == ((7, None) if name in TOP_K_FIELDS else (None, 7))


def test_the_layers_with_experts_of_llama_4_are_kept_of_the_models_folder(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"text_config": {"num_hidden_layers": 4, "moe_layers": [1, 3]}}')
    assert moe_shape(read_model_config(str(tmp_path))).dense_layers == {0, 2}


@pytest.mark.parametrize(("number", "expected"), [(MOST_LAYERS, MOST_LAYERS), (MOST_LAYERS + 1, None)])
def test_more_layers_than_any_model_has_are_unknown(number: int, expected: int | None) -> None:
    assert moe_shape({"num_hidden_layers": number, "decoder_sparse_step": 2}).layers == expected


@pytest.mark.parametrize("config", [None, {}, {"vocab_size": 100}])
def test_without_a_configuration_nothing_is_known(config: Any) -> None:
    assert moe_shape(config) == MoeShape(None, None, None, frozenset())


@pytest.mark.parametrize("value", [None, 0, -1, 2.0, "2", True, [2], {}])
def test_what_is_no_count_is_unknown(value: Any) -> None:
    config = {"num_hidden_layers": value, "num_experts_per_tok": value, "num_experts": value}
    assert moe_shape(config) == MoeShape()
    assert moe_shape(config | {"moe_topk": 4, "n_routed_experts": 8}) == MoeShape(None, 4, 8)


@pytest.mark.parametrize(
    "shape", [MoeShape(), MoeShape(layers=3), MoeShape(top_k=2), MoeShape(experts=60, top_k=2)]
)
def test_the_size_of_a_row_needs_layers_and_experts_a_token(shape: MoeShape) -> None:
    assert shape.row_size is None


def test_every_layer_has_experts_unless_the_configuration_says_otherwise() -> None:
    assert dense_layers(num_experts=8) == []


@pytest.mark.parametrize(
    ("config", "dense"),
    [
        # DeepSeek, GLM-4
        ({"first_k_dense_replace": 2}, [0, 1]),
        ({"first_k_dense_replace": 0, "moe_layer_freq": 1}, []),
        ({"first_k_dense_replace": 1, "moe_layer_freq": 2}, [0, 1, 3, 5]),
        ({"moe_layer_freq": 3}, [1, 2, 4, 5]),
        # a list has an entry a layer
        ({"moe_layer_freq": [0, 1, 1, 0, 1, 1]}, [0, 3]),
        ({"moe_layer_freq": [0, 1]}, [0]),
        ({"first_k_dense_replace": 1, "moe_layer_freq": [1, 1, 0, 1, 1, 1]}, [0, 2]),
        # Qwen
        ({"mlp_only_layers": [0, 4]}, [0, 4]),
        ({"mlp_only_layers": [], "decoder_sparse_step": 1}, []),
        ({"mlp_only_layers": [1], "decoder_sparse_step": 2}, [0, 1, 2, 4]),
        # Llama 4
        ({"moe_layers": [1, 3, 5]}, [0, 2, 4]),
        ({"moe_layers": [1, 3, 5], "mlp_only_layers": [3]}, [0, 2, 4]),
        ({"moe_layers": []}, []),
    ],
)
def test_layers_without_experts_are_known(config: dict[str, Any], dense: list[int]) -> None:
    assert dense_layers(**config) == dense


@pytest.mark.parametrize("value", [None, "2", True, -1, {"0": 1}])
@pytest.mark.parametrize(
    "field",
    ["moe_layers", "mlp_only_layers", "first_k_dense_replace", "moe_layer_freq", "decoder_sparse_step"],
)
def test_a_field_of_another_type_says_nothing_of_dense_layers(field: str, value: Any) -> None:
    assert dense_layers(**{field: value}) == []


def test_dense_layers_are_unknown_without_the_number_of_layers() -> None:
    assert moe_shape({"first_k_dense_replace": 2}).dense_layers == frozenset()
