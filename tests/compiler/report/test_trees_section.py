import re

from tests.support.report_pages import HOSTILE, branch, contents, found, text_of
from turnstile.compiler.report.contents import Contents
from turnstile.compiler.report.placed import placed_sequences
from turnstile.compiler.report.trees_section import trees_section


def section(given: Contents) -> str:
    return trees_section(given, placed_sequences(given))


def test_a_line_says_what_a_sequence_is_and_why() -> None:
    one = branch(1, [1, 2, 3])
    two = branch(2, [1, 2, 4, 5], one, "retokenized", flags=("aborted",), reward=0.5)
    given = contents(one, two, findings=[found("aborted", 2), found("token_type", 2, severity="error")])
    lines = re.findall(r"<summary>(.*?)</summary>", section(given))
    assert [text_of(line) for line in lines] == [
        "g 1 rollout, 2 sequences, 7 tokens, mean reward 0.75, from 0.5 to 1",
        "e1.0 r 3 tokens, 2 trained, 1 turn, reward 1",
        "e2.0 r retokenized after 2 aborted 1 error 1 warning 4 tokens, 2 trained, 1 turn, reward 0.5",
    ]


def test_depth_stops_growing_and_is_told_to_those_who_do_not_see() -> None:
    chain = [branch(0, [1, 2])]
    for number in range(1, 12):
        chain.append(branch(number, [1, 2], chain[-1]))
    made = section(contents(*chain))
    depths = [int(depth) for depth in re.findall(r'class="depth-(\d)"', made)]
    assert depths == [0, 1, 2, 3, 4, 5, 6, 7, 8, 8, 8, 8]
    assert "level 12" in text_of(made)


def test_of_many_sequences_only_the_first_group_is_open() -> None:
    many = [branch(number, [1, 2], group_id=f"g{number // 40}") for number in range(80)]
    opened = re.findall(r'<details class="group"( open)?>', section(contents(*many)))
    assert opened == [" open", ""]


def test_the_facts_name_the_parent_and_what_flags_mean() -> None:
    one = branch(1, [1, 2, 3])
    two = branch(2, [1, 2, 4, 5], one, flags=("undelivered",), metadata={"task": "x"})
    made = section(contents(one, two, findings=[found("undelivered", 2, message="the harness had left")]))
    said = text_of(made)
    assert "Left e1.0 after 2 tokens: sibling , it has the very prompt of an earlier turn" in said
    assert "Flag undelivered : an answer never reached the harness" in said
    assert 'Metadata {"task": "x"}' in said
    assert "undelivered the harness had left" in said
    assert '<a href="#sequence-0">' in made


def test_a_parent_that_is_not_here_is_named_without_a_link() -> None:
    one = branch(1, [1, 2, 3])
    assert "Left e1.0 (not here) after 2 tokens" in text_of(section(contents(branch(2, [1, 2, 4, 5], one))))


def test_names_are_shown_and_never_become_markup() -> None:
    made = section(contents(branch(1, [1, 2], group_id=HOSTILE, rollout_id=HOSTILE, sequence_id=HOSTILE)))
    assert "<script" not in made
    assert "<img" not in made
    assert "window.broken" in text_of(made)
