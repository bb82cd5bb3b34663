"""Every page can be reached: the index of all pages, and of all decisions, leaves none out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent.parent / "docs"
LINK = re.compile(r"\]\(([^)#\s]+\.md)(?:#[^)]*)?\)")


def linked_from(index):
    return {(index.parent / link).resolve() for link in LINK.findall(index.read_text(encoding="utf-8"))}


def pages(folder, pattern):
    return {page.resolve() for page in folder.glob(pattern)} - {(folder / "README.md").resolve()}


@pytest.mark.parametrize("folder", ["tutorial", "howto", "reference", "theory", "results"])
def test_every_page_is_linked_from_the_index_of_all_pages(folder):
    missing = pages(DOCS / folder, "**/*.md") - linked_from(DOCS / "README.md")
    assert sorted(str(page.relative_to(DOCS)) for page in missing) == []


def test_every_decision_is_linked_from_the_index_of_decisions():
    decisions = pages(DOCS / "decisions", "*.md")
    assert decisions
    assert decisions <= linked_from(DOCS / "decisions" / "README.md")


def test_every_folder_of_pages_has_an_index():
    folders = {page.relative_to(DOCS).parts[0] for page in DOCS.glob("*/**/*.md")}
    assert folders == {"tutorial", "howto", "reference", "theory", "results", "decisions"}


def test_a_title_of_a_decision_is_the_same_in_its_index():
    index = (DOCS / "decisions" / "README.md").read_text(encoding="utf-8")
    titles = {page.name: page.read_text(encoding="utf-8").splitlines()[0] for page in DOCS.glob("decisions/0*.md")}
    wrong = [name for name, title in titles.items() if f"[{title.removeprefix('# ')}]({name})" not in index]
    assert wrong == []
