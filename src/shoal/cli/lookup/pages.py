"""The pages of the documentation, which the wheel carries along, by name: `shoal help risk-check`."""

from __future__ import annotations

import posixpath
import re
from importlib import resources
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

FOLDERS = ("tutorial", "howto", "reference", "reference/sql", "theory", "results", "decisions")
"""Where pages are, in the order in which a name without a folder is looked up."""
_NOTE = re.compile(r"^<!-- (file|refused): (\S+) -->$", re.MULTILINE)
_DIRECTIVE = re.compile(r"<!--.*?-->\n?", re.DOTALL)
_LINK = re.compile(r"(!?)\[([^\]]+)\]\(([^)#\s]*)(?:#[^)]*)?\)")


def names() -> list[str]:
    """Every page, as `folder/name`."""
    return [
        f"{folder}/{page.name.removesuffix('.md')}"
        for folder in FOLDERS
        for page in sorted((_root() / folder).iterdir(), key=lambda page: page.name)
        if page.name.endswith(".md") and page.name != "README.md"
    ]


def called(words: str) -> list[str]:
    """The pages of this name, in the order of the folders; a folder in front leaves one.

    >>> called("anonymity")
    ['reference/anonymity', 'theory/anonymity']
    >>> called("docs/theory/anonymity.md")
    ['theory/anonymity']
    """
    wanted = words.strip().lower().replace(" ", "-").replace("_", "-").removeprefix("docs/").removesuffix(".md")
    known = names()
    return [wanted] if wanted in known else [name for name in known if PurePosixPath(name).name == wanted]


def markdown(name: str) -> str:
    """A page as it was written."""
    return (_root() / f"{name}.md").read_text(encoding="utf-8")


def title(name: str) -> str:
    """The heading of a page."""
    return markdown(name).split("\n", 1)[0].removeprefix("# ")


def text(name: str) -> str:
    """A page to read in a terminal."""
    return readable(markdown(name), posixpath.dirname(name))


def readable(part: str, folder: str) -> str:
    """A part of a page of this folder: links name the page they lead to, blocks say which file they are or why they are refused.

    >>> readable("See [what is promised](../theory/promise.md#neighbours).", "howto")
    'See what is promised (theory/promise).'
    """
    noted = _NOTE.sub(lambda note: f"{note[1].capitalize()}: {note[2]}", part)
    return _LINK.sub(lambda link: _named(link, folder), _DIRECTIVE.sub("", noted)).strip()


def _named(link: re.Match[str], folder: str) -> str:
    picture, words, target = link.groups()
    if "://" in target:
        return f"{words} ({target})"
    if picture or not target.endswith(".md") or target.endswith("README.md"):
        return words
    return f"{words} ({posixpath.normpath(posixpath.join(folder, target)).removesuffix('.md')})"


def _root() -> Traversable:
    """The folder of pages, of the installed package or of the source tree."""
    carried = resources.files("shoal") / "docs"
    return carried if carried.is_dir() else Path(__file__).parents[4] / "docs"
