"""An average whose two sums select groups: what is charged, who is counted, and what found bounds do to the threshold."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import shoal
from shoal.accounting.accountants import plan_loss
from shoal.accounting.events import WholeSelection
from shoal.audit.suite.sampled_query import copied
from shoal.mechanisms import calibrate, group_selection
from shoal.mechanisms.entropy import seeded_entropy
from shoal.mechanisms.tails import laplace_pair_tail
from shoal.params import Bounds
from shoal.plan.releases import Inferred
from shoal.release.execute import fresh_sampling_key, measure, release
from shoal.release.noisy import owners_that_select
from shoal.release.resolve_bounds import resolved_releases, selection_under

CLAUSE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS"
UNKNOWN = "epsilon = 1, delta = 1e-6, max_groups_contributed = 2"
GIVEN = "AVG(x, contribution_bounds_per_group => (-2, 9)) AS mean"
FOUND = "AVG(x) AS mean"
CATALOG = shoal.Catalog.from_dict({"tables": {"t": {"owner": "uid"}}})


def table(values, keys=None) -> dict[str, pa.Table]:
    places = keys or ["a"] * len(values)
    columns = {"uid": pa.array(range(len(values)), pa.int64()), "x": pa.array(values, pa.float64())}
    return {"t": pa.table(columns | {"k": pa.array(places, pa.string())})}


def planned(items: str, options: str = UNKNOWN, values=(1.0,), keys=None):
    with shoal.connect(table(values, keys), catalog=CATALOG) as session:
        return session.plan(f"{CLAUSE}({options}) k, {items} FROM t GROUP BY k").selects[0]


def measured(items: str, values, keys=None, found=None, options: str = UNKNOWN):
    with shoal.connect(table(values, keys), catalog=CATALOG) as session:
        plan = session.plan(f"{CLAUSE}({options}) k, {items} FROM t GROUP BY k").selects[0]
        entropy = seeded_entropy(1)
        return plan, measure(plan, session._engine, fresh_sampling_key(entropy), entropy, found)


@pytest.mark.parametrize(("items", "share"), [(GIVEN, 1), (FOUND, Fraction(3, 4))])
def test_the_two_sums_have_all_of_epsilon_but_what_finds_their_bounds(items, share):
    plan = planned(items)
    assert [r.measure.origin for r in plan.releases] == ["lower", "upper"]
    assert isinstance(plan.selection, WholeSelection)
    whole = plan.releases[0].noise
    assert plan.releases[1].noise == whole == plan.selection.noise
    assert plan.events.count(whole) == 1
    assert float(whole.epsilon) == pytest.approx(float(share), rel=1e-6)
    loss = plan_loss(plan.events)
    assert 0.999 < loss.epsilon <= 1
    assert loss.delta <= Fraction(1, 10**6)


@pytest.mark.parametrize(
    ("items", "options"),
    [
        (f"{FOUND}, COUNT(*) AS n", UNKNOWN),
        (f"{FOUND}, COUNT(DISTINCT uid) AS n", UNKNOWN),
        (f"{FOUND}, AVG(x + 1) AS other", UNKNOWN),
        (FOUND, f"{UNKNOWN}, inferred_bounds = PER_GROUP"),
        (FOUND, f"{UNKNOWN}, group_selection_strategy = OPTIMAL"),
        (FOUND, f"{UNKNOWN}, group_selection_epsilon = 0.5"),
        (FOUND, f"{UNKNOWN}, noise = GAUSSIAN"),
        ("AVG(x, epsilon => 0.3) AS mean", UNKNOWN),
        ("AVG_ROWS(x, max_contributions_per_group => 2) AS mean", UNKNOWN),
    ],
    ids=["rows", "owners", "other values", "own bounds", "rule", "selection's ε", "Gaussian", "own ε", "rows averaged"],
)
def test_where_groups_without_values_have_something_to_show_or_it_is_not_asked_for_groups_are_selected_apart(
    items, options
):
    assert not isinstance(planned(items, options).selection, WholeSelection)


def test_other_numbers_of_the_same_values_go_along():
    plan = planned(f"{FOUND}, STDDEV(x) AS spread")
    assert isinstance(plan.selection, WholeSelection)
    assert 0.999 < plan_loss(plan.events).epsilon <= 1


@pytest.mark.parametrize("width", [Fraction(1, 1024), 1, 3, 1000, 2**30])
@pytest.mark.parametrize("lower", [-5, 0, 7])
def test_whatever_bounds_are_found_the_threshold_keeps_delta_and_the_noise_keeps_epsilon(lower, width):
    """Both follow the found width; the threshold is the lowest that the tail of two noises allows."""
    plan = planned(FOUND)
    bounds = Bounds(Fraction(lower), Fraction(lower) + width)
    (task, noise, _), (_, other, _) = resolved_releases(plan, (bounds,))
    selection = selection_under(plan, [noise, other])
    whole = task.steps.upper - task.steps.lower
    assert noise == other == selection.noise
    assert selection.whole == noise.shift.per_coordinate == whole
    assert noise.shift.l1 / noise.scale <= plan.releases[0].noise.epsilon
    chance = calibrate.delta_per_group(plan.selection.delta, 2)
    point = selection.threshold - whole
    assert laplace_pair_tail(noise.scale, point).upper <= chance < laplace_pair_tail(noise.scale, point - 1).upper
    assert group_selection.half_point(selection) == group_selection.half_point(plan.selection)


def test_one_owner_moves_both_sums_by_the_found_width_together():
    bounds = (Bounds(Fraction(0), Fraction(8)),)
    for value in (-50.0, 0.0, 1.234567, 8.0, 1e30):
        plan, before = measured(FOUND, [1.0, 3.0], found=bounds)
        _, after = measured(FOUND, [1.0, 3.0, value], found=bounds)
        lower, upper = (
            int(after.measurement.totals[i][0] - before.measurement.totals[i][0]) for i in plan.parts_that_select()
        )
        assert lower >= 0 >= upper
        assert lower - upper == after.noises[0].shift.per_coordinate


@pytest.mark.parametrize("items", [GIVEN, FOUND])
def test_owners_without_a_value_do_not_count_towards_the_threshold(items):
    found = (Bounds(Fraction(0), Fraction(8)),) if items == FOUND else None
    plan, exact = measured(items, [1.0, None, 2.0, None, None], list("aaabb"), found)
    keys = exact.measurement.keys.column(0).to_pylist()
    counted = dict(zip(keys, owners_that_select(plan, exact).tolist(), strict=True))
    assert counted == {"a": 2, "b": 0}
    assert dict(zip(keys, exact.measurement.owners.tolist(), strict=True)) == {"a": 3, "b": 2}


def test_groups_are_shown_as_often_as_the_tail_says_and_never_below_the_threshold():
    """4,000 decisions about a group of 38 owners with a value: 6 standard deviations happen once in 10⁸ runs."""
    plan, exact = measured(FOUND, [1.0] * 38 + [None] * 40, found=(Bounds(Fraction(0), Fraction(8)),))
    selection = selection_under(plan, exact.noises)
    chance = group_selection.keep_probability(selection, 38)
    assert 0.1 < chance < 0.9
    lower, upper = release(plan, copied(exact, 4000), seeded_entropy(5)).readings[0]
    sums = np.asarray(lower.values) - np.asarray(upper.values)
    assert all(total >= selection.threshold for total in sums)
    assert abs(len(sums) / 4000 - chance) < 6 * np.sqrt(chance * (1 - chance) / 4000)


def test_without_bounds_groups_appear_all_the_same_and_the_average_is_null():
    plan, exact = measured(FOUND, [1.0] * 400, found=(None,))
    assert isinstance(plan.releases[0].bounds, Inferred)
    shown = release(plan, exact, seeded_entropy(1)).table.to_pylist()
    assert len(shown) == 1
    assert [value for name, value in shown[0].items() if "mean" in name or value is None][:1] == [None]


def test_averages_have_the_error_of_the_closed_form():
    """n·AVG at the lower bound: half the difference of two sums and half of their sum, X, with scale κ·K/ε.

    2,000 draws: the mean of |X| is within 13% up to a chance of 10⁻⁸ (its standard deviation is its mean, over √2,000).
    """
    owners = 5000
    plan, exact = measured(FOUND, [0.0] * owners, found=(Bounds(Fraction(0), Fraction(8)),))
    lower, upper = release(plan, copied(exact, 2000), seeded_entropy(7)).readings[0]
    noise = exact.noises[0]
    errors = np.abs(np.asarray(lower.values, dtype=float))
    assert len(errors) == 2000
    assert np.mean(errors) == pytest.approx(float(noise.scale), rel=0.13)
    assert float(noise.scale * noise.grid) == pytest.approx(2 * 8 / 0.75, rel=1e-6)
    assert plan.columns[0].call.aggregate.finish((lower, upper)).max() < 8 * 0.05


@pytest.mark.parametrize(
    ("population", "keys", "share"),
    [
        (None, "k, ", Fraction(1, 2)),
        (8_000, "k, ", Fraction(1, 2)),
        (16_000, "k, ", Fraction(1, 3)),
        (10**6, "k, ", Fraction(1, 4)),
        (10**6, "", Fraction(1, 2)),
    ],
)
def test_many_owners_are_seen_with_less_of_epsilon(population, keys, share):
    defaults = {"population": population} if population else {}
    catalog = shoal.Catalog.from_dict({"tables": {"t": {"owner": "uid"}}, "defaults": defaults})
    listed = ", max_groups_contributed = 1, group_selection_strategy = PUBLIC_GROUPS" if keys else ""
    asked = f"{CLAUSE}(epsilon = 1, noise = LAPLACE{listed}) {keys}"
    source = "FROM (VALUES ('a'), ('b')) AS l(k) LEFT JOIN t USING (k) GROUP BY k" if keys else "FROM t"
    with shoal.connect(table((1.0,)), catalog=catalog) as session:
        (plan,) = session.plan(f"{asked}AVG(x) AS mean {source}").selects
    assert float(plan.histograms[0].noise.epsilon) == pytest.approx(float(share))
