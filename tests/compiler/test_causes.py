from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

from tests.support.images import prompt_image
from tests.support.routing import rows
from tests.support.turns import turn
from turnstile.compiler.causes import Causes, Explanation
from turnstile.compiler.forest import TrajectoryForest
from turnstile.compiler.routing.rows import RoutedRows
from turnstile.compiler.turn import Turn, Wording
from turnstile.compiler.wording import Conversation, reply_digest

USER = {"role": "user", "content": "Count."}
MORE = {"role": "user", "content": "Go on."}
Said = tuple[Turn, Sequence[Any]]  # a turn and the messages of its request


def answer(content: str) -> dict[str, str]:
    return {"role": "assistant", "content": content}


def said(
    number: int,
    prompt_ids: list[int],
    sampled_ids: list[int],
    messages: Sequence[Any] = (USER,),
    reply: str = "4",
    **fields: Any,
) -> Said:
    wording = Wording(Conversation().extended(messages).digest, reply_digest(answer(reply)))
    return turn(number, prompt_ids, sampled_ids, wording=wording, **fields), messages


def explained(*turns: Said, routing: Sequence[RoutedRows | None] = ()) -> list[Explanation]:
    forest, causes, found = TrajectoryForest(), Causes(), list[Explanation]()
    for (added, messages), told in zip_longest(turns, routing):
        forest.add(added, told)
        if len(forest.sequences) > len(found):
            answers = Conversation().extended(messages).answers
            found.append(causes.of_start(forest.sequences[-1], answers))
        causes.note(added)
    return found


def causes_of(*turns: Said) -> list[str]:
    return [explanation.cause for explanation in explained(*turns)]


def test_the_same_prompt_again_is_a_sibling() -> None:
    first, second = said(1, [1, 2], [3]), said(2, [1, 2], [4])
    assert explained(first, second)[1] == Explanation("sibling", first[0])


def test_another_choice_of_an_exchange_is_a_sibling_even_of_one_broken_off() -> None:
    first = said(1, [1, 2], [3], flags=("aborted",))
    second = said(1, [1, 2], [4], choice=1)
    assert causes_of(first, second) == ["new_prompt", "sibling"]


def test_the_same_prompt_after_an_answer_broken_off_is_its_retry() -> None:
    for flag in ("aborted", "undelivered"):
        first, second = said(1, [1, 2], [3], flags=(flag,)), said(2, [1, 2], [4])
        assert explained(first, second)[1] == Explanation("aborted", first[0])


def test_a_second_sample_after_the_retry_is_a_sibling() -> None:
    first = said(1, [1, 2], [3], flags=("undelivered",))
    assert causes_of(first, said(2, [1, 2], [4]), said(3, [1, 2], [5])) == [
        "new_prompt",
        "aborted",
        "sibling",
    ]


def test_a_sibling_is_known_although_another_sequence_runs_through_its_prompt() -> None:
    trunk, first = said(1, [1, 2, 9, 9], [3]), said(2, [1, 2], [4])
    passing, second = said(3, [1, 2, 8, 8], [3]), said(4, [1, 2], [5])
    assert explained(trunk, first, passing, second)[3] == Explanation("sibling", first[0])


def test_an_answer_resent_as_it_was_and_spelled_otherwise_is_retokenized() -> None:
    first = said(1, [1, 2], [3, 4], reply="ab")
    second = said(2, [1, 2, 34, 5], [6], [USER, answer("ab"), MORE])
    assert explained(first, second)[1] == Explanation("retokenized", first[0])


def test_a_template_that_changes_the_end_of_the_earlier_prompt_is_retokenized_too() -> None:
    first = said(1, [1, 2, 99], [3, 4], reply="ab")
    second = said(2, [1, 2, 3, 4, 5], [6], [USER, answer("ab"), MORE])
    assert explained(first, second)[1] == Explanation("retokenized", first[0])


def test_the_own_answer_explains_a_split_that_another_rollout_shares() -> None:
    own = said(1, [1, 2], [3, 4], reply="ab", rollout_id="a")
    other = said(2, [1, 2], [7, 8], reply="cd", rollout_id="b")
    again = said(3, [1, 2, 34, 5], [6], [USER, answer("ab"), MORE], rollout_id="a")
    assert explained(own, other, again)[2] == Explanation("retokenized", own[0])


def test_a_prompt_that_another_rollout_had_is_a_sibling() -> None:
    first, second = said(1, [1, 2], [3], rollout_id="a"), said(2, [1, 2], [4], rollout_id="b")
    assert explained(first, second)[1] == Explanation("sibling", first[0])


def test_an_answer_that_another_rollout_never_got_is_no_reason_for_a_retry() -> None:
    first = said(1, [1, 2], [3], rollout_id="a", flags=("undelivered",))
    assert causes_of(first, said(2, [1, 2], [4], rollout_id="b")) == ["new_prompt", "sibling"]


def test_a_split_of_the_own_rollout_comes_before_a_prompt_of_another() -> None:
    more = [USER, answer("ab"), MORE]
    own = said(1, [1, 2], [3, 4], reply="ab", rollout_id="own")
    other = said(2, [1, 2], [34], reply="ab", rollout_id="other")
    others_second = said(3, [1, 2, 34, 5], [6], more, rollout_id="other")
    own_second = said(4, [1, 2, 34, 5], [7], more, rollout_id="own")
    own_second_again = said(5, [1, 2, 34, 5], [8], more, rollout_id="own")
    found = explained(own, other, others_second, own_second, own_second_again)
    assert [(explanation.cause, explanation.about) for explanation in found] == [
        ("new_prompt", None),
        ("sibling", own[0]),
        ("retokenized", own[0]),
        ("sibling", own_second[0]),
    ]


