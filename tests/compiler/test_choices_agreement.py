from tests.support.chat import choice, compact, completion
from tests.support.turns import turn
from turnstile.addon.backends.reading import ChoiceReading, read_chat
from turnstile.compiler.choices_agreement import prompt_conflicts, sum_findings
from turnstile.compiler.finding import Place

PLACE = Place("e1", None, "a.tslog", 64)


def test_turns_of_one_prompt_agree() -> None:
    turns = turn(1, [1, 2], [3]), turn(1, [1, 2], [4], choice=1)
    assert (prompt_conflicts(turns, PLACE), prompt_conflicts((), PLACE)) == ([], [])


def test_turns_of_different_prompts_do_not() -> None:
    (finding,) = prompt_conflicts((turn(1, [1, 2], [3]), turn(1, [1], [4], choice=1)), PLACE)
    assert (finding.kind, finding.severity, finding.choice) == ("token_source_conflict", "error", None)
    assert finding.message == "the prompt ids of choice 0 and choice 1 differ, though they answer one request"


def readings(completion_tokens: object, *sampled_counts: int) -> list[ChoiceReading]:
    row = (-0.5, 19, "4")
    choices = [choice(at, sampled=(row,) * count) for at, count in enumerate(sampled_counts)]
    return read_chat(compact(completion(*choices, usage={"completion_tokens": completion_tokens})))


def test_the_usage_counts_what_all_choices_sampled() -> None:
    assert sum_findings(readings(3, 1, 2), PLACE) == []
    assert sum_findings(readings(None, 1, 2), PLACE) == []
    (finding,) = sum_findings(readings(4, 1, 2), PLACE)
    assert (finding.kind, finding.message) == (
        "token_count_mismatch",
        "3 sampled ids, but usage.completion_tokens says 4",
    )


def test_the_usage_of_one_choice_is_held_against_it_elsewhere() -> None:
    assert sum_findings(readings(4, 1), PLACE) == []
