"""Every planted bug is caught by the layer that is meant to catch it; a survivor fails."""

from collections import Counter
from pathlib import Path

import planted_draws  # noqa: F401 - enters its bugs into the catalogue
import planted_local  # noqa: F401 - same
import planted_noise  # noqa: F401 - same
import planted_policies  # noqa: F401 - same
import planted_queries  # noqa: F401 - same
import planted_reach  # noqa: F401 - same
import planted_rows  # noqa: F401 - same
import planted_selection  # noqa: F401 - same
import planted_sketches  # noqa: F401 - same
import pytest
from planted import CATALOGUE, LAYERS, PLAN_CHECK, forget_everything

from shoal.rewrite import pipeline

PAGE = Path(__file__).parent.parent.parent / "docs" / "theory" / "planted-bugs.md"
TAKE_LONG = {"picks_of_the_database"}


@pytest.fixture(autouse=True)
def forgetting():
    """A mutant's numbers stay in no cache; those of sound code may be there before."""
    yield
    forget_everything()


@pytest.mark.parametrize(
    "bug",
    [pytest.param(bug, marks=pytest.mark.slow if bug.name in TAKE_LONG else []) for bug in CATALOGUE],
    ids=lambda bug: bug.name,
)
def test_a_planted_bug_is_caught_and_healthy_code_is_not(bug, monkeypatch):
    assert not bug.alarm(), f"the {bug.layer} rings on healthy code"
    forget_everything()
    with monkeypatch.context() as patch:
        if bug.layer != PLAN_CHECK:
            # The check of finished plans would stop many of them first: the layer itself must see the bug.
            patch.setattr(pipeline, "verify", lambda plan, _catalog: plan)
        bug.plant(patch)
        assert bug.alarm(), f"survived the {bug.layer}: {bug.mutant}"


def test_the_catalogue_has_at_least_thirty_bugs_of_all_layers():
    assert len({bug.name for bug in CATALOGUE}) == len(CATALOGUE) >= 30
    assert {bug.layer for bug in CATALOGUE} == set(LAYERS)


def test_the_page_lists_the_catalogue():
    """After a change of the catalogue: python tests/audit/write_planted_bugs.py."""
    assert PAGE.read_text(encoding="utf-8") == page()


def page() -> str:
    """The catalogue as a page."""
    layers = Counter(bug.layer for bug in CATALOGUE)
    rows = [
        "| " + " | ".join(cell.replace("|", "\\|") for cell in (bug.shipped, bug.mutant, bug.layer)) + " |"
        for bug in CATALOGUE
    ]
    return "\n".join(
        [
            "# Planted bugs",
            "",
            "Real systems for private queries shipped real bugs. Each of them is planted into shoal's own code by its",
            "tests (never by a switch in the product), and the layer that is meant to catch it must do so; the same alarm",
            "must stay quiet on the code as it is. A survivor fails the build. This page is written from the catalogue in",
            "`tests/audit` and checked against it.",
            "",
            "| layer | what it looks at | bugs it catches |",
            "|---|---|---|",
            *(f"| {layer} | {text} | {layers[layer]} |" for layer, text in LAYERS.items()),
            "",
            "| shipped by somebody | planted here | caught by |",
            "|---|---|---|",
            *rows,
            "",
            "What a sampling test can and cannot see: [what a pass means](what-a-pass-means.md).",
            "",
        ]
    )
