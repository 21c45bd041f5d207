"""The folder of a model, where the user names one."""

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from turnstile.addon.backends.model_config import read_model_config
from turnstile.compiler.errors import ModelUnreadable


def model_config_in(folder: str | PathLike[str] | None) -> Mapping[str, Any] | None:
    """The known fields of the config.json in `folder`; None without a folder.

    Raises ModelUnreadable where there is no config.json that can be read.
    """
    if folder is None:
        return None
    config = read_model_config(str(folder))
    if config is None:
        raise ModelUnreadable(f"{Path(folder)} holds no config.json that can be read; name a model's folder")
    return config
