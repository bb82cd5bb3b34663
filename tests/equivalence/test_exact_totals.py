"""Where bounds do not bind, what enters the mechanisms is exactly what plain SQL says, over generated queries."""

from __future__ import annotations

import pytest
from generated_queries import SOURCES, draw_query
from plain_answers import Plain, measured_groups
from shop_data import CATALOG, plain_database, tables

import shoal
from shoal.release.execute import fresh_sampling_key, measure

QUERIES = 300
BATCH = 25


@pytest.fixture(scope="module")
def sides():
    data = tables()
    with shoal.connect(data, catalog=CATALOG) as session, plain_database(data) as plain:
        yield session, plain


class OnePath:
    """An engine that answers in memory where it can, or always by SQL."""

    def __init__(self, engine, *, by_sql: bool) -> None:
        self.totals = engine.measure_by_sql if by_sql else engine.totals


@pytest.mark.parametrize(
    "first", [pytest.param(n, marks=pytest.mark.slow if n >= 4 * BATCH else []) for n in range(0, QUERIES, BATCH)]
)
def test_totals_of_generated_queries_are_those_of_plain_sql(sides, first):
    session, plain = sides
    for seed in range(first, first + BATCH):
        query = draw_query(seed)
        select = session.plan(query.private).selects[0]
        measured = measure(select, OnePath(session._engine, by_sql=seed % 2 == 0), fresh_sampling_key())
        assert measured_groups(measured) == Plain(plain, query).groups(select, measured), (
            f"seed {seed}: {query.private}"
        )


def test_the_generated_queries_use_every_source():
    assert {draw_query(seed).source for seed in range(QUERIES)} == set(SOURCES)
