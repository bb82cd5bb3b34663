"""Plans are measured as what they stand for, shared parts counted as often as they are used and looked at once."""

import pytest

import shoal
from shoal.plan import nodes
from shoal.plan.expressions import Column, Literal
from shoal.plan.nodes import Field
from shoal.plan.types import BOOLEAN, INTEGER
from shoal.rewrite.check_limits import COMPUTED, MAX_DEPTH, Size
from shoal.sql.binding.context import MAX_RELATIONS
from shoal.sql.functions import resolve

ONE = nodes.Values(((1,),), (Field("a", "c1", INTEGER),))
OPTIONS = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1)"


@pytest.fixture(scope="module")
def session():
    with shoal.connect({"t": {"uid": [1], "a": [1]}}, catalog={"tables": {"t": {"owner": "uid"}}}) as opened:
        yield opened


def test_depth_counts_relations_inside_relations():
    node = ONE
    for _ in range(5):
        node = nodes.Filter(node, Literal(True, BOOLEAN))
    assert Size().depth(node) == 6


def test_shared_parts_weigh_each_time_and_are_looked_at_once(quickest):
    value = Column("c1", INTEGER)
    for _ in range(60):
        value = resolve("add", [value, value])
    assert Size().weight(value) > COMPUTED * 2**59
    assert quickest(lambda: Size().weight(value), below=1) < 1


def test_a_column_weighs_less_than_an_operator():
    column = Column("c1", INTEGER)
    assert Size().weight(column) == 1
    assert Size().weight(resolve("add", [column, column])) == COMPUTED + 2


def chain(levels):
    tables = ["a0 AS (SELECT uid FROM t)"] + [f"a{i} AS (SELECT uid FROM a{i - 1})" for i in range(1, levels)]
    return f"WITH {', '.join(tables)} {OPTIONS} COUNT(*) FROM a{levels - 1}"


def test_a_chain_of_tables_may_be_as_deep_as_the_limit_says(session):
    assert session.plan(chain(MAX_DEPTH // 2 - 1)).selects
    with pytest.raises(shoal.ShoalError, match="levels deep"):
        session.plan(chain(MAX_DEPTH))


def test_a_table_that_is_defined_and_not_used_costs_nothing(session):
    unused = ", ".join(f"b{i} AS (SELECT uid FROM t)" for i in range(MAX_RELATIONS))
    assert session.plan(f"WITH {unused} {OPTIONS} COUNT(*) FROM t").selects


def test_relations_are_counted_as_often_as_they_are_used(session):
    parts = " UNION ALL ".join(["SELECT uid FROM b"] * 90)
    wide = "b AS (SELECT uid FROM t WHERE uid IN (SELECT uid FROM t))"
    with pytest.raises(shoal.ShoalError, match="relations once WITH tables"):
        session.plan(f"WITH {wide} {OPTIONS} COUNT(*) FROM ({parts})")
