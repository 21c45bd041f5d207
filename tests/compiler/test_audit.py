from pathlib import Path

from tests.support.logs import write_log
from tests.support.talks import COUNT, FACTS, Talk, answer
from tests.support.tokenizer import tokenizer
from turnstile.compiler.audit import Audit, audit
from turnstile.compiler.pipeline import Options
from turnstile.compiler.replay import Replay

END = "<|im_end|>"


def audited(
    tmp_path: Path, *answers: tuple[str, ...], examples: int = 1, finish_reason: str = "stop"
) -> Audit:
    small = tokenizer(tmp_path / "tokenizer")
    talk = Talk(small)
    turns = [
        talk.turn(number, ["Q"], sampled, [COUNT], answer("x"), choice={"finish_reason": finish_reason})
        for number, sampled in enumerate(answers, 1)
    ]
    write_log(tmp_path / "traces", *turns, facts=FACTS)
    with Replay([tmp_path / "traces"]) as replay:
        return audit(replay, small, Options(), examples)


def test_answers_and_tokens_are_counted(tmp_path: Path) -> None:
    found = audited(tmp_path, ("hello", END), (*"hello", END), (*"hello", "?"), (*"<think>",))
    record = found.as_record()
    assert [example["exchange_id"][-1] for example in record.pop("examples")] == ["2", "4"]
    assert record == {
        "turns": 4,
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
