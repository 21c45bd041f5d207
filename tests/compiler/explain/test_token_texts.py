import json

from tests.support.chat import choice, compact, completion
from tests.support.exchanges import exchange
from tests.support.logs import stream_events, streamed
from turnstile.compiler.explain.spelled_ids import spelled
from turnstile.compiler.explain.token_texts import LearnedTexts, Spelling, spelling, text_of

TEXTS = {1: b"a", 2: b"b", 3: b"ab", 4: b"c", 5: b"bc", 6: b"abd", 7: b"\xe2\x91", 8: b"\n"}


class Known:
    def bytes_of(self, token_id: int) -> bytes | None:
        return TEXTS.get(token_id)


def spelled_from(earlier: list[int], later: list[int], start: int = 1) -> Spelling:
    return spelling([0, *earlier], [0, *later], start, Known())


def test_ids_that_spell_the_same_up_to_equal_ids_are_the_same_text() -> None:
    assert spelled_from([1, 2, 4, 4], [3, 4, 4, 4]) == Spelling("same", 3, 2)
    assert spelled_from([1, 2, 4, 8, 8], [1, 5, 8, 8], start=2) == Spelling("same", 4, 3)


def test_a_path_that_ends_within_a_token_of_the_other_is_the_same_text() -> None:
    assert spelled_from([1, 2], [3, 4]) == Spelling("same", 3, 2)
    assert spelled_from([1], [3, 4]) == Spelling("same", 2, 2)


def test_another_text_is_one_wherever_it_begins() -> None:
    assert spelled_from([1, 2, 4], [2, 4]).text == "other"
    assert spelled_from([1, 2, 4, 4], [3, 8, 8]).text == "other"
    assert spelled_from([3, 4], [6]).text == "other"


def test_a_later_path_that_ends_first_has_another_text() -> None:
    assert spelled_from([1, 2, 4], [3]).text == "other"


def test_an_id_whose_bytes_are_unknown_leaves_it_open() -> None:
    assert spelled_from([1, 99], [3, 4]).text == "unknown"


def test_text_ends_before_the_first_unknown_id() -> None:
    assert text_of([1, 4, 99, 2], Known()) == b"ac"


def test_half_characters_and_line_ends_are_shown_as_escapes() -> None:
    assert spelled([1, 7, 8, 99], Known()) == ["a", "\\xe2\\x91", "\\n", "\ufffd"]


def rows(*texts: str) -> tuple[tuple[float, int, str], ...]:
    return tuple((-0.5, 10 + at, text) for at, text in enumerate(texts))


def learned(*texts: str) -> LearnedTexts:
    found = LearnedTexts()
    reply = completion(choice(sampled=rows(*texts)))
    found.learn(exchange(reply=compact(reply)), 0, [10 + at for at in range(len(texts))])
    return found


def test_answers_tell_the_bytes_of_what_was_sampled() -> None:
    found = learned("he", " said")
    assert [found.bytes_of(token_id) for token_id in (10, 11, 12)] == [b"he", b" said", None]


def test_texts_without_a_space_before_a_word_are_not_believed() -> None:
    assert learned("he", "said").bytes_of(10) is None


def test_an_id_with_two_texts_or_half_a_character_is_unknown() -> None:
    found = learned("he", " said", "\ufffd")
    reply = completion(choice(sampled=((-0.5, 10, "she"),)))
    found.learn(exchange(reply=compact(reply)), 0, [10])
    assert [found.bytes_of(token_id) for token_id in (10, 11, 12)] == [None, b" said", None]


def test_rows_that_do_not_fit_the_ids_teach_nothing() -> None:
    found = LearnedTexts()
    reply = completion(choice(sampled=rows("he", " said")))
    found.learn(exchange(reply=compact(reply)), 0, [10])
    assert found.bytes_of(11) is None


def test_a_stream_tells_them_an_event_at_a_time() -> None:
    found = LearnedTexts()
    events = [event.replace(b"<7>", b" x") for event in stream_events([1], [7, 8])]
    spaced = [
        event.replace(json.dumps(list(b"<7>")).replace(" ", "").encode(), b"[32,120]") for event in events
    ]
    found.learn(streamed(1, spaced), 0, [7, 8])
    assert [found.bytes_of(token_id) for token_id in (7, 8)] == [b" x", b"<8>"]
