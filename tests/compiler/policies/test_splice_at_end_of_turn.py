from tests.support.merging import conversation, in_words, joined_by, with_images
from turnstile.compiler.policies.splice_at_end_of_turn import spliced

END = 9


def test_sampled_tokens_are_kept_and_what_follows_the_answer_is_put_behind_them() -> None:
    said = conversation(([1, END, 2], [3, 4, END]), ([1, END, 2, 34, END, 5], [6, END]))
    (sequence,) = joined_by(spliced, said)
    assert in_words(sequence) == ([1, END, 2, 3, 4, END, 5, 6, END], [(3, 6), (7, 9)], ["e2"])
    assert sequence.starts == [0, 6]


def test_what_extends_the_later_sequence_comes_along() -> None:
    said = conversation(
        ([1], [3, 4, END]), ([1, 34, END, 5], [6, END]), ([1, 34, END, 5, 6, END, 7], [8, END])
    )
    (sequence,) = joined_by(spliced, said)
    assert in_words(sequence) == (
        [1, 3, 4, END, 5, 6, END, 7, 8, END],
        [(1, 4), (5, 7), (8, 10)],
        ["e2", "e3"],
    )
    assert sequence.starts == [0, 4, 7]


def test_every_turn_that_is_spelled_otherwise_is_spliced_again() -> None:
    said = conversation(
        ([1], [3, 4, END]), ([1, 34, END, 5], [6, 7, END]), ([1, 34, END, 5, 67, END, 8], [2, END])
    )
    (sequence,) = joined_by(spliced, said)
    assert sequence.tokens_T.tolist() == [1, 3, 4, END, 5, 6, 7, END, 8, 2, END]


def test_an_answer_without_a_stop_token_or_with_another_end_cannot_be_spliced() -> None:
    cut = conversation(([1], [3, 4]), ([1, 34, END, 5], [6, END]), finish_reason="length")
    other = conversation(([1], [3, 4, 8]), ([1, 34, END, 5], [6, END]))
    for said in (cut, other):
        assert [in_words(each)[2] for each in joined_by(spliced, said)] == [[], []]


def test_images_stay_behind_their_tokens() -> None:
    first, second = conversation(([1, 8], [3, 4, END]), ([1, 8, 34, END, 8, 5], [6, END]))
    said = [(with_images(first[0], 1), first[1]), (with_images(second[0], 1, 4), second[1])]
    (sequence,) = joined_by(spliced, said)
    assert sequence.tokens_T.tolist() == [1, 8, 3, 4, END, 8, 5, 6, END]
    assert [image.token_span for image in sequence.images] == [(1, 1), (5, 1)]