def test_an_answer_that_was_changed_is_a_rewritten_history() -> None:
    first = said(1, [1, 2], [3, 4], reply="thought, then 4")
    second = said(2, [1, 2, 4, 5], [6], [USER, answer("4"), MORE])
    assert explained(first, second)[1] == Explanation("history_rewritten", first[0])


def test_another_message_behind_a_shared_answer_is_a_rewritten_history() -> None:
    first = said(1, [1, 2], [3], reply="ab")
    one = said(2, [1, 2, 3, 5], [6], [USER, answer("ab"), MORE])
    other = said(3, [1, 2, 3, 7], [8], [USER, answer("ab"), USER])
    assert explained(first, one, other)[1] == Explanation("history_rewritten", first[0])


def test_a_sampled_token_that_an_ancestor_sampled_is_shared() -> None:
    first = said(1, [1], [2, 3], reply="ab")
    fork = said(2, [1, 2, 9, 9, 9], [4], ["unknown"])
    late = said(3, [1, 2, 9, 9, 8], [5], ["also unknown"])
    assert causes_of(first, fork, late) == ["new_prompt", "history_rewritten", "history_rewritten"]


def test_a_prompt_that_shares_no_sampled_token_is_new() -> None:
    assert causes_of(said(1, [1, 2], [3]), said(2, [1, 9], [3], [MORE])) == ["new_prompt", "new_prompt"]
    assert causes_of(said(1, [1, 2], [3]), said(2, [9], [3], [MORE])) == ["new_prompt", "new_prompt"]


def test_turns_without_wording_are_told_apart_by_their_tokens() -> None:
    first, second = turn(1, [1], [2, 3]), turn(2, [1, 2, 4], [5])
    assert causes_of((first, ()), (second, [USER, answer("4"), MORE])) == ["new_prompt", "history_rewritten"]


def test_a_prompt_that_goes_on_with_another_routing_says_so() -> None:
    first, second = said(1, [1, 2], [3], reply="ab"), said(2, [1, 2, 3, 4], [5], [USER, answer("ab"), MORE])
    found = explained(first, second, routing=[rows(1, 2), rows(1, 9, 3, 4)])
    assert found[1] == Explanation("routing_changed", first[0])


def test_another_routing_is_about_the_last_turn_of_the_sequence_that_refused() -> None:
    first, second = said(1, [1, 2], [3]), said(2, [1, 2, 3, 4], [5])
    third = said(3, [1, 2, 3, 4, 5, 6], [7])
    found = explained(first, second, third, routing=[rows(1, 2), rows(1, 2, 3, 4), rows(1, 9, 3, 4, 5, 6)])
    assert found[1] == Explanation("routing_changed", second[0])


def test_another_routing_comes_before_a_retry_and_a_sibling() -> None:
    for flags in ((), ("undelivered",)):
        first, second = said(1, [1, 2], [3]), said(2, [1, 2, 3, 4], [5], flags=flags)
        again = said(3, [1, 2, 3, 4], [6])
        found = explained(first, second, again, routing=[rows(1, 2), rows(1, 9, 3, 4), rows(1, 9, 3, 4)])
        assert [explanation.cause for explanation in found[1:]] == ["routing_changed", "routing_changed"]
        assert found[2].about is first[0]


def test_another_routing_of_a_prompt_that_no_sequence_ends_in_is_no_cause() -> None:
    first, second = said(1, [1, 2], [3]), said(2, [1, 2], [3])
    found = explained(first, second, routing=[rows(1, 2), rows(8, 9)])
    assert found[1] == Explanation("sibling", first[0])


def test_what_was_sampled_before_another_routing_is_shared_by_what_comes_after() -> None:
    first, second = said(1, [1], [2, 3]), said(2, [1, 2, 3, 4], [5], ["unknown"])
    fork = said(3, [1, 2, 9, 9], [6], ["also unknown"])
    found = explained(first, second, fork, routing=[rows(1, 2), rows(8, 2, 3, 4)])
    assert [explanation.cause for explanation in found] == [
        "new_prompt",
        "routing_changed",
        "history_rewritten",
    ]


RED, BLUE = prompt_image("red", 1, 2), prompt_image("blue", 1, 2)


def test_another_picture_behind_all_tokens_of_an_earlier_sequence_is_an_image_that_changed() -> None:
    first = said(1, [1, 9, 9], [3], images=(RED,))
    second = said(2, [1, 9, 9, 3, 4], [5], [USER, answer("4"), MORE], images=(BLUE,))
    assert explained(first, second)[1] == Explanation("image_changed", first[0])


def test_the_same_prompt_of_another_picture_is_no_sibling() -> None:
    red, blue = said(1, [1, 9, 9], [3], images=(RED,)), said(2, [1, 9, 9], [3], images=(BLUE,))
    again = said(3, [1, 9, 9], [4], images=(RED,))
    assert causes_of(red, blue) == ["new_prompt", "new_prompt"]
    assert explained(red, blue, again)[2] == Explanation("sibling", red[0])
