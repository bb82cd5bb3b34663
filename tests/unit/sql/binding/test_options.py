"""The table of options: what is written on the page, and what a row alone decides."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from shoal.plan.releases import Options
from shoal.sql.binding.options import OPTIONS, known_names, option_table, options_of

PAGE = Path(__file__).parents[4] / "docs" / "reference" / "sql" / "options.md"


def test_the_page_has_the_table_of_options():
    assert option_table() in PAGE.read_text(encoding="utf-8")


def test_every_field_of_a_private_select_has_its_option_in_the_usual_clause():
    filled = {option.field for option in options_of("DIFFERENTIAL_PRIVACY")} - {None}
    assert filled == {field.name for field in fields(Options)} - {
        "clause",
        "find_limits",
    }  # what the clause is, and what follows from limits left out


@pytest.mark.parametrize("clause", ["DIFFERENTIAL_PRIVACY", "ANONYMIZATION"])
def test_no_clause_has_two_options_of_one_name_or_one_field(clause: str):
    names, filled = known_names(clause), [option.field for option in options_of(clause)]
    assert len(set(names)) == len(names)
    assert len(set(filled)) == len(filled)


def test_an_option_that_is_left_out_gets_what_the_plain_statement_gets():
    """`Options` has defaults of its own, for SQL without a clause: they are the table's."""
    of_fields = {field.name: field.default for field in fields(Options)}
    for option in OPTIONS:
        if option.field is not None and "catalog" not in option.left_out:
            assert option.default(None) == of_fields[option.field]
