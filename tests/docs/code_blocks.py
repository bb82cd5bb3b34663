"""Fenced code blocks of Markdown pages, and how each kind is run (conventions: CONTRIBUTING.md, "Docs are tests")."""

from __future__ import annotations

import contextlib
import io
import re
import subprocess
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal.errors import ShoalError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shoal.session import Session

FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>[\w+-]*)[^\n]*\n(?P<text>.*?)^(?P=indent)```[ ]*$", re.MULTILINE | re.DOTALL
)
DIRECTIVES = re.compile(r"((?:^ *<!-- *[a-z]+:[^\n]*--> *\n)+)\Z", re.MULTILINE)
DIRECTIVE = re.compile(r"<!-- *(?P<name>[a-z]+): *(?P<value>.*?) *-->")

NOT_RUN = ("./run ", "pip install", "uv ", "git ", "pre-commit ", "apt ")
"""Commands that change the machine or start this very test; a block with such a line is read, not run."""

SILENT = ("text", "html", "json", "yaml", "markdown", "")
"""Blocks that show output or other things which are not for running."""


@dataclass(frozen=True)
class Block:
    """One fenced block of a page, with the directives in the comment lines right above it."""

    language: str
    text: str
    line: int
    directives: dict[str, str] = field(default_factory=dict)


def blocks_of(page: str) -> Iterator[Block]:
    for match in FENCE.finditer(page):
        above = DIRECTIVES.search(page, 0, match.start())
        found = {one["name"]: one["value"] for one in DIRECTIVE.finditer(above.group(1))} if above else {}
        indent = match["indent"]
        text = "".join(line.removeprefix(indent) for line in match["text"].splitlines(keepends=True))
        yield Block(match["language"].lower(), text, page.count("\n", 0, match.start()) + 1, found)


class PageRun:
    """Runs the blocks of one page in order, in the current folder; Python blocks share one namespace."""

    def __init__(self) -> None:
        self.namespace: dict[str, Any] = {"__name__": "__page__"}
        self.session: tuple[str, Session] | None = None
        self.printed = ""

    def run(self, block: Block) -> None:
        if "file" in block.directives:
            Path(block.directives["file"]).write_text(block.text, encoding="utf-8")
        if "printed" in block.directives:
            assert block.directives["printed"] == "above", "only what the block above has printed can be shown"
            assert block.text in self.printed, f"this is printed now:\n{self.printed}"
        if block.language in SILENT:
            return
        runner = getattr(self, f"run_{block.language}", None)
        assert runner is not None, f"no test knows how to run a {block.language!r} block"
        runner(block)

    def run_python(self, block: Block) -> None:
        if block.directives.get("file", "").endswith(".py"):
            return
        # Padding keeps line numbers of the page in tracebacks.
        code = compile("\n" * block.line + block.text, "<page>", "exec")
        with refused(block), contextlib.redirect_stdout(io.StringIO()) as shown:
            exec(code, self.namespace)  # noqa: S102 - running the page is the test
        self.printed = shown.getvalue()

    def run_sql(self, block: Block) -> None:
        session = self.session_over_the_shop()
        for statement in re.split(r";[ ]*$", block.text, flags=re.MULTILINE):
            if statement.strip():
                with refused(block):
                    assert session.query(statement).to_arrow().num_columns > 0

    def session_over_the_shop(self) -> Session:
        """One session serves the page, until a block writes another catalog."""
        from shoal.session import connect

        catalog = Path("shoal.toml").read_text(encoding="utf-8")
        if self.session is None or self.session[0] != catalog:
            self.session = catalog, connect("data/", catalog="shoal.toml")
        return self.session[1]

    def run_sh(self, block: Block) -> None:
        if any(line.lstrip().startswith(NOT_RUN) for line in block.text.splitlines()):
            return
        done = subprocess.run(["sh", "-eu"], input=block.text, capture_output=True, text=True, timeout=500, check=False)
        expected = 2 if "refused" in block.directives else int(block.directives.get("exit", "0"))
        self.printed = done.stdout + done.stderr
        assert done.returncode == expected, self.printed
        assert block.directives.get("refused", "") in done.stderr
        assert "Traceback" not in done.stderr

    run_bash = run_sh

    def run_toml(self, block: Block) -> None:
        from shoal.catalog import Catalog

        data = tomllib.loads(block.text)
        if "tables" in data:
            Catalog.from_dict(data)


@contextlib.contextmanager
def refused(block: Block) -> Iterator[None]:
    """Checks that the block is refused with the code it names, or that it is not refused at all."""
    code = block.directives.get("refused")
    if code is None:
        yield
        return
    try:
        yield
    except ShoalError as error:
        assert error.code == code, f"refused with {error.code}, and the page says {code}"  # noqa: PT017 - the code is the point
    else:
        message = f"the page says {code}, and it was answered"
        raise AssertionError(message)
