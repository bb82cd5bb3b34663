"""Every pass of the road, query by query, against the text that stands in its fixture file."""

from __future__ import annotations

from pathlib import Path

import pytest
from golden_text import PASSES, outcome, read_cases

from shoal.rewrite import pipeline

FOLDER = Path(__file__).parent
CASES = [
    pytest.param(name_of_pass, case, id=f"{name_of_pass}: {case.title}")
    for name_of_pass in PASSES
    for case in read_cases(FOLDER / f"{name_of_pass}.sql")
]


@pytest.mark.parametrize(("name_of_pass", "case"), CASES)
def test_the_pass_makes_of_the_query_what_its_fixture_says(name_of_pass, case):
    assert outcome(name_of_pass, case.sql) == list(case.expected), (
        "If the change is meant, run python tests/golden/regenerate.py and read the difference."
    )


def test_every_pass_has_a_fixture_file():
    passes = {"bind", "check_ownership", "compile", *(step.__name__ for step in pipeline.PASSES)}
    assert {path.stem for path in FOLDER.glob("*.sql")} == passes == set(PASSES)


def test_no_fixture_names_a_case_twice():
    for name_of_pass in PASSES:
        titles = [case.title for case in read_cases(FOLDER / f"{name_of_pass}.sql")]
        assert len(titles) == len(set(titles))
