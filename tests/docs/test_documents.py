import re
from pathlib import Path

import pytest

from tests.docs.markdown import DOCUMENTS, anchors, local_links
from tests.house.link_tree import ROOT


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_link_leads_to_a_file_and_to_a_heading_in_it(document: Path) -> None:
    links = local_links(document)
    assert [file for file, _ in links if not file.exists()] == []
    assert [(file, anchor) for file, anchor in links if anchor and anchor not in anchors(file)] == []


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_a_make_target_that_is_named_exists(name: str) -> None:
    named = set(
        re.findall(r"(?:^ +|`|[A-Z]\S* )make ([a-z][a-z0-9-]*)", (ROOT / name).read_text(), re.MULTILINE)
    )
    targets = set(re.findall(r"^([a-z][a-z0-9-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert named
    assert named <= targets


def test_a_path_in_code_type_in_contributing_exists() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    paths = re.findall(r"`((?:addon|api|bench|cli|compiler|tests|sample_traces|\.ci)/[\w./-]*)`", text)
    assert paths
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_the_changelog_has_a_place_for_what_comes() -> None:
    headings = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == "Unreleased"
