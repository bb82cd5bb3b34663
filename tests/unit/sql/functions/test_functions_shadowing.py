"""Macros named like built-ins and operators change nothing: everything looked up by name is named in full."""

from __future__ import annotations

import re

import duckdb
import pytest
from function_forms import compiled
from sqlglot import exp
from test_functions_total import calls_of, grid, nasty_tables, outcome

from shoal.plan.types import DOUBLE, INTEGER, TEXT, decimal
from shoal.sql import functions

BUILT_IN = re.compile(r'system\.main\.(?:"([^"]+)"|(\w+))', re.IGNORECASE)


@pytest.fixture(scope="module")
def hijacked():
    """An engine where every scalar and aggregate built-in has a macro of its name, of one to four arguments."""
    with duckdb.connect() as con:
        nasty_tables(con)
        names = con.sql("SELECT DISTINCT function_name FROM duckdb_functions() WHERE schema_name = 'main'").fetchall()
        for (name,) in names:
            if name in {"row_number", "md5", "unnest"}:  # the test itself needs them
                continue
            overloads = ", ".join(f"({', '.join('abcd'[:count])}) AS 'hijacked'" for count in range(1, 5))
            try:
                con.execute(f'CREATE MACRO main."{name}" {overloads}')
            except duckdb.Error:
                continue
        assert con.sql("SELECT 1 + 2, lower('A'), sum(x), 'a' LIKE 'b' FROM (VALUES (1)) AS t(x)").fetchall() == [
            ("hijacked",) * 4
        ]
        yield con


@pytest.fixture(scope="module")
def honest():
    with duckdb.connect() as con:
        nasty_tables(con)
        yield con


@pytest.mark.parametrize("name", sorted(set(functions.FUNCTIONS) - {"interval"}))
def test_a_function_gives_the_same_where_everything_is_hijacked(hijacked, honest, name):
    for bound in calls_of(name)[::20]:
        assert outcome(hijacked, bound, grid(bound)) == outcome(honest, bound, grid(bound)), bound


@pytest.mark.parametrize("type_", [INTEGER, DOUBLE, TEXT, decimal(12, 2)])
def test_scans_keys_and_canonical_integers_give_the_same_where_everything_is_hijacked(hijacked, honest, type_):
    scanned = functions.scan_form(exp.column("c"), type_)
    forms = [scanned, functions.key_form(scanned, type_), functions.canonical_integer(scanned, type_)]
    items = ", ".join(form.sql("duckdb") for form in forms)
    query = f"SELECT {items} FROM (SELECT CAST('7' AS {functions.engine_type(type_)}) AS c)"
    assert hijacked.sql(query).fetchall() == honest.sql(query).fetchall()


@pytest.mark.parametrize("name", sorted(functions.OWNER_AGGREGATES))
def test_an_aggregate_gives_the_same_where_everything_is_hijacked(hijacked, honest, name):
    condition = name in {"bool_and", "bool_or", "count_if"}
    symbol = "c > 1" if condition else "c"
    type_ = functions.type_named("BOOLEAN") if condition else INTEGER
    assert type_ is not None
    form = functions.owner_aggregate_form(name, [exp.column("x")], [type_]).sql("duckdb")
    query = f"SELECT {form} FROM (SELECT {symbol} AS x FROM (VALUES (1::BIGINT), (2), (7)) AS t(c))"
    assert hijacked.sql(query).fetchall() == honest.sql(query).fetchall()


def test_no_operator_is_written_as_one():
    """Arithmetic, || and LIKE are looked up by name in the engine; comparisons and logic are not."""
    for name in sorted(set(functions.FUNCTIONS) - {"interval"}):
        for bound in calls_of(name)[:10]:
            tree = compiled(bound)
            for kind in (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.DPipe, exp.Like, exp.ILike, exp.Interval):
                assert tree.find(kind) is None, bound


def test_no_macro_is_called_for_what_it_calls_could_be_redefined(honest):
    query = "SELECT function_name FROM duckdb_functions() WHERE database_name = 'system' AND function_type != 'macro'"
    known = {name for (name,) in honest.sql(query).fetchall()}
    for name in sorted(set(functions.FUNCTIONS) - {"interval"}):
        for bound in calls_of(name)[:10]:
            for call in compiled(bound).find_all(exp.Anonymous):
                found = BUILT_IN.fullmatch(call.this)
                assert found is not None, call.this
                assert (found[1] or found[2]) in known, call.this
