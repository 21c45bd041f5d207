"""Token ids as text, compared without parsing them.

A text is the decimal ids, each with a comma behind it: b"151644,872,198,". So a common prefix of two texts
holds as many whole ids as it has commas. It is found by bisection, with a comparison of bytes at each step.
"""

from collections import OrderedDict

from turnstile.addon.backends.reading import ChoiceReading, PromptText

TEXT_BYTES = 64 << 20  # that are remembered, some 6 a token
_DIGITS_AND_COMMAS, _SPACE = b"0123456789,", b" \t\r\n"


def prompt_text(array: bytes) -> bytes:
    """The text of a JSON array of ids; empty when it is none or holds anything else."""
    if not (array.startswith(b"[") and array.endswith(b"]")):
        return b""
    inside = array[1:-1].translate(None, _SPACE)
    if not inside or inside.translate(None, _DIGITS_AND_COMMAS):
        return b""
    return inside + b","


def prompt_text_of(reading: ChoiceReading) -> bytes:
    """The text of the prompt that a choice answers; empty where the reply does not tell it."""
    found = (ids.array for ids in reading.prompt_ids.values() if isinstance(ids, PromptText))
    return prompt_text(next(found, b""))


def whole_text_of(prompt: bytes, reading: ChoiceReading, tokens: int) -> bytes:
    """The text of prompt and answer; empty where they are not told, or are not so many `tokens`."""
    sampled = next(iter(reading.sampled_ids.values()), [])
    if not all(type(each) is int and each >= 0 for each in sampled):
        return b""
    text = prompt + b"".join([b"%d," % each for each in sampled])
    return text if text.count(b",") == tokens else b""


def shared_ids(one: bytes, other: bytes) -> int:
    """How many ids two texts have in common at their start."""
    same, end = 0, min(len(one), len(other))  # they are the same up to `same`
    if one[:end] == other[:end]:
        same = end
    while end - same > 1:
        middle = (same + end) // 2
        if one[same:middle] == other[same:middle]:
            same = middle
        else:
            end = middle
    return one.count(b",", 0, same)


class TokenTexts:
    """The texts of the latest exchanges, in bounded memory."""

    def __init__(self, at_most_bytes: int = TEXT_BYTES) -> None:
        self._texts: OrderedDict[bytes, bytes] = OrderedDict()  # the latest used last
        self._size, self._at_most = 0, at_most_bytes

    def get(self, key: bytes) -> bytes:
        """The text; empty when it is not known or forgotten."""
        if key in self._texts:
            self._texts.move_to_end(key)
        return self._texts.get(key, b"")

    def put(self, key: bytes, text: bytes) -> None:
        """Remembers a text, and forgets those longest unused where there is no room."""
        self.forget(key)
        self._texts[key] = text
        self._size += len(text)
        while self._size > self._at_most:
            _, gone = self._texts.popitem(last=False)
            self._size -= len(gone)

    def forget(self, key: bytes) -> None:
        """Gives back the room of a text, if it is there."""
        self._size -= len(self._texts.pop(key, b""))

    def clear(self) -> None:
        """Forgets all."""
        self._texts.clear()
        self._size = 0
