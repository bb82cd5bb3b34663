"""Every pass of the road, query by query, against the text that stands in its fixture file."""

from __future__ import annotations

from pathlib import Path

import pytest
from golden_text import CATALOG, COLUMNS, PASSES, SIZES, outcome, read_cases

from shoal.accounting.ledger import Ledger
from shoal.errors import QUERY_CODES, ShoalError
from shoal.plan.types import Kind
from shoal.rewrite import pipeline
from shoal.session import Session

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


class ClosedEngine:
    """Tells names, types and sizes of public tables, and nothing else."""

    name = "closed"
    warnings = ()

    def tables(self):
        return {table: list(columns.items()) for table, columns in COLUMNS.items()}

    def row_counts(self, names):
        return {name: SIZES[name] for name in names}

    def refuse_fragile_view(self, _table):
        pass

    def repeats(self, _table, _columns):
        return {}

    def longest_texts(self, _table, columns):
        return {name: 20 for name, type_ in columns if type_.kind is Kind.TEXT}

    def totals(self, *_):
        raise AssertionError("data was read")

    fetch = add_view = totals

    def close(self):
        pass


@pytest.mark.parametrize(
    "name_of_pass", [pytest.param(name, marks=pytest.mark.slow if name == "bind" else []) for name in PASSES]
)
def test_explaining_any_query_of_the_fixtures_reads_no_data_and_spends_nothing(name_of_pass):
    session = Session(ClosedEngine(), CATALOG, Ledger.in_memory())
    cases = read_cases(FOLDER / f"{name_of_pass}.sql")
    answered = [case for case in cases if not _is_refused(session, case.sql)]
    assert len(answered) >= 5
    for case in answered:
        assert "".join(str(session.explain(case.sql)).split()) != ""
        assert len(session.query(f"EXPLAIN PRIVACY {case.sql}")) > 0
    assert session.spent == (0.0, 0.0)


def _is_refused(session: Session, sql: str) -> bool:
    try:
        session.plan(sql)
    except ShoalError as error:
        return error.code in QUERY_CODES
    return False
