"""Made-up words, each of which stands for one token.

Drawn by Zipf's law, as long and with ids as large as the plain words of a real tokenizer, so that texts and
ids compress about as real ones do.
"""

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

SIZE = 19_000  # words; a tokenizer of 150,000 tokens has about as many that are plain words
IDS = range(300, 100_000)
_CONSONANTS, _VOWELS = "bcdfghklmnprstvw", "aeiou"


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Words by their numbers, the frequent ones first."""

    words: list[str]
    ids: list[int]
    cumulative: list[float]  # weights of Zipf's law, summed up

    def draw(self, rng: random.Random, count: int) -> list[int]:
        """Numbers of words."""
        return rng.choices(range(SIZE), cum_weights=self.cumulative, k=count)

    def text(self, numbers: Sequence[int]) -> str:
        """The words as a text, a space before each."""
        return "".join([" " + self.words[number] for number in numbers])

    def ids_of(self, numbers: Sequence[int]) -> list[int]:
        """The words as token ids."""
        return [self.ids[number] for number in numbers]


@cache
def vocabulary() -> Vocabulary:
    """The one vocabulary, the same in every process."""
    rng = random.Random("vocabulary")
    words: dict[str, None] = {}
    while len(words) < SIZE:
        words[_word(rng)] = None
    weights = (1 / (rank + 3) for rank in range(SIZE))
    return Vocabulary(list(words), rng.sample(IDS, SIZE), list(itertools.accumulate(weights)))


def _word(rng: random.Random) -> str:
    """Three to eight letters that can be spoken."""
    size = rng.choices(range(3, 9), weights=(13, 16, 19, 19, 18, 15))[0]
    sounds = (_VOWELS, _CONSONANTS) if rng.random() < 0.3 else (_CONSONANTS, _VOWELS)
    return "".join(rng.choice(sounds[place % 2]) for place in range(size))
