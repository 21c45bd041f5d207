import json
from pathlib import Path

import pytest

from turnstile.compiler.errors import UnusableFolder
from turnstile.compiler.images.tokenizer_files import added_tokens


def test_added_tokens_of_both_files_are_told(tmp_path: Path) -> None:
    config = {"added_tokens_decoder": {"12": {"content": "[IMG_BREAK]"}}, "model_max_length": 7}
    whole = {
        "added_tokens": [{"id": 10, "content": "[IMG]"}, {"content": "no id"}],
        "model": {"vocab": {"a": 0}},
    }
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    (tmp_path / "tokenizer.json").write_text(json.dumps(whole))
    assert added_tokens(tmp_path) == {"[IMG_BREAK]": 12, "[IMG]": 10}


def test_a_folder_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnusableFolder, match="holds no tokenizer: expected tokenizer_config"):
        added_tokens(tmp_path)


def test_a_file_that_is_no_json_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(UnusableFolder, match="cannot be read as JSON"):
        added_tokens(tmp_path)
