from base64 import b64encode

import numpy as np

from tests.support.report_pages import array_of, branch, contents, data_of, found
from tests.support.sequences import WITH_IMAGES
from turnstile.compiler.images.image import PromptImage
from turnstile.compiler.report.arrivals import Arrival
from turnstile.compiler.report.contents import Contents
from turnstile.compiler.report.markup import joined
from turnstile.compiler.report.placed import placed_sequences
from turnstile.compiler.report.token_data import token_data
from turnstile.compiler.sequence import Call


def data(given: Contents) -> str:
    return joined(*token_data(given, placed_sequences(given)))


def test_tokens_and_logprobs_stand_beside_what_is_said_of_them() -> None:
    one = branch(1, [1, 70_000, 3])
    made = data(contents(one, branch(2, [1, 70_000, 4, 5], one)))
    first, second = data_of(made)["sequences"]
    assert first == {
        "id": "e1.0", "size": 3, "parent": None, "cause": None, "shared": 0,
        "segments": [[0, 1], [1, 2]], "versions": [[0, "7"]],
        "turns": [[0, 1, 3, "Turn 1", "exchange e1, choice 0 · finish stop · temperature 0.5"]],
        "routing": None, "focus": None, "change": None, "images": [],
    }  # fmt: skip
    assert (second["parent"], second["cause"], second["shared"]) == (0, "sibling", 2)
    assert array_of(made, "tokens-0", "<i4").tolist() == [1, 70_000, 3]
    assert array_of(made, "tokens-1", "<i4").tolist() == [4, 5]
    assert array_of(made, "logprobs-1", "<f4").tolist() == [-0.5, -2.25]


def test_routed_experts_are_there_with_the_difference_to_the_parents() -> None:
    rows = np.array([[[1, 2]], [[3, 4]]], np.uint8)
    one = branch(1, [1, 2, 3], routed_experts=rows)
    two = branch(
        2, [1, 2, 3, 4, 5], one, "routing_changed", routed_experts=np.concatenate((rows[:1], rows[:1], rows))
    )
    made = data(contents(one, two, findings=[found("routing_changed", 2)]))
    described = data_of(made)["sequences"][1]
    assert described["routing"] == {"layers": 1, "experts": 2, "rows": True}
    assert (described["focus"], described["change"]) == (1, {"layer": 0, "before": [3, 4], "now": [1, 2]})
    assert array_of(made, "rows-1", "<u2").tolist() == [1, 2, 1, 2, 1, 2, 3, 4]
    assert array_of(made, "layers-1", "u1").tolist() == [0, 1]
    assert "layers-0" not in made


def test_an_image_of_many_sequences_stands_in_the_page_once() -> None:
    picture, other = WITH_IMAGES.images
    document = PromptImage("b", "image/svg+xml", b"<svg>", (0, 1))
    made = data(contents(branch(1, [1, 2], images=(picture,)), branch(2, [1, 2], images=(other, document))))
    shown = [[{"start": start, "length": 2, "mime": "image/png", "picture": 0}] for start in (1, 4)]
    assert [each["images"] for each in data_of(made)["sequences"]] == shown
    assert made.count(b64encode(picture.data).decode()) == 1
    assert b64encode(b"<svg>").decode() not in made


def test_a_turn_says_how_its_reply_came_where_that_is_known() -> None:
    arrival = Arrival(1.0, 0.5, "complete", True, 0, None, None)
    made = data(contents(branch(1, [1, 2]), arrivals={"e1": arrival}))
    assert data_of(made)["sequences"][0]["turns"][0][4].endswith(" · began at 1.00 s, took 0.50 s")


def test_stretches_are_not_called_turns_where_turns_are_not_told() -> None:
    made = data(contents(branch(1, [1, 2, 3], exchanges=(Call("e1", 0), Call("e2", 0)))))
    assert data_of(made)["sequences"][0]["turns"] == [[0, 1, 3, "Stretch 1", ""]]


def test_texts_come_by_id() -> None:
    assert data_of(data(contents(branch(1, [1, 2]), texts={1: "</script>", 2: "\u2028"})))["texts"] == {
        "1": "</script>",
        "2": "\u2028",
    }
