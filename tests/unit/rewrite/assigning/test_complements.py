"""A sum (or rows) and what is missing to its bound: what one owner moves of both, what is read off them, and who is shown."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import shoal
from shoal.accounting.accountants import plan_loss
from shoal.accounting.events import LaplaceNoise, SelectedGaussian, Shift, WeightedSelection, WholeSelection
from shoal.errors import InternalError
from shoal.mechanisms import calibrate, group_selection
from shoal.mechanisms.entropy import seeded_entropy
from shoal.mechanisms.selection.whole import on_released_whole
from shoal.mechanisms.tails import gaussian_pair_tail, laplace_pair_tail
from shoal.plan.measures import OwnerSum, RowCount
from shoal.release.execute import fresh_sampling_key, measure, release

CLAUSE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS"
UNKNOWN = "epsilon = 1, delta = 1e-6, max_groups_contributed = 1"
TOTAL = "SUM(x, contribution_bounds_per_group => (-2, 9)) AS total"
OWNERS = "COUNT(DISTINCT uid) AS owners"
CATALOG = shoal.Catalog.from_dict({"tables": {"t": {"owner": "uid"}}})


def table(values, keys=None) -> dict[str, pa.Table]:
    places = keys or ["a"] * len(values)
    columns = {"uid": pa.array(range(len(values)), pa.int64()), "x": pa.array(values, pa.float64())}
    return {"t": pa.table(columns | {"k": pa.array(places, pa.string())})}


def planned(options: str, items: str, *, grouped: bool = True):
    with shoal.connect(table([1.0]), catalog=CATALOG) as session:
        key, by = ("k, ", " GROUP BY k") if grouped else ("", "")
        return session.plan(f"{CLAUSE}({options}) {key}{items} FROM t{by}").selects[0]


def origins(plan) -> list[str]:
    return [release.measure.origin for release in plan.releases]


def exact(values) -> dict[str, int]:
    """The two numbers before noise, by the bound that they are counted from."""
    with shoal.connect(table(values), catalog=CATALOG) as session:
        plan = session.plan(f"{CLAUSE}(epsilon = 1) {OWNERS}, {TOTAL} FROM t").selects[0]
        found = measure(plan, session._engine, fresh_sampling_key(seeded_entropy(1)), seeded_entropy(1))
        return {r.measure.origin: int(t[0]) for r, t in zip(plan.releases, found.measurement.totals, strict=True)}


@pytest.mark.parametrize("value", [-50.0, -2.0, 0.0, 1.234567, 9.0, 1e30, None])
def test_an_owner_moves_both_parts_by_the_width_of_the_bounds_together_also_without_a_value(value):
    noise = planned("epsilon = 1", f"{OWNERS}, {TOTAL}", grouped=False).releases[0].noise
    before, after = exact([1.0]), exact([1.0, value])
    width = round(11 / float(noise.grid))
    assert (after["lower"] - before["lower"]) - (after["upper"] - before["upper"]) == width
    assert after["lower"] >= before["lower"]
    assert after["upper"] <= before["upper"]
    assert (noise.shift.l1, noise.shift.touched) == (width, 2)


@pytest.mark.parametrize("items", [TOTAL, f"{OWNERS}, {TOTAL}", "COUNT(*, contribution_bounds_per_group => (0, 5))"])
def test_sum_owners_and_selection_are_charged_once_for_all_of_epsilon(items):
    plan = planned(UNKNOWN, items)
    assert sorted(origins(plan)) == ["lower", "upper"]
    assert isinstance(plan.selection, WholeSelection)
    assert plan.events == (plan.releases[0].noise, plan.selection)
    loss = plan_loss(plan.events)
    assert 0.999 < loss.epsilon <= 1
    assert loss.delta <= Fraction(1, 10**6)


def test_other_numbers_keep_a_share_of_epsilon():
    plan = planned(UNKNOWN, f"{TOTAL}, {TOTAL.replace('9', '20').replace('total', 'more')}")
    whole, other = plan.releases[0].noise.epsilon, plan.releases[1].noise.epsilon
    assert float(whole / other) == pytest.approx(5 / 3, rel=1e-6)
    assert 0.999 < whole + other <= 1
    # The even split has a third for each, and a third for the selection.
    assert other > Fraction(1, 3)


@pytest.mark.parametrize(
    ("options", "items"),
    [
        (f"{UNKNOWN}, noise = GAUSSIAN, group_selection_strategy = WEIGHTED", TOTAL),
        (f"{UNKNOWN}, group_selection_strategy = OPTIMAL", TOTAL),
        (UNKNOWN, "SUM(x, contribution_bounds_per_group => (2, 9))"),
        (UNKNOWN, "SUM(x, contribution_bounds_per_group => (0, 0))"),
        (UNKNOWN, "SUM(x)"),
        (f"{UNKNOWN}, group_selection_epsilon = 0.5", TOTAL),
        ("epsilon = 1, delta = 1e-6, max_rows_contributed = 3", TOTAL),
        (UNKNOWN, TOTAL.replace("=> (-2, 9)", "=> (-2, 9), epsilon => 0.3")),
    ],
    ids=[
        "Gaussian, by weights",
        "another rule",
        "without 0",
        "no room",
        "bounds to be found",
        "its own ε",
        "rows",
        "an ε of its own",
    ],
)
def test_where_it_is_not_proven_or_not_asked_for_a_sum_stays_a_sum(options, items):
    assert set(origins(planned(options, items))) == {"middle"}


def test_a_sum_without_owners_or_selection_stays_a_sum():
    assert origins(planned("epsilon = 1", TOTAL, grouped=False)) == ["middle"]


def test_owners_and_sum_are_those_of_the_table_where_noise_is_small():
    values = [-5.0, 0.5, 8.25, 20.0, None, None]
    with shoal.connect(table(values), catalog=CATALOG) as session:
        found = session.query(f"{CLAUSE}(epsilon = 1000000) {OWNERS}, {TOTAL} FROM t").to_dicts()[0]
    assert found["owners"] == 6
    assert found["total"] == pytest.approx(-2 + 0.5 + 8.25 + 9, abs=1e-3)


def test_no_group_is_shown_whose_noisy_whole_is_below_the_threshold():
    """The noise that decides is the noise that is shown: whoever drew it twice would show some of 2,000 groups below."""
    keys = [f"g{i % 500}" for i in range(9000)]
    with shoal.connect(table([1.0] * 9000, keys), catalog=CATALOG) as session:
        plan = session.plan(f"{CLAUSE}({UNKNOWN}) k, {OWNERS}, {TOTAL} FROM t GROUP BY k").selects[0]
        found = measure(plan, session._engine, fresh_sampling_key(seeded_entropy(1)), seeded_entropy(1))
        shown = 0
        for seed in range(4):
            upper, lower = release(plan, found, seeded_entropy(seed)).readings[0]
            sums = np.asarray(lower.values) - np.asarray(upper.values)
            assert all(total >= plan.selection.threshold for total in sums)
            shown += len(sums)
    assert 200 < shown < 1900


@pytest.mark.parametrize("whole", [11, 2**60], ids=["within 64 bits", "beyond"])
def test_groups_are_shown_as_often_as_the_tail_of_two_noises_says(whole):
    """4,000 decisions at 17 owners: further than 5 standard deviations happens once in 10⁶ runs."""
    noise = LaplaceNoise(Shift(whole, 2, 4), Fraction(2 * whole))
    selection = on_released_whole(noise, 2, 3, Fraction(1, 1000))
    owners = np.full(4000, 17)
    kept = group_selection.select(selection, owners, seeded_entropy(3)).kept
    chance = group_selection.keep_probability(selection, 17)
    assert abs(kept.mean() - chance) < 5 * np.sqrt(chance * (1 - chance) / 4000)
    assert 0.05 < chance < 0.95
    assert not group_selection.select(selection, np.full(50, 2), seeded_entropy(3)).kept.any()


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(2), Fraction(400)])
def test_the_tail_of_two_noises_is_that_of_their_convolution(scale):
    reach = int(60 * scale) + 50
    one = np.exp(-np.abs(np.arange(-reach, reach + 1)) / float(scale))
    one /= one.sum()
    both = np.fft.irfft(np.fft.rfft(one, 4 * reach + 1) ** 2, 4 * reach + 1)  # directly it takes ten seconds
    for least in (-7, -1, 0, 1, 5, int(4 * scale)):
        found = laplace_pair_tail(scale, least)
        assert found.lower <= found.upper
        assert float(found.upper) == pytest.approx(both[2 * reach + least :].sum(), rel=1e-9)


@pytest.mark.parametrize("sigma", [Fraction(1, 2), Fraction(3), Fraction(90)])
def test_the_tail_of_two_gaussian_noises_holds_that_of_their_convolution(sigma):
    reach = int(14 * sigma) + 9
    one = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * float(sigma) ** 2))
    one /= one.sum()
    both = np.convolve(one, one)
    for least in (-7, -1, 0, 1, 5, int(6 * sigma)):
        found, true = gaussian_pair_tail(sigma, least), both[2 * reach + least :].sum()
        assert float(found.lower) <= true * (1 + 1e-9)
        assert true <= float(found.upper) * (1 + 1e-9)
        assert sigma < 1 or float(found.upper) < true * 1.0002


def test_gaussian_wholes_are_one_joint_release_whose_threshold_shares_its_delta():
    """A sum of values in [0, 9] by fifty groups: all of the norm for the sum, where weights would take a half of it."""
    options = "epsilon = 1, delta = 1e-6, max_groups_contributed = 50"
    by_weights = planned(options, TOTAL.replace("-2", "0"))
    assert isinstance(by_weights.selection, WeightedSelection)  # they show more groups
    plan = planned(f"{options}, group_selection_strategy = GAUSSIAN_THRESHOLD", TOTAL.replace("-2", "0"))
    (event,) = plan.events
    assert isinstance(event, SelectedGaussian)
    assert event.selection == plan.selection
    assert isinstance(plan.selection, WholeSelection)
    assert sorted(origins(plan)) == ["lower", "upper"]
    loss = plan_loss(plan.events)
    assert (loss.epsilon, loss.delta) == (1, Fraction(1, 10**6))
    noise = plan.releases[0].noise
    assert float(noise.sigma * noise.grid) == pytest.approx(9 * np.sqrt(50) / 0.2367, rel=0.01)
    one_step_lower = replace(plan.selection, threshold=plan.selection.threshold - noise.shift.per_coordinate)
    with pytest.raises(InternalError, match="too low"):
        plan_loss((replace(event, selection=one_step_lower),))


def test_gaussian_wholes_have_the_errors_of_the_closed_form():
    """2,000 draws: a standard deviation is within 8% up to a chance of 10⁻⁶. The owners carry the noise of both parts."""
    with shoal.connect(table([1.0] * 400), catalog=CATALOG) as session:
        sql = f"{CLAUSE}(epsilon = 1, delta = 1e-6, noise = GAUSSIAN) {TOTAL.replace('-2', '0')}, {OWNERS} FROM t"
        plan = session.plan(sql).selects[0]
        found = measure(plan, session._engine, fresh_sampling_key(seeded_entropy(1)), seeded_entropy(1))
        rows = [release(plan, found, seeded_entropy(seed)).table.to_pylist()[0] for seed in range(2000)]
    total, owners = (np.array([list(row.values())[place] for row in rows], dtype=float) for place in _places(plan))
    sigma = float(plan.releases[0].noise.sigma * plan.releases[0].noise.grid)
    assert np.std(total) == pytest.approx(sigma, rel=0.08)
    assert np.std(owners) == pytest.approx(np.sqrt(2) * sigma / 9, rel=0.08)


def test_the_threshold_is_the_lowest_that_holds():
    noise = LaplaceNoise(Shift(11, 2, 4), Fraction(22))
    chance = calibrate.delta_per_group(Fraction(1, 10**6), 2)
    point = calibrate.smallest_pair_point(noise, chance)
    assert laplace_pair_tail(noise.scale, point).upper <= chance < laplace_pair_tail(noise.scale, point - 1).upper
    low = WholeSelection(noise, 11 + point - 1, Fraction(1, 10**6), 2)
    with pytest.raises(InternalError):
        plan_loss((noise, low))
    narrow = LaplaceNoise(Shift(11, 2), Fraction(22))
    with pytest.raises(InternalError):
        plan_loss((narrow, WholeSelection(narrow, 11 + point, Fraction(1, 10**6), 2)))


@pytest.mark.parametrize(("first", "second"), [(1.0, 0.0), (0.5, 0.5), (0.8, -0.2)])
def test_the_quantile_of_two_noises_mixed_is_that_of_draws(first, second):
    """10⁶ draws: a quantile at 95% is within 1% up to a chance of 10⁻⁶."""
    drawn = np.random.default_rng(5).laplace(0, 3, (2, 10**6))
    found = calibrate.mixed_quantile(3.0, first, second, 0.95)
    assert found == pytest.approx(np.quantile(np.abs(first * drawn[0] + second * drawn[1]), 0.95), rel=0.01)


def test_intervals_cover_owners_and_sum():
    """150 answers at 95%: more than 22 misses happen once in 10⁶ runs."""
    values = np.random.default_rng(2).uniform(-2, 9, 300)
    with shoal.connect(table(values), catalog=CATALOG) as session:
        plan = session.plan(f"{CLAUSE}(epsilon = 1) {OWNERS}, {TOTAL} FROM t").selects[0]
        found = measure(plan, session._engine, fresh_sampling_key(seeded_entropy(1)), seeded_entropy(1))
        rows = [release(plan, found, seeded_entropy(seed)).readings[0] for seed in range(150)]
    for column, truth in zip(plan.columns, (300.0, values.sum()), strict=True):
        readings = [tuple(row[place] for place in column.releases) for row in rows]
        ends = [column.call.aggregate.interval(each, 0.95) for each in readings]
        covered = [low[0] <= truth <= high[0] for low, high in ends]
        assert sum(covered) >= 128
        width = np.mean([(high[0] - low[0]) / 2 for low, high in ends])
        releases = [plan.releases[place] for place in column.releases]
        assert column.call.aggregate.expected_half_width(releases, 0.95, 300) == pytest.approx(width, abs=0.6)


def test_count_and_sum_have_the_errors_of_the_closed_form():
    """2,000 draws: a standard deviation is within 12% up to a chance of 10⁻⁶. The even split has 2√2 and 2√2·U."""
    with shoal.connect(table([1.0] * 400), catalog=CATALOG) as session:
        sql = f"{CLAUSE}(epsilon = 1) {OWNERS}, {TOTAL.replace('-2', '0')} FROM t"
        plan = session.plan(sql).selects[0]
        found = measure(plan, session._engine, fresh_sampling_key(seeded_entropy(1)), seeded_entropy(1))
        rows = [release(plan, found, seeded_entropy(seed)).table.to_pylist()[0] for seed in range(2000)]
    owners, total = (np.array([list(row.values())[place] for row in rows], dtype=float) for place in _places(plan))
    assert np.std(owners) == pytest.approx(2.0, rel=0.12)
    assert np.std(total) == pytest.approx(np.sqrt(2) * 9, rel=0.12)


def _places(plan) -> list[int]:
    """Where the answers stand in a row, beside the numbers that they are read off."""
    return [0, 1 + len(plan.columns[0].releases)]


def test_measures_say_what_they_are_counted_from():
    plan = planned(UNKNOWN, "COUNT(*, contribution_bounds_per_group => (0, 5))")
    assert all(isinstance(release.measure, RowCount) for release in plan.releases)
    assert isinstance(planned(UNKNOWN, TOTAL).releases[0].measure, OwnerSum)
    assert "from the lower bound" in planned(UNKNOWN, TOTAL).releases[0].measure.words
