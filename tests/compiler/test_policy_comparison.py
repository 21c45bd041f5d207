from pathlib import Path

from tests.support.logs import write_log
from tests.support.talks import COUNT, FACTS, MORE, Talk, answer
from tests.support.tokenizer import tokenizer
from turnstile.compiler.compilation import compile_logs
from turnstile.compiler.pipeline import Options
from turnstile.compiler.policies import POLICIES
from turnstile.compiler.policy_comparison import Tally, policy_comparison
from turnstile.compiler.replay import Replay

END = "<|im_end|>"


def compared(folder: Path) -> dict[str, Tally]:
    with Replay([folder]) as replay:
        return policy_comparison(replay, Options())


def drifting_log(folder: Path) -> Path:
    """A turn that drifts, one that goes on from it, and one that goes on exactly."""
    talk = Talk(tokenizer(folder / "tokenizer"))
    history = [COUNT, answer("hello"), MORE]
    second = ["Q", "hello", END, "M"]
    return write_log(
        folder / "traces",
        talk.turn(1, ["Q"], [*"hello", END], [COUNT], answer("hello")),
        talk.turn(2, second, ["4", END], history, answer("4")),
        talk.turn(3, [*second, "4", END, "M"], ["5", END], [*history, answer("4"), MORE], answer("5")),
        facts=FACTS,
    )


def test_every_policy_is_told_in_numbers(tmp_path: Path) -> None:
    assert compared(drifting_log(tmp_path)) == {
        "strict": Tally(2, 10, 6, 1, 0),
        "per-request": Tally(3, 10, 12, 7, 0),
        "realign-and-mask": Tally(1, 4, 5, 0, 0),
        "splice-at-end-of-turn": Tally(1, 10, 3, 0, 4),
    }


def test_the_numbers_are_those_of_what_each_policy_writes(tmp_path: Path) -> None:
    log = drifting_log(tmp_path)
    for name, tally in compared(log).items():
        found = compile_logs(log, policy=name)
        trained = sum(int(each.loss_mask.sum()) for each in found)
        assert (len(found), trained) == (tally.sequences, tally.trained_tokens)
        assert sum(len(each.tokens) for each in found) - trained == tally.context_tokens
        assert any("context_not_seen" in each.flags for each in found) == bool(tally.unseen_tokens)


def test_there_is_a_tally_for_every_policy(tmp_path: Path) -> None:
    assert list(compared(drifting_log(tmp_path))) == list(POLICIES)
