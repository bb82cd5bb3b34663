"""Types, expressions, nodes and trees: plans as data that check themselves."""

from __future__ import annotations

import dataclasses
from contextlib import suppress
from fractions import Fraction

import pytest

from shoal.errors import InternalError, ShoalError
from shoal.plan import nodes
from shoal.plan.expressions import (
    CHOOSING,
    COMPARING,
    Call,
    Case,
    Cast,
    Column,
    ExistsRelation,
    InRelation,
    Literal,
    Order,
    ScalarRelation,
    WindowCall,
    children,
    columns_of,
    transform,
    walk,
)
from shoal.plan.nodes import Field
from shoal.plan.releases import Contribution
from shoal.plan.traverse import all_nodes, expressions_of, is_owned, rebuilt
from shoal.plan.types import (
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    NULL,
    TEXT,
    TIMESTAMP,
    Kind,
    Type,
    common_type,
    decimal,
)
from shoal.sql.functions import FUNCTIONS

A, B, C = (Column(name, INTEGER) for name in "abc")
P = Column("p", BOOLEAN)
MIXED = nodes.Scan(
    "mixed", (Field("a", "a", INTEGER), Field("d", "d", DATE), Field("t", "t", TIMESTAMP)), ("a", "d", "t")
)
PUBLIC = nodes.Scan("regions", (Field("r", "r", TEXT),), ("r",))
PRIVATE = nodes.Scan("visits", (Field("uid", "u", INTEGER), Field("x", "x", DOUBLE)), ("uid", "x"), "u", "uid")
CHECKED = nodes.Project(PRIVATE, ((Field("b", "b", BOOLEAN), Call("equal", (Column("u", INTEGER), A), BOOLEAN)),), "b")


# ---- types ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("types", "common"),
    [
        ([INTEGER, DOUBLE], DOUBLE),
        ([INTEGER, NULL], INTEGER),
        ([NULL, NULL], NULL),
        ([INTEGER, decimal(10, 2)], decimal(21, 2)),
        ([decimal(10, 2), decimal(12, 4)], decimal(12, 4)),
        ([decimal(38, 0), decimal(38, 38)], DOUBLE),
        ([DATE, TIMESTAMP], TIMESTAMP),
        ([TEXT, INTEGER], None),
        ([BOOLEAN, INTEGER], None),
        ([Type(Kind.UNSUPPORTED), INTEGER], None),
        ([dataclasses.replace(INTEGER, storage="INTEGER"), dataclasses.replace(INTEGER, storage="BIGINT")], INTEGER),
        ([dataclasses.replace(INTEGER, storage="INTEGER")] * 2, dataclasses.replace(INTEGER, storage="INTEGER")),
    ],
)
def test_values_come_to_one_type_without_surprise_or_not_at_all(types, common):
    assert common_type(types) == common
    assert common_type(types[::-1]) == common


def test_a_type_says_its_name_and_forgets_its_storage():
    assert str(decimal(10, 2)) == "decimal(10, 2)"
    assert str(dataclasses.replace(INTEGER, storage="TINYINT").plain()) == "integer"
    assert decimal(3, 1).is_numeric
    assert DATE.is_temporal
    assert not TEXT.is_numeric


# ---- expressions ---------------------------------------------------------------------------------------------------


def test_walking_sees_every_part_of_an_expression_once():
    window = WindowCall("sum", (A,), (B,), (Order(C),), None, INTEGER)
    parts = [window, A, B, C]
    assert set(walk(window)) == set(parts)
    assert columns_of(Case(((Call("less", (A, B), BOOLEAN), C),), Cast(A, INTEGER), INTEGER)) == {"a", "b", "c"}
    assert children(Literal(1, INTEGER)) == ()


def test_a_transformation_reaches_columns_everywhere_and_changes_nothing_else():
    whole = Case(
        ((Call("less", (A, B), BOOLEAN), Cast(C, DOUBLE)),),
        Cast(WindowCall("lag", (A,), (B,), (Order(C),), None, INTEGER), DOUBLE),
        DOUBLE,
    )
    changed = transform(whole, lambda part: B if part in {A, C} else part)
    assert columns_of(changed) == {"b"}
    assert transform(whole, lambda part: part) == whole


