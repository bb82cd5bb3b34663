"""What the site adds to the folder of pages: the project's own pages, and a navigation taken from docs/README.md.

mkdocs calls the functions named on_… (`hooks:` in mkdocs.yml). A page is listed once, in docs/README.md, whose table has a
section, links and a few words in each row: several links make a group of that name.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkdocs.structure.files import File, Files

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.pages import Page

DOCS = Path(__file__).parent.resolve()
ROOT = DOCS.parent
PLACES = {
    ROOT / "README.md": "index.md",
    DOCS / "README.md": "all-pages.md",
    ROOT / "CONTRIBUTING.md": "project/contributing.md",
    ROOT / "SECURITY.md": "project/security.md",
    ROOT / "CHANGELOG.md": "project/changelog.md",
    ROOT / "src" / "shoal" / "README.md": "project/road-of-a-query.md",
}
"""Where the site keeps pages that are not simply at their path below docs/."""
ROW = re.compile(r"^\| (?:\*\*(?P<section>[^*]+)\*\*)? ?\| (?P<links>.*) \| (?P<words>.*) \|$", re.MULTILINE)
NOTE = re.compile(r"^<!-- (?P<kind>file|refused): (?P<what>\S+) -->\n```(?P<language>\w+)$", re.MULTILINE)
LINK = re.compile(r"\[(?P<title>[^\]]+)\]\((?P<target>[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")


@dataclass(frozen=True)
class Row:
    """A row of the index of all pages; a row without a section belongs to the one above."""

    section: str
    links: tuple[tuple[str, str], ...]
    words: str

    def entries(self) -> list[dict[str, Any]]:
        """The row as entries of the navigation."""
        pages = [{capitalised(title): target} for title, target in self.links]
        return pages if len(pages) == 1 else [{capitalised(self.words): pages}]


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Take the navigation from the index of all pages."""
    sections: dict[str, list[dict[str, Any]]] = {"Start here": [{"shoal": "index.md"}, {"All pages": "all-pages.md"}]}
    for row in rows((DOCS / "README.md").read_text(encoding="utf-8")):
        sections.setdefault(row.section, []).extend(row.entries())
    sections["Decisions"] += [
        {number_and_title(page): f"decisions/{page.name}"} for page in sorted(DOCS.glob("decisions/0*.md"))
    ]
    config.nav = [{name: entries} for name, entries in sections.items()]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Put the pages of the project beside those of docs/."""
    kept = [file for file in files if file.src_uri != "README.md"]
    added = [File.generated(config, place, abs_src_path=str(page)) for page, place in PLACES.items()]
    return Files([*kept, *added])


def on_page_markdown(markdown: str, *, page: Page, **_: object) -> str:
    """Links are written for the repository; lead them to the site's own places. Notes for the tests become titles of blocks."""
    source = Path(page.file.abs_src_path or "")
    markdown = NOTE.sub(lambda note: f'```{note["language"]} title="{titled(note)}"', markdown)
    return LINK.sub(lambda link: f"[{link['title']}]({moved(source, page.file.src_uri, link)})", markdown)


def titled(note: re.Match[str]) -> str:
    """What readers should know about a block: the file it is, or that it is refused."""
    return note["what"] if note["kind"] == "file" else f"refused: {note['what']}"


def moved(source: Path, src_uri: str, link: re.Match[str]) -> str:
    """Where a link of the page `source` leads on the site; what is no page stays as it is."""
    target = (source.parent / link["target"]).resolve()
    if "://" in link["target"] or not target.exists():
        return f"{link['target']}{link['anchor'] or ''}"
    place = PLACES.get(target) or target.relative_to(DOCS).as_posix()
    return f"{os.path.relpath(place, Path(src_uri).parent)}{link['anchor'] or ''}"


def rows(index: str) -> list[Row]:
    """The rows of the index, each with its section."""
    found, section = [], ""
    for match in ROW.finditer(index):
        section = match["section"] or section
        links = LINK.finditer(match["links"])
        found.append(Row(section, tuple((link["title"], place_of(link["target"])) for link in links), match["words"]))
    return [row for row in found if row.links]


def place_of(target: str) -> str:
    """The site's place of a page that the index links to."""
    page = (DOCS / target).resolve()
    return PLACES.get(page) or page.relative_to(DOCS).as_posix()


def capitalised(words: str) -> str:
    """The first letter as in a heading; `COUNT(*)` and `ε` stay."""
    return words[:1].upper() + words[1:]


def number_and_title(page: Path) -> str:
    """`# 0001 A grammar of our own` → `1. A grammar of our own`."""
    title = page.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
    return f"{int(title[:4])}. {title[5:]}" if title[:4].isdigit() else title
