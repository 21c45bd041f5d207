import re
from base64 import b64encode
from hashlib import sha256
from importlib.resources import files

from tests.support.report_pages import HOSTILE, branch, contents, data_of, found, text_of
from turnstile.compiler.report.page import SCRIPTS, STYLES, report_page

PAGE = report_page(contents(branch(1, [1, 2, 3]))).decode()


def content(name: str, page: str = PAGE) -> list[str]:
    """What stands in the elements of that name that a browser runs or applies."""
    return re.findall(rf"<{name}(?: type=\"module\")?>(.*?)</{name}>", page, re.DOTALL)


def test_the_policy_allows_the_styles_and_scripts_of_the_page_and_no_others() -> None:
    (style,), (script,) = content("style"), content("script")
    hashes = [f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" for text in (style, script)]
    policy = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', PAGE)
    assert policy == [
        f"default-src 'none'; style-src {hashes[0]}; script-src {hashes[1]}; img-src data:; "
        "base-uri 'none'; form-action 'none'".replace("'", "&#x27;")
    ]


def test_it_names_no_other_place() -> None:
    addresses = re.findall(r'(?:href|src|action)="([^"]*)"', PAGE)
    assert {address for address in addresses if not address.startswith("#")} == {"data:,"}
    assert not re.findall(r"https?:|url\(|@import|fetch\(|XMLHttpRequest|WebSocket", PAGE)


def test_every_asset_is_in_the_page_and_can_stand_there() -> None:
    folder = files("turnstile.compiler.report") / "assets"
    assert sorted(each.name for each in folder.iterdir()) == sorted((*STYLES, *SCRIPTS))
    assert all("</" not in (folder / name).read_text() for name in (*STYLES, *SCRIPTS))


def test_nothing_from_the_data_becomes_markup() -> None:
    hostile = branch(
        1, [1, 2], group_id=HOSTILE, rollout_id=HOSTILE, sequence_id=HOSTILE, flags=(HOSTILE,),
        weight_versions=((0, HOSTILE),), metadata={HOSTILE: HOSTILE}, sampling=({"stop": HOSTILE},),
        finish_reasons=(HOSTILE,),
    )  # fmt: skip
    given = contents(hostile, findings=[found(HOSTILE, message=HOSTILE)], texts={1: HOSTILE, 2: "\ud800"})
    page = report_page(given).decode()
    assert len(re.findall(r"<script", page)) == len(re.findall(r"<script", PAGE))
    assert "<img" not in page
    assert data_of(page)["texts"] == {"1": HOSTILE, "2": "\ud800"}
    assert page.count("</body>") == 1


def test_what_utf8_has_not_is_replaced() -> None:
    page = report_page(contents(branch(1, [1, 2], rollout_id="a\ud800b")))
    assert "a?b" in text_of(page.decode())


def test_the_same_contents_give_the_same_bytes() -> None:
    assert report_page(contents(branch(1, [1, 2, 3]))).decode() == PAGE


def test_the_summary_the_tree_and_the_findings_can_be_read_without_scripts() -> None:
    said = text_of(report_page(contents(branch(1, [1, 2, 3]), findings=[found("aborted", 1)])).decode())
    for part in ("1 warning about what is doubtful", "e1.0 r", "3 tokens, 2 trained, 1 turn", "a aborted"):
        assert part in said