def test_places_in_the_sql_do_not_make_expressions_different():
    assert Column("a", INTEGER, (1, 2)) == Column("a", INTEGER, (3, 4))
    assert hash(Call("add", (A, B), INTEGER, (1, 2))) == hash(Call("add", (A, B), INTEGER))


def test_plans_are_frozen():
    for thing, field in (
        (A, "symbol"),
        (PUBLIC, "table"),
        (nodes.Filter(PUBLIC, P), "input"),
        (Contribution(grouped=True), "max_groups"),
    ):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(thing, field, 7)


# ---- nodes ---------------------------------------------------------------------------------------------------------


def test_nodes_know_their_fields():
    joined = nodes.Join(PRIVATE, PUBLIC, "inner", P)
    assert [f.symbol for f in joined.fields] == ["u", "x", "r"]
    assert [f.symbol for f in nodes.Join(PRIVATE, PUBLIC, "semi", P).fields] == ["u", "x"]
    assert nodes.field_of(joined, "r").type == TEXT
    with pytest.raises(InternalError):
        nodes.field_of(joined, "nowhere")


@pytest.mark.parametrize(
    "build",
    [
        lambda: nodes.Join(PRIVATE, PUBLIC, "sideways", P),
        lambda: nodes.SetOperation(PUBLIC, PUBLIC, "minus", PUBLIC.fields),
        lambda: nodes.SetOperation(PUBLIC, PRIVATE, "union", PUBLIC.fields),
    ],
)
def test_plans_that_mean_nothing_cannot_be_built(build):
    with pytest.raises(InternalError):
        build()


X, D, T, S = Column("x", DOUBLE), Column("d", DATE), Column("t", TIMESTAMP), Column("s", TEXT)
DAYS, TIMES = (nodes.Project(MIXED, ((Field(c.symbol, f"{c.symbol}_", c.type), c),)) for c in (D, T))
TWO_TYPES = {
    **{name: (lambda name=name: Call(name, (A, X), BOOLEAN)) for name in sorted(COMPARING - {"between", "in"})},
    "between": lambda: Call("between", (D, T, T), BOOLEAN),
    "in": lambda: Call("in", (A, B, Literal(Fraction(1, 2), decimal(38, 37))), BOOLEAN),
    **{name: (lambda name=name: Call(name, (A, X), DOUBLE)) for name in sorted(CHOOSING)},
    "a choice of another type": lambda: Call("coalesce", (A, B), DOUBLE),
    "two decimals": lambda: Call("equal", (Column("m", decimal(9, 2)), Column("n", decimal(9, 3))), BOOLEAN),
    "and": lambda: Call("and", (P, A), BOOLEAN),
    "not": lambda: Call("not", (A,), BOOLEAN),
    "values of CASE": lambda: Case(((P, A),), X, DOUBLE),
    "the whole of CASE": lambda: Case(((P, A),), B, DOUBLE),
    "a condition of CASE": lambda: Case(((A, A),), B, INTEGER),
    "a date in timestamps": lambda: InRelation(D, TIMES),
    "a timestamp in dates": lambda: InRelation(T, DAYS),
    "several columns": lambda: InRelation(D, MIXED),
    "a value that is a relation": lambda: ScalarRelation(DAYS, TIMESTAMP),
    "the default of LAG": lambda: WindowCall("lag", (A, Literal(1, INTEGER), X), (B,), (Order(C),), None, INTEGER),
    "a filter": lambda: nodes.Filter(MIXED, A),
    "a join": lambda: nodes.Join(MIXED, MIXED, "inner", A),
    "a column": lambda: nodes.Project(MIXED, ((Field("y", "y", TIMESTAMP), D),)),
    "a group key": lambda: nodes.Aggregate(MIXED, ((Field("y", "y", TIMESTAMP), D),), ()),
    "an aggregate": lambda: nodes.Aggregate(
        MIXED, (), ((Field("y", "y", DOUBLE), nodes.RowAggregate("sum", (A,), INTEGER)),)
    ),
    "the filter of an aggregate": lambda: nodes.RowAggregate("sum", (A,), INTEGER, filter=A),
    **{
        kind: (lambda kind=kind: nodes.SetOperation(DAYS, TIMES, kind, (Field("y", "y", TIMESTAMP),)))
        for kind in ("union", "union_all", "intersect", "except")
    },
}


