"""Every code block of every page runs; every example runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from code_blocks import PageRun, blocks_of

ROOT = Path(__file__).parent.parent.parent
TAKE_LONG = {"command-line.md", "spark.md", "allow.md", "approve.md", "audit-the-log.md", "postgresql.md"}
"""Pages that start a service, a server or dozens of programs."""
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "src" / "shoal" / "README.md"])
EXAMPLES = sorted(ROOT.glob("examples/*.py"))


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=pytest.mark.slow if page.name in TAKE_LONG else []) for page in PAGES],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_every_code_block_of_the_page_runs(page, workplace, request):
    text = page.read_text(encoding="utf-8")
    for server in re.findall(r"^<!-- server: (\w+) -->$", text, re.MULTILINE):
        request.getfixturevalue(f"{server}_shop")
    run = PageRun()
    for block in blocks_of(text):
        try:
            run.run(block)
        except BaseException as error:
            error.add_note(f"in {page.relative_to(ROOT)}, the {block.language} block at line {block.line}")
            raise


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_every_example_runs(example, workplace):
    done = subprocess.run(
        [sys.executable, "-W", "error", str(example)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_a_block_knows_its_language_line_and_directives():
    page = "# Title\n\n<!-- refused: E_PARSE -->\n```sql\nSELECT\n```\n\n```python\nx = 1\n```\n"
    first, second = blocks_of(page)
    assert (first.language, first.text, first.line, first.directives) == ("sql", "SELECT\n", 4, {"refused": "E_PARSE"})
    assert (second.language, second.line, second.directives) == ("python", 8, {})


def test_a_failing_block_fails(workplace):
    (block,) = blocks_of("```python\nassert False\n```\n")
    with pytest.raises(AssertionError):
        PageRun().run(block)


def test_a_failing_command_fails(workplace):
    (block,) = blocks_of("```sh\nshoal no-such-verb\n```\n")
    with pytest.raises(AssertionError):
        PageRun().run(block)


@pytest.mark.parametrize("block", ["```python\nprint(6 * 7)\n```", "```sh\necho 42\n```"], ids=["python", "sh"])
def test_what_a_block_prints_is_held_against_what_the_page_shows(workplace, block):
    run = PageRun()
    first, right, wrong = blocks_of(
        f"{block}\n\n<!-- printed: above -->\n```text\n42\n```\n\n<!-- printed: above -->\n```text\n43\n```\n"
    )
    run.run(first)
    run.run(right)
    with pytest.raises(AssertionError, match="printed now"):
        run.run(wrong)


def test_a_block_in_an_unknown_language_fails(workplace):
    (block,) = blocks_of("```cobol\nSTOP RUN.\n```\n")
    with pytest.raises(AssertionError, match="cobol"):
        PageRun().run(block)
