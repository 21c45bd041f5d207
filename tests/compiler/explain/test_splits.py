"""A table of small logs, each with one split at its end, and the kind that must be told for it."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.logs import write_log
from tests.support.talks import COUNT, FACTS, MORE, SYSTEM, Talk, answer, call
from tests.support.tokenizer import tokenizer
from turnstile.addon.tracelog.records import Exchange
from turnstile.compiler.explain.checked_tokenizer import CheckedTokenizer
from turnstile.compiler.explain.split import Side, Split
from turnstile.compiler.explain.splits import splits_of
from turnstile.compiler.pipeline import Options
from turnstile.compiler.replay import Replay
from turnstile.compiler.tokenizer import Tokenizer

END = "<|im_end|>"
TOOLS = {"tools": [{"type": "function", "function": {"name": "f"}}]}
LETTERS = tuple("hello")

Make = Callable[[Talk], Sequence[Exchange]]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return tokenizer(tmp_path_factory.mktemp("tokenizer"))


def found(
    folder: Path, exchanges: Sequence[Exchange], texts: Tokenizer | CheckedTokenizer | None
) -> list[Split]:
    write_log(folder, *exchanges, facts=FACTS)
    texts = CheckedTokenizer(texts) if isinstance(texts, Tokenizer) else texts
    with Replay([folder]) as replay:
        return list(splits_of(replay, Options(), texts))


def two(
    talk: Talk,
    prompt: Sequence[str],
    sampled: Sequence[str],
    later: Sequence[str],
    messages: Sequence[Any] = (COUNT, answer("hello"), MORE),
    reply: Any = None,
    **fields: Any,
) -> list[Exchange]:
    """A first turn that answers COUNT, and one with this prompt and these messages."""
    first = talk.turn(1, prompt, sampled, [COUNT], reply or answer("hello"), choice=fields.pop("choice", {}))
    return [first, talk.turn(2, later, ["4", END], messages, answer("4"), **fields)]


def drifted(talk: Talk) -> list[Exchange]:
    return two(talk, ["Q"], [*LETTERS, END], ["Q", "hello", END, "M"])


def merged_at_the_edge(talk: Talk) -> list[Exchange]:
    return two(talk, ["Q", "he"], ["llo", END], ["Q", "hello", END, "M"])


def empty_thinking_left_out(talk: Talk) -> list[Exchange]:
    return two(talk, ["Q", "<think>", "</think>"], ["hello", END], ["Q", "hello", END, "M"])


def told_by_another_answer(talk: Talk) -> list[Exchange]:
    other = talk.turn(3, ["R"], ["hello", " world"], [MORE], answer("hello world"))
    return [*drifted(talk), other]


def other_end(talk: Talk) -> list[Exchange]:
    return two(talk, ["Q"], ["hello", "<|endoftext|>"], ["Q", "hello", END, "M"])


def other_text(talk: Talk) -> list[Exchange]:
    return two(talk, ["Q"], ["hello", END], ["Q", "(hello)", END, "M"])


def put_in(talk: Talk) -> list[Exchange]:
    return two(talk, ["Q"], ["hello", END], ["Q", "\n", "hello", END, "M"])


def thinking_not_resent(talk: Talk) -> list[Exchange]:
    reply = answer("hello", reasoning_content="thought")
    return two(talk, ["Q"], ["<think>thought</think>", "hello", END], ["Q", "hello", END, "M"], reply=reply)


def thinking_left_out(talk: Talk) -> list[Exchange]:
    reply = answer("hello", reasoning_content="thought")
    sampled, later = ["<think>thought</think>", "hello", END], ["Q", "hello", END, "M"]
    return two(talk, ["Q"], sampled, later, [COUNT, reply, MORE], reply=reply)


def begun_thinking_not_resent(talk: Talk) -> list[Exchange]:
    reply = answer("hello", reasoning_content="thought")
    sampled, later = ["thought</think>", "hello", END], ["Q", "hello", END, "M"]
    return two(talk, ["Q", "<think>"], sampled, later, reply=reply)


def call_resent_otherwise(talk: Talk) -> list[Exchange]:
    reply, resent = call('{"a":1}'), call('{"a": 1}')
    sampled, later = ['{"a":1}', END], ["Q", '{"a": 1}', END, "M"]
    return two(talk, ["Q"], sampled, later, [COUNT, resent, MORE], reply=reply)


def call_written_otherwise(talk: Talk) -> list[Exchange]:
    reply = call('{"a":1}')
    sampled, later = ['{"a":1}', END], ["Q", '{"a": 1}', END, "M"]
    return two(talk, ["Q"], sampled, later, [COUNT, reply, MORE], reply=reply)


def call_ids_rewritten(talk: Talk) -> list[Exchange]:
    reply, resent = call("{}", "f:0"), call("{}", "f:1")
    return two(talk, ["Q"], ["f:0", END], ["Q", "f:1", END, "M"], [COUNT, resent, MORE], reply=reply)


def answer_edited(talk: Talk) -> list[Exchange]:
    later = ["Q", "hell", END, "M"]
    return two(talk, ["Q"], ["hello", END], later, [COUNT, answer("hell"), MORE])


def question_edited(talk: Talk) -> list[Exchange]:
    first = talk.turn(1, ["S", "Q"], ["hello", END], [MORE, COUNT], answer("hello"))
    messages = [COUNT, COUNT, answer("hello"), MORE]
    return [first, talk.turn(2, ["S", "R", "hello", END, "M"], ["4", END], messages, answer("4"))]


def other_tools(talk: Talk) -> list[Exchange]:
    return two(talk, ["T", "Q"], ["hello", END], ["U", "Q", "hello", END, "M"], request=TOOLS)


def other_options(talk: Talk) -> list[Exchange]:
    options = {"chat_template_kwargs": {"enable_thinking": False}}
    return two(talk, ["T", "Q"], ["hello", END], ["U", "Q", "hello", END, "M"], request=options)


def other_system(talk: Talk) -> list[Exchange]:
    first = talk.turn(1, ["s", "S", "Q"], ["hello", END], [SYSTEM, COUNT], answer("hello"))
    messages = [SYSTEM | {"content": "Be long."}, COUNT, answer("hello"), MORE]
    return [first, talk.turn(2, ["s", "L", "Q", "hello", END, "M"], ["4", END], messages, answer("4"))]


def other_branch(talk: Talk) -> list[Exchange]:
    history = [COUNT, answer("hello")]
    before = ["Q", "hello", END]
    return [
        talk.turn(1, ["Q"], ["hello", END], [COUNT], answer("hello")),
        talk.turn(2, [*before, "M"], ["4", END], [*history, MORE], answer("4")),
        talk.turn(3, [*before, "C"], ["5", END], [*history, COUNT], answer("5")),
    ]


def other_sample(talk: Talk) -> list[Exchange]:
    return two(talk, ["Q"], ["hello", END], ["Q"], [COUNT])


def tried_again(talk: Talk) -> list[Exchange]:
    undelivered = talk.turn(1, ["Q"], ["hello", END], [COUNT], answer("hello"), delivered=False)
    return [undelivered, *other_sample(talk)[1:]]


def another_conversation(talk: Talk) -> list[Exchange]:
    return two(talk, ["s", "Q"], ["hello", END], ["s", "R"], [MORE])


def summarised(talk: Talk) -> list[Exchange]:
    return two(talk, ["s", "Q"], ["hello", END], ["s", "summary"], [SYSTEM, MORE])


KINDS: dict[Make, tuple[str, str]] = {  # with a tokenizer, and without one
    drifted: ("retokenized", "unknown"),
    merged_at_the_edge: ("retokenized", "unknown"),
    empty_thinking_left_out: ("template_marker", "template_marker"),
    put_in: ("template_marker", "template_marker"),
    other_end: ("template_marker", "template_marker"),
    other_text: ("template_marker", "unknown"),
    thinking_not_resent: ("thinking_stripped", "thinking_stripped"),
    thinking_left_out: ("thinking_stripped", "template_marker"),
    begun_thinking_not_resent: ("thinking_stripped", "template_marker"),
    call_resent_otherwise: ("tool_call_reprinted", "tool_call_reprinted"),
    call_written_otherwise: ("tool_call_reprinted", "template_marker"),
    call_ids_rewritten: ("history_edited", "history_edited"),
    answer_edited: ("history_edited", "history_edited"),
    question_edited: ("history_edited", "history_edited"),
    other_tools: ("tools_changed", "tools_changed"),
    other_options: ("template_options_changed", "template_options_changed"),
    other_system: ("system_prompt_changed", "system_prompt_changed"),
    other_branch: ("branch", "branch"),
    other_sample: ("sibling", "sibling"),
    tried_again: ("retry", "retry"),
    another_conversation: ("new_prompt", "new_prompt"),
    summarised: ("new_prompt", "new_prompt"),
}


@pytest.mark.parametrize("make", KINDS, ids=lambda make: make.__name__)
def test_a_split_is_told_by_what_can_be_shown(make: Make, small: Tokenizer, tmp_path: Path) -> None:
    with_texts = found(tmp_path / "with", make(Talk(small)), small)
    without = found(tmp_path / "without", make(Talk(small)), None)
    assert ([each.kind for each in with_texts], [each.kind for each in without]) == tuple(
        [kind] for kind in KINDS[make]
    )


def test_a_split_tells_the_ids_around_it_and_what_it_costs(small: Tokenizer, tmp_path: Path) -> None:
    talk = Talk(small)
    (split,) = found(tmp_path, drifted(talk), small)
    assert (split.fact, split.cause, split.shared_tokens, split.repeated_tokens) == (
        "the same text in other tokens",
        "retokenized",
        1,
        1,
    )
    (before,), end, behind = talk.ids("Q"), talk.ids(END), talk.ids(END, "M")
    assert split.earlier == Side(
        split.parent_id[:-2] if split.parent_id else "", 0, [before], talk.ids(*LETTERS), end
    )
    assert split.later == Side(split.sequence_id[:-2], 0, [before], talk.ids("hello"), behind)


def test_what_other_answers_sampled_tells_the_text_without_a_tokenizer(
    small: Tokenizer, tmp_path: Path
) -> None:
    exchanges = told_by_another_answer(Talk(small))
    assert [split.kind for split in found(tmp_path, exchanges, None)] == ["retokenized"]


class OtherTexts:
    """The tokenizer of another model."""

    def __init__(self, texts: Mapping[int, bytes]) -> None:
        self._texts = texts

    def bytes_of(self, token_id: int) -> bytes | None:
        return self._texts.get(token_id)


def test_what_the_log_tells_counts_against_a_tokenizer_that_contradicts_it(
    small: Tokenizer, tmp_path: Path
) -> None:
    talk = Talk(small)
    (letter, *_), (hello,) = talk.ids("hello"[:1]), talk.ids("hello")
    texts = CheckedTokenizer(OtherTexts({letter: b"x", hello: b"y"}))
    assert [split.kind for split in found(tmp_path, told_by_another_answer(talk), texts)] == ["retokenized"]
    assert texts.doubt == f"this tokenizer spells id {letter} otherwise than the log"
    assert (texts.bytes_of(letter), texts.bytes_of(hello)) == (b"h", b"hello")


def test_texts_whose_spaces_may_be_lost_only_count_against_a_tokenizer(
    small: Tokenizer, tmp_path: Path
) -> None:
    talk = Talk(small)
    (letter, *_) = talk.ids("hello"[:1])
    texts = CheckedTokenizer(OtherTexts({letter: b"x"}))
    assert [split.kind for split in found(tmp_path, drifted(talk), texts)] == ["unknown"]
    assert (texts.bytes_of(letter), bool(texts.doubt)) == (None, True)


def test_what_the_log_tells_stands_for_an_id_that_a_tokenizer_lacks(small: Tokenizer, tmp_path: Path) -> None:
    talk = Talk(small)
    (hello,) = talk.ids("hello")
    ids = [*talk.ids(*LETTERS, END, "Q", "M")]
    texts = CheckedTokenizer(OtherTexts({each: small.bytes_of(each) or b"" for each in ids}))
    assert [split.kind for split in found(tmp_path, told_by_another_answer(talk), texts)] == ["retokenized"]
    assert texts.doubt == f"id {hello} is not in this tokenizer"


def test_a_space_that_a_backend_lost_is_no_contradiction(small: Tokenizer, tmp_path: Path) -> None:
    talk = Talk(small)
    (hello,) = talk.ids("hello")
    texts = CheckedTokenizer(OtherTexts({hello: b" hello"}))
    assert len(found(tmp_path, told_by_another_answer(talk), texts)) == 1
    assert texts.bytes_of(hello) == b" hello"


def test_a_conversation_that_only_another_rollout_had_is_a_new_prompt(
    small: Tokenizer, tmp_path: Path
) -> None:
    talk = Talk(small)
    first, _ = other_system(talk)
    elsewhere = talk.turn(
        2,
        ["s", "L", "Q", "hello", END, "M"],
        ["4", END],
        [SYSTEM | {"content": "Be long."}, COUNT, answer("hello"), MORE],
        answer("4"),
        rollout_id="other",
    )
    assert [split.kind for split in found(tmp_path, [first, elsewhere], small)] == ["new_prompt"]


def test_requests_that_cannot_be_read_show_nothing(small: Tokenizer, tmp_path: Path) -> None:
    talk = Talk(small)
    first = talk.turn(1, ["Q"], [*LETTERS, END], [COUNT], answer("hello"), request={"messages": 7})
    second = talk.turn(2, ["Q", "h", "e", "y", END], ["4"], [COUNT], answer("4"))
    assert [split.kind for split in found(tmp_path, [first, second], small)] == ["unknown"]
