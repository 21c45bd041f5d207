"""Small pictures, and the parts of messages that hold them."""

import base64
import hashlib
import io
import json
from pathlib import Path
from typing import Any

from PIL import Image as Pillow

from turnstile.compiler.images.image import PromptImage


def picture(
    colour: Any = "red",
    size: tuple[int, int] = (64, 64),
    *,
    mode: str = "RGB",
    kind: str = "PNG",
    **saved: Any,
) -> bytes:
    """The file of a picture of one colour."""
    file = io.BytesIO()
    Pillow.new(mode, size, colour).save(file, kind, **saved)
    return file.getvalue()


def sha256(data: bytes) -> str:
    """As images are named."""
    return hashlib.sha256(data).hexdigest()


def data_url(data: bytes, head: str = "data:image/png;base64,") -> str:
    """A file as a URL."""
    return head + base64.b64encode(data).decode()


def image_part(url: str) -> dict[str, Any]:
    """A part of a message's content."""
    return {"type": "image_url", "image_url": {"url": url}}


def shown(*pictures: bytes, text: str = "What is it?", role: str = "user") -> dict[str, Any]:
    """A message with pictures and a text behind them."""
    parts = [image_part(data_url(data)) for data in pictures]
    return {"role": role, "content": [*parts, {"type": "text", "text": text}]}


def prompt_image(name: str, start: int, size: int) -> PromptImage:
    """An image whose file is its name."""
    data = name.encode()
    return PromptImage(sha256(data), "image/png", data, (start, size))


def processor_folder(folder: Path, *, patch_size: int = 16, merge_size: int = 2, **settings: Any) -> Path:
    """A folder with an image processor of the Qwen-VL kind, as it lies beside a model's weights."""
    usual = {
        "image_processor_type": "Qwen2VLImageProcessor",
        "patch_size": patch_size,
        "merge_size": merge_size,
        "temporal_patch_size": 2,
        "size": {"shortest_edge": 1024, "longest_edge": 1 << 20},
        "image_mean": [0.5, 0.5, 0.5],
        "image_std": [0.5, 0.5, 0.5],
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "preprocessor_config.json").write_text(json.dumps(usual | settings))
    return folder
