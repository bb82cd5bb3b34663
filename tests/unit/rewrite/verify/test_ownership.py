"""Whose a row is, judged without the pass that carried the owner: private rows in places where they would mix."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shoal.errors import InternalError, ShoalError
from shoal.plan import nodes
from shoal.plan.expressions import Call, Column, ExistsRelation, Frame, Literal, Order, WindowCall
from shoal.plan.types import BOOLEAN, INTEGER
from shoal.rewrite.verify.statement import verify

CLAUSE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6, kappa = 1)"
TRUE = Literal(True, BOOLEAN)


def over(plan, change):
    """The plan of one SELECT that reads other rows."""
    select = plan.selects[0]
    return replace(plan, selects=(replace(select, select=replace(select.select, input=change(select.select.input))),))


def second(scan: nodes.Scan) -> nodes.Scan:
    """Another look at the same table."""
    fields = tuple(replace(f, symbol=f"second_{f.symbol}") for f in scan.fields)
    return replace(scan, fields=fields, owner=f"second_{scan.owner}")


def column(field: nodes.Field) -> Column:
    return Column(field.symbol, field.type)


def joined(scan, kind="inner", condition=TRUE, right=None):
    return nodes.Join(scan, second(scan) if right is None else right, kind, condition, scan.owner)


def same_site(scan):
    return Call("equal", (column(scan.fields[1]), column(second(scan).fields[1])), BOOLEAN)


def same_owner(scan):
    return Call("equal", (column(scan.fields[0]), column(second(scan).fields[0])), BOOLEAN)


def windowed(scan, partition=(), order=(), frame=None, function="count"):
    value = WindowCall(function, (), partition, order, frame, INTEGER)
    copies = tuple((f, column(f)) for f in scan.fields)
    return nodes.Project(scan, (*copies, (nodes.Field("w", "w", INTEGER), value)), scan.owner)


def owner_of(scan):
    return (column(scan.fields[0]),)


def in_order(scan, without=0):
    return tuple(Order(column(f)) for f in scan.fields[: len(scan.fields) - without])


def numbered(scan):
    return windowed(scan, owner_of(scan), in_order(scan), function="row_number")


def windowed_twice(scan, *, last):
    order = in_order(scan, without=0 if last else 1)
    copies = tuple((f, column(f)) for f in scan.fields[:-1])
    calls = (WindowCall("count", (), owner_of(scan), o, ROWS, INTEGER) for o in (order, (order[1], *order)))
    made = zip((nodes.Field(name, name, INTEGER) for name in ("first", "second")), calls, strict=True)
    return nodes.Project(scan, (*copies, *made), scan.owner)


ROWS = Frame("ROWS", (None, "PRECEDING"), (None, "CURRENT ROW"))
EMPTY = nodes.Values((), (nodes.Field("x", "x", INTEGER),))
REFUSED = {
    "a frame with ties": lambda scan: windowed(scan, owner_of(scan), in_order(scan, without=1), ROWS),
    "places with ties": lambda scan: windowed(scan, owner_of(scan), in_order(scan, without=1), function="row_number"),
    "two frames that disagree": lambda scan: windowed_twice(numbered(scan), last=False),
    "limit": lambda scan: nodes.Sort(scan, (), 5, 0, scan.owner),
    "offset": lambda scan: nodes.Sort(scan, (), None, 5, scan.owner),
    "nobody's rows": lambda scan: nodes.Values((), scan.fields),
    "a join of everybody with everybody": joined,
    "a join on something else": lambda scan: joined(scan, condition=same_site(scan)),
    "a join on the owner or something else": lambda scan: joined(
        scan, condition=Call("or", (same_owner(scan), same_site(scan)), BOOLEAN)
    ),
    "a full join without its owner": lambda scan: joined(scan, "full", same_owner(scan)),
    "a public side that is kept": lambda scan: joined(scan, "right", right=EMPTY),
    "a semi join with everybody": lambda scan: joined(scan, "semi"),
    "an anti join with everybody": lambda scan: joined(scan, "anti"),
    "a union with public rows": lambda scan: nodes.SetOperation(
        scan, nodes.Values((), second(scan).fields), "union_all", scan.fields, scan.owner
    ),
    "one row for all owners": lambda scan: nodes.Aggregate(scan, ((scan.fields[1], column(scan.fields[1])),), (), None),
    "a forged owner": lambda scan: nodes.Project(
        scan, ((scan.fields[0], Literal(7, INTEGER)), *((f, column(f)) for f in scan.fields[1:])), scan.owner
    ),
    "a window over everybody": windowed,
    "a window over a site": lambda scan: windowed(scan, (column(scan.fields[1]),)),
    "a window over stored order": lambda scan: windowed(scan, owner_of(scan), frame=ROWS),
    "a place in stored order": lambda scan: windowed(scan, owner_of(scan), function="row_number"),
    "a window in a condition": lambda scan: nodes.Filter(
        scan, WindowCall("bool_and", (), owner_of(scan), (), None, BOOLEAN), scan.owner
    ),
    "a subquery over everybody": lambda scan: nodes.Filter(scan, ExistsRelation(second(scan)), scan.owner),
}


@pytest.fixture(scope="module")
def plan(quiet_shop):
    return quiet_shop.plan(
        f"{CLAUSE} site, COUNT(*, contribution_bounds_per_group => (0, 4)) FROM visits GROUP BY site"
    )


@pytest.mark.parametrize("name", REFUSED)
def test_rows_that_mix_owners_are_refused(quiet_shop, plan, name):
    with pytest.raises(InternalError):
        verify(over(plan, REFUSED[name]), quiet_shop._catalog)


ACCEPTED = {
    "as it is": lambda scan: scan,
    "an order that chooses nothing": lambda scan: nodes.Sort(
        scan, (Order(column(scan.fields[1])),), None, 0, scan.owner
    ),
    "a join on the owner": lambda scan: joined(scan, condition=same_owner(scan)),
    "a join on the owner, in WHERE": lambda scan: nodes.Filter(joined(scan), same_owner(scan), scan.owner),
    "a join with public rows": lambda scan: joined(scan, "left", right=EMPTY),
    "a semi join on the owner": lambda scan: joined(scan, "semi", same_owner(scan)),
    "a window over an owner": lambda scan: windowed(scan, owner_of(scan)),
    "a frame in an order": lambda scan: windowed(scan, owner_of(scan), in_order(scan), ROWS),
    "two frames that agree": lambda scan: windowed_twice(numbered(scan), last=True),
    "a public subquery": lambda scan: nodes.Filter(scan, ExistsRelation(EMPTY), scan.owner),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_rows_of_single_owners_are_accepted(quiet_shop, plan, name):
    verify(over(plan, ACCEPTED[name]), quiet_shop._catalog)


def test_a_bare_owner_is_no_group_key(quiet_shop, plan):
    select = plan.selects[0]
    uid = select.select.input.fields[0]
    keys = ((select.select.keys[0][0], column(uid)),)
    with pytest.raises(InternalError):
        verify(replace(plan, selects=(replace(select, select=replace(select.select, keys=keys)),)), quiet_shop._catalog)


@pytest.mark.parametrize("written", ["year(day)", "date_trunc('month', day)", "year(day) + 1"])
def test_no_raw_column_is_shown_beside_a_release(open_shop, shop_tables, written):
    """Columns that are called like a part of a date were once taken for one, and read above the release."""
    days = shop_tables["customers"].select(["uid", "region", "born"]).rename_columns(["uid", "region", "day"])
    session = open_shop({"tables": {"days": {"owner": "uid"}}}, {"days": days})
    with pytest.raises((InternalError, ShoalError)):
        session.plan(f"{CLAUSE} region, {written}, COUNT(*) FROM days GROUP BY region")