@pytest.mark.parametrize("build", TWO_TYPES.values(), ids=TWO_TYPES.keys())
def test_values_of_two_types_never_meet(build):
    with pytest.raises(InternalError):
        build()


def test_every_function_that_unites_its_arguments_is_known_to_compare_or_to_choose():
    """What binds `f(1, 1.5)` to two doubles has brought its arguments to one type, and must be held to it."""
    uniting = set()
    for function in FUNCTIONS.values():
        with suppress(ShoalError):
            bound = function.bind(function, (A, Column("m", decimal(9, 2))), None)
            if isinstance(bound, Call) and {a.type for a in bound.arguments} == {decimal(21, 2)}:
                uniting.add(bound.function)
    assert uniting | {"between"} == COMPARING | CHOOSING


@pytest.mark.parametrize("inside", [InRelation(P, CHECKED), ExistsRelation(PRIVATE), ScalarRelation(CHECKED, BOOLEAN)])
def test_private_rows_inside_an_expression_make_the_whole_private(inside):
    holders = [
        nodes.Filter(PUBLIC, inside),
        nodes.Project(PUBLIC, ((Field("y", "y", BOOLEAN), Call("not", (inside,), BOOLEAN)),)),
        nodes.Join(PUBLIC, PUBLIC, "inner", inside),
        nodes.Aggregate(PUBLIC, ((Field("k", "k", BOOLEAN), inside),), ()),
        nodes.Aggregate(PUBLIC, (), ((Field("n", "n", INTEGER), nodes.RowAggregate("sum", (inside,), INTEGER)),)),
        nodes.Aggregate(
            PUBLIC, (), ((Field("n", "n", INTEGER), nodes.RowAggregate("sum", (A,), INTEGER, filter=inside)),)
        ),
        nodes.Sort(PUBLIC, (Order(inside),)),
    ]
    for node in holders:
        assert is_owned(node), node
        assert PRIVATE in all_nodes(node)
    assert not is_owned(PUBLIC)


@pytest.mark.parametrize("inside", [InRelation(P, CHECKED), ExistsRelation(PRIVATE), ScalarRelation(CHECKED, BOOLEAN)])
def test_rebuilding_a_tree_reaches_relations_inside_all_expressions(inside):
    """What replaces released rows by stored ones must miss no place where a relation can stand."""

    def hidden(node):
        return PUBLIC if node is PRIVATE else rebuilt(node, hidden)

    field = Field("y", "y", BOOLEAN)
    one = nodes.Project(PRIVATE, ((field, inside),))
    for node in (
        nodes.Filter(PRIVATE, inside),
        one,
        nodes.Join(PRIVATE, PRIVATE, "inner", inside),
        nodes.SetOperation(one, one, "union", (field,)),
        nodes.Aggregate(
            PRIVATE, ((field, inside),), ((field, nodes.RowAggregate("bool_or", (inside,), BOOLEAN, filter=inside)),)
        ),
        nodes.Distinct(PRIVATE),
        nodes.Sort(PRIVATE, (Order(inside),)),
    ):
        assert not is_owned(rebuilt(node, hidden)), node
        assert len(expressions_of(node)) == len(expressions_of(rebuilt(node, hidden)))


def test_an_owner_shows_in_one_group_without_keys_and_in_as_many_as_allowed_with_them():
    assert Contribution(grouped=False, max_groups=9).groups == 1
    assert Contribution(grouped=True, max_groups=9).groups == 9
    assert Contribution(grouped=True, max_groups=9, max_rows=4).groups == 4


def test_a_constant_has_one_zero():
    """Equal expressions share one draw, so they are written and remembered alike: 0.0 == -0.0, and the engine tells them apart."""
    assert str(Literal(-0.0, DOUBLE).value) == str(Literal(0.0, DOUBLE).value) == "0.0"
    assert Literal(-1.5, DOUBLE).value == -1.5
    assert Literal(False, BOOLEAN).value is False
    assert Literal(0, INTEGER).value.__class__ is int
