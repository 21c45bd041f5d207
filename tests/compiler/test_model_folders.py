import json
from pathlib import Path

import pytest

from turnstile.compiler.errors import UnusableFolder
from turnstile.compiler.model_folders import ModelFolders


def model(folder: Path) -> Path:
    (folder / "config.json").write_text(json.dumps({"model_type": "qwen3_vl", "image_token_id": 5}))
    return folder


def tokenizer(folder: Path, token_id: int) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "tokenizer.json").write_text(
        json.dumps({"added_tokens": [{"id": token_id, "content": "[IMG]"}]})
    )
    return folder


def test_without_folders_nothing_is_told() -> None:
    assert (ModelFolders().model_config(), ModelFolders().added_tokens()) == (None, {})


def test_a_models_folder_tells_its_config_and_its_tokenizer(tmp_path: Path) -> None:
    options = ModelFolders(model=model(tmp_path))
    assert options.model_config() == {"image_token_id": 5, "model_type": "qwen3_vl"}
    assert options.added_tokens() == {}
    tokenizer(tmp_path, 7)
    assert options.added_tokens() == {"[IMG]": 7}


def test_a_tokenizer_that_is_named_counts_for_more_than_the_models(tmp_path: Path) -> None:
    options = ModelFolders(model=tokenizer(tmp_path, 7), tokenizer=tokenizer(tmp_path / "own", 8))
    assert options.added_tokens() == {"[IMG]": 8}


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnusableFolder, match="holds no model: expected a readable"):
        ModelFolders(model=tmp_path).model_config()
