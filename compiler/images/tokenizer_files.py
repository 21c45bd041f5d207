"""The ids of a tokenizer's added tokens, out of the files in its folder."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from turnstile.compiler.errors import UnusableFolder

FILES = ("tokenizer_config.json", "tokenizer.json")


def added_tokens(folder: Path) -> dict[str, int]:
    """Token text -> id. Raises UnusableFolder for a folder without FILES, or with ones that are no JSON."""
    files = [folder / name for name in FILES if (folder / name).is_file()]
    if not files:
        raise UnusableFolder(f"{folder} holds no tokenizer: expected {' or '.join(FILES)} in it")
    return dict(token for file in files for token in _tokens(read_object(file)))


def read_object(file: Path) -> dict[str, Any]:
    """The JSON object in a file; an empty one where there is another value. Raises UnusableFolder."""
    try:
        found = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise UnusableFolder(f"{file} cannot be read as JSON ({type(error).__name__})") from error
    return found if isinstance(found, dict) else {}


def _tokens(found: dict[str, Any]) -> Iterator[tuple[str, int]]:
    by_id, listed = found.get("added_tokens_decoder"), found.get("added_tokens")
    for token_id, token in by_id.items() if isinstance(by_id, dict) else ():
        if token_id.isdecimal() and isinstance(token, dict):
            yield str(token.get("content")), int(token_id)
    for token in listed if isinstance(listed, list) else ():
        if isinstance(token, dict) and type(token.get("id")) is int:
            yield str(token.get("content")), token["id"]
