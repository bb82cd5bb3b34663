"""The total of a share has the limits of its groups."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

import shoal
from shoal.errors import InternalError
from shoal.plan.aggregates import CountRows, Sum
from shoal.plan.limits.sought import Limits
from shoal.rewrite.limits.open_limits import with_limits
from shoal.rewrite.limits.search import loss_of_select
from shoal.rewrite.limits.shared import found_total
from shoal.rewrite.pipeline import remembered_plan
from shoal.rewrite.verify.statement import verify

OWNERS, HEAVY, LIGHT = 300, 50, 2
TOTAL = "(SELECT COUNT(*) FROM t)"
BOTH = "WITH g AS (SELECT k, COUNT(*) AS n FROM t GROUP BY k), w AS (SELECT COUNT(*) AS n FROM t)"
SHARE = f"SELECT k, 100.0 * COUNT(*) / {TOTAL} AS s FROM t GROUP BY k"
JOINED = (
    "SELECT p.name, 100.0 * COUNT(*) / (SELECT COUNT(*) FROM t) AS s FROM t JOIN p ON p.item = t.item GROUP BY p.name"
)
PIECES = (
    SHARE,
    f"SELECT k, ROUND(COUNT(*) * 100.0 / NULLIF({TOTAL}, 0), 1) AS s FROM t GROUP BY k HAVING COUNT(*) > 3",
    f"SELECT k, COUNT(*) AS n, CAST(COUNT(*) AS DOUBLE) / {TOTAL} AS s FROM t GROUP BY k ORDER BY s DESC",
    f"{BOTH} SELECT g.k, 100.0 * g.n / w.n AS s FROM g CROSS JOIN w",
    "SELECT k, 100.0 * SUM(x) / (SELECT SUM(x) FROM t) AS s FROM t GROUP BY k",
    "SELECT k, 100.0 * COUNT(x) / (SELECT COUNT(x) FROM t WHERE x > 0) AS s FROM t WHERE x > 0 GROUP BY k",
    JOINED,
)
ALONE = (
    f"{BOTH} SELECT g.k, w.n AS w, 100.0 * g.n / w.n AS s FROM g CROSS JOIN w",
    f"SELECT k, COUNT(*) - {TOTAL} AS s FROM t GROUP BY k",
    f"SELECT k, 100.0 * COUNT(*) / {TOTAL} AS s FROM t WHERE x > 1 GROUP BY k",
    f"SELECT k, 100.0 * COUNT(x) / {TOTAL} AS s FROM t GROUP BY k",
    "SELECT k, 1.0 * SUM(x) / (SELECT SUM(y) FROM t) AS s FROM t GROUP BY k",
    f"SELECT 1.0 * COUNT(*) / {TOTAL} AS s FROM t WHERE x > 1",
    "SELECT k, 1.0 * COUNT(DISTINCT x) / (SELECT COUNT(DISTINCT x) FROM t) AS s FROM t GROUP BY k",
    "WITH w AS (SELECT COUNT(*) AS n FROM t) SELECT k, 1.0 * COUNT(*) / n AS s FROM t CROSS JOIN w GROUP BY k, n",
    JOINED.replace("JOIN p", "JOIN (SELECT * FROM p WHERE item = 0) p"),
)


def tables():
    """Two groups of three; one owner in five has many rows in each of its groups, the others have two."""
    rows = [
        (i, f"k{(i + j) % 3}", j, 1 + r % 2, 4)
        for i in range(OWNERS)
        for j in range(2)
        for r in range(HEAVY if i % 5 == 0 else LIGHT)
    ]
    rows += [(OWNERS + i, "k0", 99, 1, 4) for i in range(100) for _ in range(2)]
    names = ("uid", "k", "item", "x", "y")
    public = {"item": list(range(40)), "name": [f"p{i % 2}" for i in range(40)]}
    return {"t": dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)), "p": public}


def connected(defaults=None, columns=None):
    catalog = {
        "tables": {"t": {"owner": "uid", "columns": columns or {}}, "p": {"public": True}},
        "defaults": {"epsilon": 1.0, "delta": 1e-6, "population": 1000} | (defaults or {}),
    }
    return shoal.connect(tables(), catalog=catalog)


@pytest.fixture(scope="module")
def session():
    with connected() as opened:
        yield opened


def total_of(plan):
    (total,) = [select for select in plan.selects if select.total_of is not None]
    return total


@pytest.mark.parametrize("sql", PIECES)
def test_a_total_of_the_same_rows_seeks_no_limits_of_its_own(session, sql):
    plan = session.plan(sql)
    total = total_of(plan)
    groups = plan.selects[total.total_of.select]
    assert total.total_of.in_pieces
    assert isinstance(total.select.aggregates[0].aggregate, Sum)
    assert total.search.sought == ()
    assert {c.contribution.max_rows for c in total.search.choices} == {
        c.contribution.groups for c in groups.search.choices
    }
    assert loss_of_select(total).epsilon == total.select.options.epsilon


@pytest.mark.parametrize("sql", ALONE)
def test_what_is_not_the_total_of_these_groups_alone_keeps_its_limits(session, sql):
    assert all(select.total_of is None for select in session.plan(sql).selects)


def test_limits_that_are_named_are_kept():
    with connected() as session:
        clause = "WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6, max_groups_contributed = 2)"
        part = f"SELECT {clause} k, COUNT(*) AS n FROM t GROUP BY k"
        whole = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) COUNT(*) AS n FROM t"
        plan = session.plan(f"WITH g AS ({part}), w AS ({whole}) SELECT g.k, 1.0 * g.n / w.n AS s FROM g CROSS JOIN w")
        assert all(select.total_of is None for select in plan.selects)


def test_where_groups_are_listed_the_total_has_their_one_limit():
    with connected(columns={"k": {"values": ["k0", "k1", "k2"]}}) as session:
        total = total_of(session.plan(SHARE))
        assert not total.total_of.in_pieces
        assert isinstance(total.select.aggregates[0].aggregate, CountRows)
        summed = total_of(session.plan(PIECES[4]))
        assert not summed.total_of.in_pieces
        beside = total_of(session.plan(f"SELECT k, AVG(x) AS a, 1.0 * COUNT(*) / {TOTAL} AS s FROM t GROUP BY k"))
        assert not beside.total_of.in_pieces


@pytest.mark.parametrize("limit", [Fraction(1), Fraction(7), Fraction(512)])
@pytest.mark.parametrize("groups", [1, 3, 20])
def test_whatever_the_groups_find_the_total_has(session, limit, groups):
    plan = session.plan(SHARE)
    total = total_of(plan)
    asked = plan.selects[total.total_of.select]
    found = remembered_plan(with_limits(asked.select, Limits(groups, (limit,)), asked.search.epsilon))
    chosen = found_total(total, found, remembered_plan)
    (call,) = chosen.select.aggregates
    assert (chosen.contribution.max_rows, call.bounds.lower, call.bounds.upper) == (groups, 0, limit)
    (release,) = chosen.releases
    assert release.noise.shift.l1 == groups * limit


def test_limits_that_were_not_charged_for_are_replaced_and_nothing_is_refused(session):
    total = total_of(session.plan(SHARE))
    asked = session.plan(SHARE).selects[total.total_of.select]
    found = remembered_plan(with_limits(asked.select, Limits(4, (Fraction(2),)), asked.search.epsilon))

    def broken(_):
        raise InternalError("no plan")

    assert found_total(total, found, broken) in total.search.choices


def test_what_is_cut_is_cut_above_and_below_the_line():
    """With guessed limits 5 of 50 rows of a heavy owner count in each group: exactly as many in the total."""
    with connected({"epsilon": 70, "population": 1}) as session:
        plan = session.plan(SHARE)
        assert total_of(plan).search is None
        rows = session.query(SHARE).to_dicts()
        assert len(rows) == 3
        assert sum(row["s"] for row in rows) == pytest.approx(100, abs=0.5)


def test_rows_without_a_match_are_in_the_total():
    """A hundred owners have two rows each that no public row matches."""
    with connected({"epsilon": 70, "population": 1}) as session:
        plan = session.plan(JOINED)
        assert total_of(plan).search is None
        counted = 2 * sum(5 if i % 5 == 0 else LIGHT for i in range(OWNERS))
        rows = session.query(JOINED).to_dicts()
        assert sum(row["s"] for row in rows) == pytest.approx(100 * counted / (counted + 2 * 100), abs=1)


def test_shares_end_at_100_and_the_answer_says_what_the_total_has(session):
    result = session.query(SHARE)
    assert all(row["s_high"] <= 100 for row in result.intervals().to_dicts())
    assert any("the total, has the limits of its groups" in note for note in result.notes)
    assert "of private SELECT 2" in str(session.explain(SHARE))


def of(total, **changes):
    return replace(total, total_of=replace(total.total_of, **changes))


def searching(total, **changes):
    return replace(total, search=replace(total.search, **changes))


def fewer_rows(choice):
    return replace(choice, contribution=replace(choice.contribution, max_rows=1))


CHANGES = {
    "limits of itself": lambda _, total: of(total, select=0),
    "limits of nothing": lambda _, total: of(total, select=7),
    "another aggregate": lambda _, total: of(total, position=3),
    "a free search": lambda _, total: replace(total, total_of=None),
    "more ε": lambda _, total: searching(total, epsilon=2 * total.search.epsilon),
    "a search": lambda groups, total: searching(
        total, sought=groups.search.sought, histograms=groups.search.histograms
    ),
    "something else": lambda groups, total: searching(total, choices=groups.search.choices),
    "wrong limits": lambda _, total: searching(total, choices=tuple(map(fewer_rows, total.search.choices))),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
def test_verify_refuses_a_total_that_is_changed(session, change):
    plan = session.plan(SHARE)
    assert verify(plan, session._catalog) is plan
    total, groups = plan.selects
    changed = (change(groups, total), groups)
    with pytest.raises(InternalError):
        verify(replace(plan, selects=changed), session._catalog)
