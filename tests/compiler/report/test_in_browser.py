"""The page in a real browser: what its scripts make of the data, and that it asks the network for nothing."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.support.chromium import Page, browser_page, chromium
from tests.support.report_pages import HOSTILE, branch, contents, found
from tests.support.sequences import WITH_IMAGES
from turnstile.compiler.report.contents import Contents
from turnstile.compiler.report.page import report_page
from turnstile.compiler.sequence import TrainingSequence

CHROMIUM = chromium()
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no chromium on this machine: NOTHING of the report's scripts is tested"
)


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    assert CHROMIUM is not None
    with browser_page(CHROMIUM, tmp_path_factory.mktemp("profile")) as page:
        yield page


@pytest.fixture
def page(tab: Page) -> Iterator[Page]:
    """The tab with light colours and a window of a usual size; afterwards it has complained of nothing."""
    tab.requests.clear()
    tab.complaints.clear()
    tab.resize(1200, 900)
    tab.prefer("light")
    tab.call("Emulation.setScriptExecutionDisabled", value=False)
    yield tab
    assert tab.complaints == []
    assert [address for address in tab.requests if not address.startswith(("file:", "data:"))] == []
    assert sum(address.startswith("file:") for address in tab.requests) == 1


def show(page: Page, folder: Path, given: Contents, opened: int | None = None) -> None:
    """Opens the report, and in it the sequence of that index."""
    path = folder / "report.html"
    path.write_bytes(report_page(given))
    page.open(path)
    if opened is not None:
        page.run(f"location.hash = '#sequence-{opened}'")
        page.wait(f"document.querySelector('{inside(opened)} .tokens .token')")


def inside(index: int) -> str:
    return f"#sequence-{index}"


def card(page: Page) -> dict[str, str]:
    """What the card says, by its terms; nothing where it is hidden."""
    said: dict[str, str] = page.run(
        "document.getElementById('card').hidden ? {} : Object.fromEntries([...document.querySelectorAll("
        "'#card dl > div')].map((row) => [row.children[0].textContent, row.children[1].textContent]))"
    )
    return said


def texts(page: Page, selector: str) -> list[str]:
    said: list[str] = page.run(
        f"[...document.querySelectorAll(`{selector}`)].map((each) => each.textContent)"
    )
    return said


def nth_token(index: int, at: int) -> str:
    return f"{inside(index)} .tokens .chips > .token:nth-of-type({at + 1})"


def parted() -> tuple[TrainingSequence, TrainingSequence]:
    one = branch(1, [11, 12, 13, 14, 15])
    return one, branch(2, [11, 12, 21, 22, 23], one, "retokenized")


def test_a_token_tells_its_numbers_under_the_pointer(page: Page, tmp_path: Path) -> None:
    show(page, tmp_path, contents(*parted()), opened=1)
    assert texts(page, f"{inside(1)} .tokens .token") == ["11", "12", "21", "22", "23"]
    page.point_at(nth_token(1, 4))
    assert card(page) == {
        "token": "4 of 5", "id": "23", "trained": "yes", "logprob": "-2.25", "probability": "0.105",
        "weights": "7", "turn": "1",
    }  # fmt: skip
    page.point_at(nth_token(1, 1))
    assert card(page) == {"token": "1 of 5", "id": "12", "trained": "no", "weights": "7", "turn": "1"}


def test_the_keyboard_moves_from_token_to_token_and_keeps_a_card(page: Page, tmp_path: Path) -> None:
    page.resize(1200, 3000)  # all of the page, so that nothing scrolls
    show(page, tmp_path, contents(*parted()), opened=1)
    page.run(f"document.querySelector('{inside(1)} .tokens').focus()")
    for key, at in (("ArrowRight", 1), ("End", 4), ("ArrowLeft", 3), ("Home", 0)):
        page.press(key)
        assert card(page)["token"] == f"{at} of 5"
    active = "document.getElementById(document.activeElement.getAttribute('aria-activedescendant'))"
    assert page.run(f"{active}.getAttribute('aria-label')").startswith("token 0 of 5, id 11, trained no")
    page.press("Enter")
    page.point_at("h1")
    assert card(page)["id"] == "11"
    page.press("Escape")
    assert card(page) == {}


def test_a_split_shows_both_sides_and_marks_what_differs(page: Page, tmp_path: Path) -> None:
    show(page, tmp_path, contents(*parted()), opened=1)
    assert texts(page, f"{inside(1)} .split h4") == ["Parted after 2 tokens"]
    for row, tokens, differs in (
        (1, ["11", "12", "13", "14", "15"], ["13", "14", "15"]),
        (2, ["11", "12", "21", "22", "23"], ["21", "22", "23"]),
    ):
        side = f"{inside(1)} .split tr:nth-child({row})"
        assert texts(page, f"{side} .token") == tokens
        assert texts(page, f"{side} .differs") == differs
    page.point_at(f"{inside(1)} .split tr:nth-child(1) .differs")
    assert (card(page)["token"], card(page)["id"]) == ("2 of 5", "13")


def test_routed_otherwise_shows_the_row_on_both_sides(page: Page, tmp_path: Path) -> None:
    rows = np.arange(16, dtype=np.uint8).reshape(4, 2, 2)
    one = branch(1, [11, 12, 13, 14, 15], routed_experts=rows)
    other = np.concatenate((rows, rows[:1]))
    other[2, 1] = [90, 91]
    two = branch(2, [11, 12, 13, 14, 15, 16], one, "routing_changed", routed_experts=other)
    show(page, tmp_path, contents(one, two, findings=[found("routing_changed", 2)]), opened=1)
    assert texts(page, f"{inside(1)} .split h4") == ["Routed otherwise at token 2"]
    assert texts(page, f"{inside(1)} .split .differs") == ["13", "13"]
    assert texts(page, f"{inside(1)} .split p") == [
        "The first row that differs is 2. In layer 1 its row names experts 90 91; before 10 11."
    ]
    page.point_at(nth_token(1, 2))
    said = card(page)
    assert (said["routed otherwise"], said["experts"]) == ("in 1 of 2 layers", "layer 0: 8 9\nlayer 1: 90 91")
    page.point_at(nth_token(1, 5))
    assert card(page)["experts"] == "no row: nothing came after it"
    page.point_at("label[for=colour-routing]", click=True)
    colours = page.run(
        f"[...document.querySelectorAll('{inside(1)} .tokens .token')].map((token) =>"
        " ['rx', 'r0', 'r1', 'r2', 'r3'].find((name) => token.classList.contains(name)))"
    )
    assert colours == ["r0", "r0", "r3", "r0", "rx", "rx"]


def test_the_colouring_is_chosen_and_explained(page: Page, tmp_path: Path) -> None:
    show(page, tmp_path, contents(branch(1, [1, 2, 3, 4], weight_versions=((0, "7"), (3, "8")))), opened=0)
    likely, unlikely = nth_token(0, 2), nth_token(0, 3)
    background = "getComputedStyle(document.querySelector('{}')).backgroundColor"

    def colours(choice: str) -> tuple[str, str]:
        page.point_at(f"label[for=colour-{choice}]", click=True)
        return page.run(background.format(likely)), page.run(background.format(unlikely))

    one, other = colours("mask")
    assert one == other
    assert texts(page, "#legend .entry") == ["\u00a0context", "\u00a0sampled and trained"]
    for choice, entries in (("logprob", 8), ("version", 3)):
        one, other = colours(choice)
        assert one != other
        assert len(texts(page, "#legend .entry")) == entries


def test_text_stands_beside_the_ids_and_either_can_be_hidden(page: Page, tmp_path: Path) -> None:
    given = contents(branch(1, [1, 2, 3, 4]), texts={1: "Hi", 2: "\n", 3: HOSTILE})
    show(page, tmp_path, given, opened=0)
    assert texts(page, f"{inside(0)} .tokens .token")[:2] == ["Hi1", "⏎2"]
    assert HOSTILE.partition("\u2028")[0] in texts(page, f"{inside(0)} .tokens .token")[2]
    page.point_at(nth_token(0, 3))
    assert card(page)["text"] == "unknown"
    for choice, seen in (("text", "Hi"), ("ids", "1"), ("both", "Hi1")):
        page.point_at(f"label[for=spelling-{choice}]", click=True)
        shown = page.run(f"document.querySelector('{nth_token(0, 0)}').innerText")
        assert "".join(shown.split()) == seen


def test_what_the_data_holds_is_never_run(page: Page, tmp_path: Path) -> None:
    hostile = branch(
        1, [1, 2, 3, 4], group_id=HOSTILE, rollout_id=HOSTILE, weight_versions=((0, HOSTILE),),
        sampling=({"stop": HOSTILE},), flags=(HOSTILE,),
    )  # fmt: skip
    given = contents(hostile, findings=[found("x", 1, message=HOSTILE)], texts={1: HOSTILE})
    show(page, tmp_path, given, opened=0)
    page.point_at("label[for=colour-version]", click=True)
    page.point_at(nth_token(0, 0))
    assert "window.broken" in card(page)["weights"]
    assert page.run("window.broken === undefined && document.images.length") == 0


def test_an_image_is_drawn_before_its_tokens(page: Page, tmp_path: Path) -> None:
    show(page, tmp_path, contents(WITH_IMAGES), opened=0)
    page.wait("document.images.length && document.images[0].complete")
    assert page.run("[...document.images].map((image) => image.naturalWidth)") == [64, 64]
    assert texts(page, f"{inside(0)} .block .chips") == ["1", "992", "993"]
    assert texts(page, "figcaption").count("2 tokens from 4") == 1


def test_of_a_long_sequence_only_what_is_near_is_in_the_page(page: Page, tmp_path: Path) -> None:
    show(page, tmp_path, contents(branch(1, list(range(20_000)))), opened=0)
    assert page.run("document.querySelectorAll('.tokens .token').length") < 3000
    page.run("document.querySelector('.moves input').value = 15000")
    page.run("document.querySelector('.moves input').dispatchEvent(new Event('change'))")
    assert (card(page)["token"], card(page)["id"]) == ("15,000 of 20,000", "15000")
    page.wait("document.querySelectorAll('.tokens .token').length < 3000")
    assert page.run(
        "(() => { const pane = document.querySelector('.tokens').getBoundingClientRect();"
        "const token = document.querySelector('.token.active').getBoundingClientRect();"
        "return token.top >= pane.top && token.bottom <= pane.bottom; })()"
    )


def test_tokens_come_down_a_chain_of_splits(page: Page, tmp_path: Path) -> None:
    chain = [branch(0, [1, 2, 3])]
    for number in range(1, 30):
        shared = chain[-1].tokens[:-1].tolist()
        chain.append(branch(number, [*shared, 100 + number, 200 + number], chain[-1], "retokenized"))
    show(page, tmp_path, contents(*chain), opened=29)
    expected = [str(token) for token in chain[29].tokens]
    assert texts(page, f"{inside(29)} .tokens .token") == expected


def test_sequences_are_found_by_what_their_lines_say(page: Page, tmp_path: Path) -> None:
    one, two = parted()
    show(page, tmp_path, contents(one, two, branch(3, [7, 8, 9], group_id="other")))
    page.run("document.getElementById('filter').value = 'Retok'")
    page.run("document.getElementById('filter').dispatchEvent(new Event('input'))")
    assert page.run("[...document.querySelectorAll('.tree > li, .group')].map((each) => each.hidden)") == [
        False,
        True,
        False,
        True,
        True,
    ]
    assert texts(page, "#filtered") == ["1 of 3"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_colour_of_a_token_can_be_read(page: Page, tmp_path: Path, scheme: str) -> None:
    page.prefer(scheme)
    show(page, tmp_path, contents(branch(1, [1, 2, 3]), texts={1: "a", 2: "b", 3: "c"}), opened=0)
    worst = page.run(Path(__file__).with_name("contrast.js").read_text())
    assert worst[0] >= 4.5, worst


def test_light_and_dark_follow_the_system_and_the_switch(page: Page, tmp_path: Path) -> None:
    page.prefer("dark")
    show(page, tmp_path, contents(branch(1, [1, 2])))
    background = "getComputedStyle(document.documentElement).backgroundColor"
    pressed = "document.getElementById('theme').getAttribute('aria-pressed')"
    dark = page.run(background)
    assert page.run(pressed) == "true"
    page.point_at("#theme", click=True)
    assert page.run(pressed) == "false"
    assert page.run(background) != dark


def test_nothing_is_wider_than_a_narrow_window(page: Page, tmp_path: Path) -> None:
    page.resize(400, 800)
    one, two = parted()
    wide = branch(3, list(range(100_000, 100_400)), group_id="g" * 128, rollout_id="r" * 128)
    show(page, tmp_path, contents(one, two, wide, findings=[found("x", 1, message="m" * 300)]), opened=1)
    page.run("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    page.wait("document.querySelectorAll('.tokens').length === 3")
    assert page.run("document.documentElement.scrollWidth") == 400


def test_the_summary_can_be_read_with_scripts_off(page: Page, tmp_path: Path) -> None:
    page.resize(1200, 3000)  # what is out of sight is not laid out, and so not told
    page.call("Emulation.setScriptExecutionDisabled", value=True)
    show(page, tmp_path, contents(*parted(), findings=[found("aborted", 1)]))
    page.call("Emulation.setScriptExecutionDisabled", value=False)
    # What is in sight is laid out by the next frame.
    page.wait("document.body.innerText.includes('2 trained')")
    seen = page.run("document.body.innerText")
    for part in (
        "1 warning about what is doubtful",
        "retokenized",
        "5 tokens, 2 trained, 1 turn",
        "a aborted",
    ):
        assert part in seen
    assert "Colour tokens by" not in seen
    assert page.run("document.querySelectorAll('svg.histogram').length") == 2
