"""Types, expressions, nodes and trees: plans as data that check themselves."""

from __future__ import annotations

import dataclasses

import pytest

from shoal.errors import InternalError
from shoal.plan import nodes
from shoal.plan.expressions import (
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

A, B, C = (Column(name, INTEGER) for name in "abc")
PUBLIC = nodes.Scan("regions", (Field("r", "r", TEXT),), ("r",))
PRIVATE = nodes.Scan("visits", (Field("uid", "u", INTEGER), Field("x", "x", DOUBLE)), ("uid", "x"), "u", "uid")


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
    assert columns_of(Case(((Call("less", (A, B), BOOLEAN), C),), Cast(A, DOUBLE), INTEGER)) == {"a", "b", "c"}
    assert children(Literal(1, INTEGER)) == ()


def test_a_transformation_reaches_columns_everywhere_and_changes_nothing_else():
    whole = Case(
        ((Call("less", (A, B), BOOLEAN), Cast(C, DOUBLE)),),
        WindowCall("lag", (A,), (B,), (Order(C),), None, INTEGER),
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
        (nodes.Filter(PUBLIC, A), "input"),
        (Contribution(grouped=True), "max_groups"),
    ):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(thing, field, 7)


# ---- nodes ---------------------------------------------------------------------------------------------------------


def test_nodes_know_their_fields():
    joined = nodes.Join(PRIVATE, PUBLIC, "inner", A)
    assert [f.symbol for f in joined.fields] == ["u", "x", "r"]
    assert [f.symbol for f in nodes.Join(PRIVATE, PUBLIC, "semi", A).fields] == ["u", "x"]
    assert nodes.field_of(joined, "r").type == TEXT
    with pytest.raises(InternalError):
        nodes.field_of(joined, "nowhere")


@pytest.mark.parametrize(
    "build",
    [
        lambda: nodes.Join(PRIVATE, PUBLIC, "sideways", A),
        lambda: nodes.SetOperation(PUBLIC, PUBLIC, "minus", PUBLIC.fields),
        lambda: nodes.SetOperation(PUBLIC, PRIVATE, "union", PUBLIC.fields),
    ],
)
def test_plans_that_mean_nothing_cannot_be_built(build):
    with pytest.raises(InternalError):
        build()


@pytest.mark.parametrize("inside", [InRelation(A, PRIVATE), ExistsRelation(PRIVATE), ScalarRelation(PRIVATE, INTEGER)])
def test_private_rows_inside_an_expression_make_the_whole_private(inside):
    holders = [
        nodes.Filter(PUBLIC, inside),
        nodes.Project(PUBLIC, ((Field("y", "y", INTEGER), Call("not", (inside,), BOOLEAN)),)),
        nodes.Join(PUBLIC, PUBLIC, "inner", inside),
        nodes.Aggregate(PUBLIC, ((Field("k", "k", INTEGER), inside),), ()),
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


@pytest.mark.parametrize("inside", [InRelation(A, PRIVATE), ExistsRelation(PRIVATE), ScalarRelation(PRIVATE, INTEGER)])
def test_rebuilding_a_tree_reaches_relations_inside_all_expressions(inside):
    """What replaces released rows by stored ones must miss no place where a relation can stand."""

    def hidden(node):
        return PUBLIC if node is PRIVATE else rebuilt(node, hidden)

    field = Field("y", "y", INTEGER)
    one = nodes.Project(PRIVATE, ((field, inside),))
    for node in (
        nodes.Filter(PRIVATE, inside),
        one,
        nodes.Join(PRIVATE, PRIVATE, "inner", inside),
        nodes.SetOperation(one, one, "union", (field,)),
        nodes.Aggregate(
            PRIVATE, ((field, inside),), ((field, nodes.RowAggregate("sum", (inside,), INTEGER, filter=inside)),)
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
