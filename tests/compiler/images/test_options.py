import json
from pathlib import Path

import pytest

from turnstile.compiler.errors import ImageOptionError
from turnstile.compiler.images.options import ImageOptions


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
    assert (ImageOptions().model_config(), ImageOptions().added_tokens()) == (None, {})


def test_a_models_folder_tells_its_config_and_its_tokenizer(tmp_path: Path) -> None:
    options = ImageOptions(model=model(tmp_path))
    assert options.model_config() == {"image_token_id": 5, "model_type": "qwen3_vl"}
    assert options.added_tokens() == {}
    tokenizer(tmp_path, 7)
    assert options.added_tokens() == {"[IMG]": 7}


def test_a_tokenizer_that_is_named_counts_for_more_than_the_models(tmp_path: Path) -> None:
    options = ImageOptions(model=tokenizer(tmp_path, 7), tokenizer=tokenizer(tmp_path / "own", 8))
    assert options.added_tokens() == {"[IMG]": 8}


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ImageOptionError, match="holds no model: expected a readable"):
        ImageOptions(model=tmp_path).model_config()
