"""What a user may say of the model: its folder, those of its tokenizer and image processor, a limit."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turnstile.addon.backends.model_config import read_model_config
from turnstile.compiler.errors import UnusableFolder
from turnstile.compiler.images.pixels import MAX_PIXELS
from turnstile.compiler.images.tokenizer_files import FILES, added_tokens


@dataclass(frozen=True, slots=True)
class ModelFolders:
    """Folders that are named count for more than what the log tells."""

    model: Path | None = None  # with config.json, perhaps the tokenizer's files
    tokenizer: Path | None = None
    processor: Path | None = None  # with preprocessor_config.json; None: images are not processed
    max_pixels: int = MAX_PIXELS  # of an image; a larger one is not decoded

    def model_config(self) -> Mapping[str, Any] | None:
        """The known fields of the model's config.json, None when no model is named.

        Raises UnusableFolder.
        """
        if self.model is None:
            return None
        config = read_model_config(str(self.model))
        if config is None:
            raise UnusableFolder(f"{self.model} holds no model: expected a readable config.json in it")
        return config

    def added_tokens(self) -> Mapping[str, int]:
        """The ids of the tokenizer's added tokens, none when no tokenizer is named.

        Raises UnusableFolder.
        """
        if self.tokenizer is not None:
            return added_tokens(self.tokenizer)
        if self.model is not None and any((self.model / name).is_file() for name in FILES):
            return added_tokens(self.model)
        return {}
