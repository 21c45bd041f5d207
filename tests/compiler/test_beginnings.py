from hypothesis import given
from hypothesis import strategies as st

from turnstile.compiler.beginnings import Beginnings, Kept

LONG = bytes(range(256)) * 8


def kept(text: bytes) -> Kept[str]:
    return Kept(text, len(text), text.hex())


def test_a_text_is_found_that_another_begins_with() -> None:
    known = Beginnings[str]()
    known.keep(kept(b"1,2"))
    assert known.whole_in(b"1,2,3", followed_by=(b",",)) == kept(b"1,2")
    assert known.whole_in(b"1,23", followed_by=(b",",)) is None
    assert known.whole_in(b"1,2", followed_by=(b",",)) is None
    assert known.whole_in(b"1,2", followed_by=(b"",)) == kept(b"1,2")
    assert known.whole_in(b"1,", followed_by=(b"",)) is None


def test_a_long_text_that_differs_before_its_end_is_not_found() -> None:
    known = Beginnings[str]()
    known.keep(kept(LONG))
    assert known.whole_in(b"x" + LONG[1:] + b",", followed_by=(b",",)) is None
    assert known.whole_in(LONG + b",", followed_by=(b",",)) == kept(LONG)


def test_a_text_takes_the_place_of_the_one_that_it_begins_with() -> None:
    known = Beginnings[str]()
    old, new = kept(b"1"), kept(b"1,2")
    known.keep(old)
    known.keep(new, instead_of=old)
    assert known.whole_in(b"1,3", followed_by=(b",",)) is None
    assert known.whole_in(b"1,2,3", followed_by=(b",",)) is new


def test_the_longest_text_is_found_that_another_begins_with() -> None:
    known = Beginnings[str]()
    for end in (2, 600, 610, 1700):
        known.keep(kept(LONG[:end]))
    found = [known.whole_in(LONG[:end] + b",", followed_by=(b",",)) for end in (1700, 610, 600, 2, 1)]
    assert found == [kept(LONG[:1700]), kept(LONG[:610]), kept(LONG[:600]), kept(LONG[:2]), None]


def test_the_text_with_the_longer_common_beginning_is_the_most_alike() -> None:
    known = Beginnings[str]()
    near, far = kept(LONG + b"near" * 200), kept(LONG[:600] + b"far" * 600)
    known.keep(near)
    known.keep(far)
    assert known.most_alike(LONG + b"other" * 200) is near
    assert known.most_alike(LONG[:1100] + b"other" * 200) is near
    assert known.most_alike(LONG[:600] + b"other" * 200) is far
    assert known.most_alike(b"other" * 200) is None
    assert known.most_alike(b"o") is None


def test_a_text_that_took_the_place_of_another_is_as_alike() -> None:
    known = Beginnings[str]()
    old, new = kept(LONG[:1100]), kept(LONG + LONG)
    known.keep(old)
    known.keep(new, instead_of=old)
    assert known.most_alike(LONG[:1100] + b"other" * 200) is new
    assert known.most_alike(LONG + b"other" * 200) is new


def test_the_texts_longest_unused_are_forgotten() -> None:
    texts = [bytes([number]) * 1000 for number in range(3)]
    known = Beginnings[str](kept_bytes=2000)
    for text in texts:
        known.keep(kept(text))
    assert [known.whole_in(text, followed_by=(b"",)) for text in texts] == [
        None,
        kept(texts[1]),
        kept(texts[2]),
    ]
    assert [known.most_alike(text + text) for text in texts] == [None, kept(texts[1]), kept(texts[2])]


def test_a_text_longer_than_all_that_is_allowed_is_kept_alone() -> None:
    known = Beginnings[str](kept_bytes=10)
    for text in (b"1" * 6, b"2" * 6, b"3" * 20):
        known.keep(kept(text))
        assert known.whole_in(text, followed_by=(b"",)) == kept(text)
    assert [known.whole_in(text, followed_by=(b"",)) for text in (b"1" * 6, b"2" * 6)] == [None, None]


def test_taking_the_place_of_what_was_forgotten_is_keeping() -> None:
    known = Beginnings[str](kept_bytes=10)
    old, other, new = kept(b"1" * 6), kept(b"2" * 6), kept(b"1" * 8)
    known.keep(old)
    known.keep(other)
    known.keep(new, instead_of=old)
    assert known.whole_in(b"1" * 8, followed_by=(b"",)) is new


@given(st.lists(st.tuples(st.sampled_from([b"ab,", b"ba,"]), st.integers(0, 3000)), max_size=12))
def test_what_is_found_is_the_longest_text_that_ends_before_a_comma(shapes: list[tuple[bytes, int]]) -> None:
    known, earlier = Beginnings[str](), list[bytes]()
    for pattern, size in shapes:
        text = (pattern * 1000)[:size]
        found = known.whole_in(text, followed_by=(b",",))
        fitting = [old for old in earlier if text.startswith(old + b",")]
        assert (found.text if found else None) == max(fitting, key=len, default=None)
        known.keep(kept(text))
        earlier.append(text)


def test_only_the_bytes_that_count_are_compared() -> None:
    known = Beginnings[str]()
    of_longer = Kept(LONG, 700, "the first 700")
    known.keep(of_longer)
    assert known.whole_in(LONG[:700] + b"]", followed_by=(b"]",)) is of_longer
    assert known.whole_in(LONG, followed_by=(b"]",)) is None
    assert known.most_alike(LONG[:600] + b"other" * 200) is of_longer
    assert known.most_alike(b"other" * 200) is None
