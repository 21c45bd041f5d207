"""A model's image processor, as transformers makes it of a local folder, and how many tokens it predicts.

Without torch transformers takes the processors that work with Pillow; with torchvision it takes those, as
SGLang does. The two resize a little differently, so a result says which it is of.
"""

import hashlib
import importlib.metadata
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pillow

from turnstile.compiler.errors import NotInstalled, UnusableFolder
from turnstile.compiler.images.tokenizer_files import read_object

Tensors = Mapping[str, NDArray[np.generic]]

SETTINGS_FILES = ("preprocessor_config.json", "processor_config.json")


class ImageProcessor:
    """The processor of one folder. Raises UnusableFolder for any other, NotInstalled without transformers."""

    def __init__(self, folder: Path) -> None:
        files = [folder / name for name in SETTINGS_FILES if (folder / name).is_file()]
        if not files:
            raise UnusableFolder(
                f"{folder} holds no image processor: expected {SETTINGS_FILES[0]} in it, as beside the "
                "model's weights"
            )
        self._settings: dict[str, Any] = {}
        for file in files:
            self._settings |= read_object(file)
        self._processor = _from_folder(folder)
        self.identity = self._identity()

    def tensors(self, image: Pillow.Image) -> Tensors:
        """What the processor makes of one RGB image.

        Raises ValueError where that is no arrays of numbers, and whatever the processor itself raises.
        """
        made = self._processor(images=[image], return_tensors="np")
        tensors = {name: np.ascontiguousarray(value) for name, value in sorted(made.items())}
        for name, value in tensors.items():
            if value.dtype.kind not in "biuf":
                raise ValueError(f"{name} is no array of numbers")
        return tensors

    def token_count(self, tensors: Tensors) -> int | None:
        """How many placeholder tokens stand for the image of these tensors; None: nothing tells."""
        grid, sizes, pixels = map(tensors.get, ("image_grid_thw", "image_sizes", "pixel_values"))
        if grid is not None:  # Qwen-VL, GLM-4V
            return int(grid.prod()) // self._number("merge_size", 1) ** 2
        if (length := self._number("image_seq_length", 0)) and "num_crops" in tensors:  # Gemma 3
            return None if tensors["num_crops"].any() else length
        if length and "num_patches" in tensors:  # InternVL
            return length * int(tensors["num_patches"].sum())
        patch = self._number("patch_size", 0) * self._number("spatial_merge_size", 1)
        if sizes is not None and patch:  # Pixtral: a row break behind each row but the last
            rows, columns = (int(side) // patch for side in sizes.ravel())
            return rows * columns + rows - 1
        if pixels is not None and pixels.ndim == 4 and len(pixels) == 1 and patch:  # Llava 1.5
            added = self._number("num_additional_image_tokens", 0)
            skipped = self._settings.get("vision_feature_select_strategy") == "default"
            return int(pixels.shape[2] // patch) * int(pixels.shape[3] // patch) + added - skipped
        return None

    def _number(self, name: str, usual: int) -> int:
        found = self._settings.get(name, getattr(self._processor, name, usual))
        if isinstance(found, Mapping):  # Pixtral's {"height": 14, "width": 14}
            found = found.get("height", usual)
        return found if type(found) is int else usual

    def _identity(self) -> dict[str, Any]:
        backend = getattr(self._processor, "backend", "")
        packages = ["pillow", "transformers", *(["torchvision"] if backend == "torchvision" else [])]
        return {
            "class": type(self._processor).__name__,
            "backend": str(backend),
            "versions": {name: importlib.metadata.version(name) for name in packages},
            "config_sha256": hashlib.sha256(self._processor.to_json_string().encode()).hexdigest(),
            "pixels": "RGB, first frame, alpha dropped, EXIF orientation ignored",
        }


def _from_folder(folder: Path) -> Any:
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")  # of torch, which is not needed
    try:
        from transformers import AutoImageProcessor
    except ImportError as error:
        raise NotInstalled("an image processor needs transformers", "images") from error
    logging.getLogger("transformers").setLevel(logging.ERROR)
    try:
        make: Any = AutoImageProcessor.from_pretrained
        return make(str(folder), local_files_only=True, trust_remote_code=False)
    except Exception as error:
        reason = " ".join(str(error).split())[:200]
        raise UnusableFolder(f"{folder}: transformers makes no image processor of it: {reason}") from error
