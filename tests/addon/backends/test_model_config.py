import json
from pathlib import Path

import pytest

from turnstile.addon.backends.model_config import read_model_config


def config_in(folder: Path, config: object) -> str:
    (folder / "config.json").write_text(json.dumps(config))
    return str(folder)


def test_known_fields_are_kept_and_others_are_not(tmp_path: Path) -> None:
    config = {"vocab_size": 151936, "num_hidden_layers": 3, "num_experts_per_tok": 2, "rope_theta": 1e6}
    assert read_model_config(config_in(tmp_path, config)) == {
        "num_experts_per_tok": 2,
        "num_hidden_layers": 3,
        "vocab_size": 151936,
    }


def test_the_language_models_own_fields_stand_over_those_of_the_whole(tmp_path: Path) -> None:
    config = {
        "model_type": "qwen3_vl",
        "image_token_id": 151655,
        "vocab_size": 1,
        "text_config": {"model_type": "qwen3_vl_text", "vocab_size": 151936, "num_hidden_layers": 36},
    }
    assert read_model_config(config_in(tmp_path, config)) == {
        "image_token_id": 151655,
        "model_type": "qwen3_vl",
        "num_hidden_layers": 36,
        "vocab_size": 151936,
    }


@pytest.mark.parametrize("model_path", [None, "", "Qwen/Qwen3-1.7B", "/nowhere/at\0all"])
def test_a_path_without_a_config_here_is_unknown(model_path: str | None) -> None:
    assert read_model_config(model_path) is None


@pytest.mark.parametrize("text", [b"{", b"[1]", b"\xff", b"[" * 100_000])
def test_a_broken_config_is_unknown(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "config.json").write_bytes(text)
    assert read_model_config(str(tmp_path)) is None


def test_a_config_that_is_a_folder_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "config.json").mkdir()
    assert read_model_config(str(tmp_path)) is None


def test_tokens_of_the_whole_model_stand_over_the_text_parts(tmp_path: Path) -> None:
    config = {"image_token_id": 5, "text_config": {"image_token_id": None, "vision_start_token_id": 7}}
    assert read_model_config(config_in(tmp_path, config)) == {"image_token_id": 5, "vision_start_token_id": 7}
