from collections.abc import Mapping
from pathlib import Path

from tests.support.logs import write_log
from tests.support.talks import COUNT, FACTS, Talk, answer
from tests.support.tokenizer import tokenizer
from turnstile.compiler.audit import Audit, audit
from turnstile.compiler.pipeline import Options
from turnstile.compiler.replay import Replay
from turnstile.compiler.tokenizer import Tokenizer

END = "<|im_end|>"


def audited(
    tmp_path: Path,
    *answers: tuple[str, ...],
    examples: int = 1,
    finish_reason: str = "stop",
    own: Tokenizer | None = None,
) -> Audit:
    small = tokenizer(tmp_path / "tokenizer")
    talk = Talk(small)
    turns = [
        talk.turn(number, ["Q"], sampled, [COUNT], answer("x"), choice={"finish_reason": finish_reason})
        for number, sampled in enumerate(answers, 1)
    ]
    write_log(tmp_path / "traces", *turns, facts=FACTS)
    with Replay([tmp_path / "traces"]) as replay:
        return audit(replay, own or small, Options(), examples)


def test_answers_and_tokens_are_counted(tmp_path: Path) -> None:
    found = audited(tmp_path, ("hello", END), (*"hello", END), (*"hello", "?"), (*"<think>",))
    record = found.as_record()
    assert [example["exchange_id"][-1] for example in record.pop("examples")] == ["2", "4"]
    assert record == {
        "turns": 4,
        "turns_not_compared": 0,
        "foreign_id": None,
        "tokens": 21,
        "turns_differing": 3,
        "tokens_differing": 17,
        "stops_lost": 2,
        "kinds": {"mark_as_text": 1, "split_differently": 2},
    }


def test_only_an_answer_that_ended_by_itself_has_a_stop_to_lose(tmp_path: Path) -> None:
    assert audited(tmp_path, ("hello", END), finish_reason="length").stops_lost == 0


def test_the_first_answers_of_a_kind_are_kept_as_examples(tmp_path: Path) -> None:
    found = audited(tmp_path, *[(*"hello", END)] * 4, examples=2)
    assert [example.turn.exchange_id[-1] for example in found.examples] == ["1", "2"]


class OtherModels(Tokenizer):
    """A tokenizer that has other texts for some ids, and none where that is None."""

    def __init__(self, own: Tokenizer, texts: Mapping[int, bytes | None]) -> None:
        self._own, self._texts = own, texts
        self.has_space_in_front = False

    def bytes_of(self, token_id: int) -> bytes | None:
        return self._texts.get(token_id, self._own.bytes_of(token_id))

    def is_added(self, token_id: int) -> bool:
        return self._own.is_added(token_id)

    def ids_of(self, text: str) -> list[int]:
        return self._own.ids_of(text)


def test_answers_with_an_id_that_the_tokenizer_lacks_are_not_compared(tmp_path: Path) -> None:
    own = tokenizer(tmp_path / "tokenizer")
    (question,) = own.ids_of("?")
    found = audited(
        tmp_path, ("hello", END), ("?", END), ("hello", "?"), own=OtherModels(own, {question: None})
    )
    assert (found.turns, found.tokens, found.turns_differing) == (1, 2, 0)
    assert (found.turns_not_compared, found.foreign_id, found.kinds) == (2, question, {})


def test_answers_of_a_group_whose_log_spells_an_id_otherwise_are_not_compared(tmp_path: Path) -> None:
    own = tokenizer(tmp_path / "tokenizer")
    (hello,) = own.ids_of("hello")
    found = audited(tmp_path, ("hello", END), (*"hello", END), own=OtherModels(own, {hello: b"count"}))
    assert (found.turns, found.turns_not_compared, found.foreign_id) == (0, 2, hello)
