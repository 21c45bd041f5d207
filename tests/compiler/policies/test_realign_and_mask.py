from tests.support.merging import conversation, in_words, joined_by, with_images
from turnstile.compiler.policies.realign_and_mask import realigned

END = 9


def test_an_answer_in_other_tokens_is_replaced_and_not_trained() -> None:
    said = conversation(([1, 2], [3, 4, END]), ([1, 2, 34, END, 5], [6, END]))
    (sequence,) = joined_by(realigned, said)
    assert in_words(sequence) == ([1, 2, 34, END, 5, 6, END], [(5, 7)], [])
    assert sequence.starts == [0]


def test_turns_before_it_stay_trained() -> None:
    said = conversation(
        ([1], [3, END]), ([1, 3, END, 5], [6, 7, END]), ([1, 3, END, 5, 67, END, 8], [2, END])
    )
    (sequence,) = joined_by(realigned, said)
    assert in_words(sequence) == ([1, 3, END, 5, 67, END, 8, 2, END], [(1, 3), (7, 9)], [])
    assert sequence.starts == [0, 3]


def test_a_turn_behind_a_replaced_one_moves_and_its_context_was_not_seen() -> None:
    said = conversation(
        ([1], [3, 4, END]), ([1, 3, 4, END, 5], [6, END]), ([1, 34, END, 5, 6, END, 8], [2, END])
    )
    (sequence,) = joined_by(realigned, said)
    assert in_words(sequence) == ([1, 34, END, 5, 6, END, 8, 2, END], [(4, 6), (7, 9)], ["e2"])


def test_ids_are_found_only_where_they_are_whole() -> None:
    wide = 6 << 8  # whose bytes hold those of 6, one byte on
    said = conversation(([1], [6, END]), ([1, 2, wide, END, 5], [7, END]))
    (sequence,) = joined_by(realigned, said)
    assert in_words(sequence)[1] == [(5, 7)]


def test_images_stay_behind_their_tokens() -> None:
    first, second = conversation(([1], [3, END]), ([1, 3, END, 8, 5], [6, 7, END]))
    third = conversation(([0], [0]), ([0], [0]), ([1, 3, END, 8, 5, 67, END, 8, 2], [4, END]))[2]
    said = [first, (with_images(second[0], 3), second[1]), (with_images(third[0], 3, 7), third[1])]
    (sequence,) = joined_by(realigned, said)
    spans = [[image.token_span for image in each.images] for each in sequence.turns]
    assert spans == [[], [(3, 1), (7, 1)]]
