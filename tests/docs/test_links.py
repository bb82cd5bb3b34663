"""Links between pages lead somewhere: to a file, and to a heading of it. `./run docs` checks the same on the finished site."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PAGES = sorted(
    page
    for page in [
        *ROOT.glob("*.md"),
        *ROOT.glob(".github/**/*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("src/**/*.md"),
    ]
)
LINK = re.compile(r"\]\((?!https?://|mailto:)([^)#\s]*)(#[^)\s]*)?\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def prose(page: Path) -> str:
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def anchor(heading: str) -> str:
    """What GitHub makes of a heading; the site makes the same."""
    words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
    return re.sub(r"[^\w\- ]", "", words).strip().replace(" ", "-")


def anchors(page: Path) -> set[str]:
    text = prose(page)
    made = [anchor(heading) for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE)]
    numbered = {f"{one}-{made[:i].count(one)}" if one in made[:i] else one for i, one in enumerate(made)}
    return numbered | set(re.findall(r'<a (?:id|name)="([^"]+)"', text))


def is_broken(page: Path, target: str, heading: str) -> bool:
    file = page.parent / target if target else page
    if not file.exists():
        return True
    return bool(heading) and file.suffix == ".md" and heading[1:] not in anchors(file)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_file_and_to_a_heading_of_it(page):
    broken = [target + heading for target, heading in LINK.findall(prose(page)) if is_broken(page, target, heading)]
    assert broken == []


@pytest.mark.parametrize(
    ("target", "heading"), [("no-such-page.md", ""), ("README.md", "#no-such-heading"), ("", "#no-such-heading")]
)
def test_a_link_that_leads_nowhere_is_found(target, heading):
    assert is_broken(ROOT / "README.md", target, heading)


@pytest.mark.parametrize(
    ("heading", "expected"),
    [
        ("What ε means, and what fits a budget", "what-ε-means-and-what-fits-a-budget"),
        ("`COUNT(*)` of a [join](joins.md)", "count-of-a-join"),
        ("What ± covers", "what--covers"),
    ],
)
def test_an_anchor_is_the_one_that_github_makes(heading, expected):
    assert anchor(heading) == expected


MODULE = re.compile(r"`([\w/]+\.py)`")
SOURCES = [
    f"/{file.relative_to(ROOT)}"
    for folder in ("src", "tests", "benchmarks", "examples", "docs")
    for file in (ROOT / folder).rglob("*.py")
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_module_that_a_page_names_exists(page):
    named = [name for name in MODULE.findall(prose(page)) if not any(file.endswith(f"/{name}") for file in SOURCES)]
    assert named == []
