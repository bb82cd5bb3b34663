"""The meeting point: what enters the mechanisms, what leaves them, and that neither is more than was charged."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shoal
from shoal.accounting.events import GaussianNoise, JointGaussian, LaplaceNoise, Shift
from shoal.errors import InternalError
from shoal.mechanisms.calibrate import joint_gaussian_holds
from shoal.mechanisms.entropy import SYSTEM, seeded_entropy
from shoal.mechanisms.gaussian_certificate import ROUNDING_VARIANCES, rounding_error
from shoal.params import Bounds, bounds
from shoal.plan.measures import OwnerSum
from shoal.plan.releases import Inferred
from shoal.plan.totals import grid_measure_of
from shoal.release.execute import charge_of, fresh_sampling_key, infer, measure, release
from shoal.release.resolve_bounds import resolve, shrunk

CLAUSE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS"
ALL = "COUNT(*), SUM(spend), SUM(items), AVG(spend), VAR_POP(spend), MEDIAN(spend)"


# ---- bounds that are found -----------------------------------------------------------------------------------------


def inferred_plan(session: shoal.Session, options: str, items: str = ALL):
    return session.plan(f"{CLAUSE}(delta = 1e-6, {options}) site, {items} FROM visits GROUP BY site").selects[0]


OPTIONS = [
    "epsilon = 1, noise = LAPLACE, max_groups_contributed = 3",
    "epsilon = 0.001, noise = LAPLACE, max_groups_contributed = 50",
    "epsilon = 100000, noise = LAPLACE, max_groups_contributed = 1",
    "epsilon = 1, noise = GAUSSIAN, max_groups_contributed = 3",
    "epsilon = 0.01, noise = GAUSSIAN, max_groups_contributed = 100",
    "epsilon = 20, noise = GAUSSIAN, max_groups_contributed = 2",
    "epsilon = 1, noise = LAPLACE, max_rows_contributed = 20",
    "epsilon = 0.4, noise = LAPLACE, max_rows_contributed = 1000000",
]


class Plans(list):
    """Plans that do not write themselves out wherever a failing example is told."""

    def __repr__(self) -> str:
        return f"{len(self)} plans"


@pytest.fixture(scope="module")
def plans(shop_tables):
    with shoal.connect(shop_tables, catalog={"tables": {"visits": {"owner": "uid"}}}) as session:
        return Plans(inferred_plan(session, options) for options in OPTIONS)


def found_bounds(plan, places: list[tuple[int, int]]) -> tuple[Bounds, ...]:
    """Bounds that the histograms of a plan could find: outer edges of any two bins."""
    found = []
    for (a, b), release_ in zip(places, plan.histograms, strict=False):
        bins, edges = release_.histogram.bins, release_.histogram.edges
        low, high = sorted((a % len(bins), b % len(bins)))
        found.append(Bounds(edges(bins[low])[0], edges(bins[high])[1]))
    return tuple(found)


MOST_HISTOGRAMS = 8
bin_places = st.lists(
    st.tuples(st.integers(0, 999), st.integers(0, 999)), min_size=MOST_HISTOGRAMS, max_size=MOST_HISTOGRAMS
)


@pytest.mark.parametrize("number", range(len(OPTIONS)), ids=OPTIONS)
@given(places=bin_places)
@settings(deadline=None)
def test_noise_for_bounds_that_were_found_never_loses_more_than_planned(plans, number, places):
    plan = plans[number]
    assert 1 <= len(plan.histograms) <= MOST_HISTOGRAMS
    found = found_bounds(plan, places)
    for planned in plan.releases:
        task, noise, _ = resolve(planned, found)
        assert task is not None
        assert task.delta <= noise.shift.per_coordinate
        assert (noise.shift.coordinates, noise.shift.entries) == (
            planned.noise.shift.coordinates,
            planned.noise.shift.entries,
        )
        if isinstance(noise, LaplaceNoise):
            assert noise.epsilon <= planned.noise.epsilon
        else:
            assert noise.rho <= planned.noise.rho


def test_bounds_that_were_found_to_be_zero_leave_nothing_to_move_and_all_else_as_planned(plans):
    zero = Bounds(Fraction(0), Fraction(0))
    for planned in (release_ for plan in plans for release_ in plan.releases):
        task, noise, _ = resolve(planned, (zero,) * MOST_HISTOGRAMS)
        assert (noise.shift.coordinates, noise.shift.entries) == (
            planned.noise.shift.coordinates,
            planned.noise.shift.entries,
        )
        if isinstance(planned.bounds, Inferred) and task is not None and task.steps is not None:
            assert task.delta == noise.shift.per_coordinate == 0


@pytest.mark.parametrize("number", [i for i, options in enumerate(OPTIONS) if "GAUSSIAN" in options])
def test_gaussian_noise_for_bounds_that_were_found_passes_the_certificate_of_the_plan(plans, number):
    """The joint claim (ε, δ) is checked again, with the noise that would really be drawn."""
    plan = plans[number]
    (joint,) = [event for event in plan.events if isinstance(event, JointGaussian)]
    draw = np.random.default_rng(number)
    for _ in range(4):
        found = found_bounds(plan, draw.integers(0, 1000, (MOST_HISTOGRAMS, 2)).tolist())
        drawn = {planned.noise: resolve(planned, found)[1] for planned in plan.releases}
        really = tuple(noise for part in joint.parts if (noise := drawn.get(part, part)).shift.l1)
        assert all(isinstance(part, GaussianNoise) for part in really)
        assert joint_gaussian_holds(really, joint.epsilon, joint.delta)


@given(delta=st.integers(1, 2**22), planned=st.integers(1, 2**22), scale=st.integers(1, 2**40), gaussian=st.booleans())
def test_shrinking_keeps_the_ratio_of_shift_and_scale(delta, planned, scale, gaussian):
    task = grid_measure_of(OwnerSum(None, is_integer=True), bounds(0, delta), Fraction(1))
    noise = (GaussianNoise if gaussian else LaplaceNoise)(Shift(planned, 3), Fraction(scale, 7))
    if delta > planned:
        with pytest.raises(InternalError):
            shrunk(noise, task)
        return
    smaller = shrunk(noise, task)
    assert smaller.shift == Shift(delta, 3)
    if gaussian:
        assert smaller.rho <= noise.rho
        assert smaller.sigma <= noise.sigma
    else:
        assert smaller.epsilon == noise.epsilon


@given(
    delta=st.integers(1, 2**24),
    planned=st.integers(1, 2**24),
    scale=st.fractions(Fraction(3, 2), 2**40, max_denominator=7),
)
def test_shrunk_gaussian_noise_has_no_larger_norm_and_no_larger_rounding_error_than_the_certificate_counts(
    delta, planned, scale
):
    """The two numbers of the theorem, for every rounding variance that a certificate may have taken."""
    delta, planned = sorted((delta, planned))
    task = grid_measure_of(OwnerSum(None, is_integer=True), bounds(0, delta), Fraction(1))
    noise = GaussianNoise(Shift(planned, 3), scale)
    smaller = shrunk(noise, task)
    for variance in ROUNDING_VARIANCES:
        if variance < scale**2:
            before = noise.shift.l2_squared / (scale**2 - variance)
            assert smaller.shift.l2_squared / (smaller.sigma**2 - variance) <= before
            assert lemma_error(smaller.sigma, variance) <= float(rounding_error(scale, variance)) * (1 + 1e-9)


def lemma_error(sigma: Fraction, variance: Fraction) -> float:
    """The w of the rounding lemma in floats, for this σ itself."""
    kept = variance * (sigma**2 - variance) / sigma**2
    wave = sum(2 * math.exp(-2 * math.pi**2 * float(variance) * j**2) for j in (1, 2, 3))
    mean = sum(2 * math.exp(-2 * math.pi**2 * float(variance + kept) * j**2) for j in (1, 2, 3))
    return mean + wave**2 / (1 - wave)


def test_where_no_bin_stands_out_count_uses_one_and_other_cells_are_null_with_a_note(open_shop):
    """An empty bin stands out by chance in 3 of 100 answers: six of them in a row do so once in 10⁹ runs."""
    table = pa.table({"uid": [1, 2], "x": [1.0, 2.0]})
    sql = f"{CLAUSE}(epsilon = 0.01, kappa = 1) COUNT(*) AS n, SUM(x) AS s, AVG(x) AS a, MEDIAN(x) AS m FROM t"
    for _ in range(6):
        session = open_shop({"tables": {"t": {"owner": "uid"}}}, {"t": table})
        result = session.query(sql)
        if sum("no bound" in note for note in result.notes) == 4:
            break
    (row,) = result.to_dicts()
    assert row["n"] is not None
    assert (row["s"], row["a"], row["m"]) == (None, None, None)
    assert sum("no bound" in note for note in result.notes) == 4
    assert session.spent == (0.01, 0.0)
    (ends,) = result.intervals().to_dicts()
    assert ends["n_low"] <= ends["n"] < ends["n_high"]  # below 0 there is no count, and no end
    assert ends["s_low"] is None


def test_bounds_that_are_found_hold_most_values_and_are_told(open_shop):
    table = pa.table({"uid": range(2000), "x": [float(i % 100 - 50) for i in range(2000)]})
    session = open_shop({"tables": {"t": {"owner": "uid"}}}, {"t": table})
    # An empty bin stands out by chance in one of a hundred answers: five of them in a row do so once in 10¹⁰ runs.
    answers = [session.query(f"{CLAUSE}(epsilon = 10, kappa = 1) SUM(x) AS s FROM t") for _ in range(5)]
    assert any("[-64, 64]" in note for result in answers for note in result.notes)
    plan = session.plan(f"{CLAUSE}(epsilon = 10, kappa = 1) SUM(x) AS s FROM t").selects[0]
    found = [infer(plan, session._engine, fresh_sampling_key(), SYSTEM)[0] for _ in range(5)]
    assert (bounds(-64, 64),) in found


# ---- what enters ---------------------------------------------------------------------------------------------------


def test_an_owner_is_kept_in_as_many_groups_as_allowed_and_in_no_more(open_shop):
    table = pa.table({"uid": np.repeat(np.arange(50), 40), "g": np.tile(np.arange(40), 50)})
    session = open_shop({"tables": {"t": {"owner": "uid"}}}, {"t": table})
    for kappa in (1, 3, 39, 40, 100):
        sql = f"{CLAUSE}(epsilon = 1, delta = 1e-6, max_groups_contributed = {kappa}) g, COUNT(DISTINCT uid) FROM t GROUP BY g"
        measured = measure(session.plan(sql).selects[0], session._engine, fresh_sampling_key())
        assert int(measured.measurement.owners.sum()) == 50 * min(kappa, 40)


@pytest.mark.parametrize("kind", ["whole numbers in a row", "texts", "dates"])
def test_groups_of_an_owner_are_chosen_evenly_and_anew_for_every_query(open_shop, kind):
    """2,000 owners choose 1 of 5 groups: each count of each of 6 draws is within 7σ = 125 of 400 (false alarm below 1e-9)."""
    number = np.tile(np.arange(5), 2000)
    keys = {"texts": [f"g{i}" for i in number], "dates": pa.array(number, pa.int32()).cast(pa.date32())}.get(
        kind, number
    )
    session = open_shop(
        {"tables": {"t": {"owner": "uid"}}}, {"t": pa.table({"uid": np.repeat(np.arange(2000), 5), "g": keys})}
    )
    plan = session.plan(
        f"{CLAUSE}(epsilon = 1, delta = 1e-6, kappa = 1) g, COUNT(DISTINCT uid) FROM t GROUP BY g"
    ).selects[0]
    draws = [measure(plan, session._engine, fresh_sampling_key()).measurement for _ in range(6)]
    counts = [dict(zip(d.keys.column(0).to_pylist(), d.owners.tolist(), strict=True)) for d in draws]
    assert all(abs(number - 400) < 125 for count in counts for number in count.values())
    assert all(abs(sum(count[key] for count in counts) / 6 - 400) < 51 for key in counts[0])
    assert len({str(sorted(count.items(), key=str)) for count in counts}) > 1


@pytest.mark.parametrize("scale", [1, 0.25], ids=["whole numbers", "reals"])
def test_rows_of_an_owner_are_chosen_evenly(open_shop, scale):
    """2,000 owners choose 1 of 10 rows, 6 times: each mean is within 7σ = 38 of 200 (false alarm below 1e-9)."""
    values = np.tile(np.arange(10), 2000) * scale
    session = open_shop(
        {"tables": {"t": {"owner": "uid"}}}, {"t": pa.table({"uid": np.repeat(np.arange(2000), 10), "x": values})}
    )
    plan = session.plan(
        f"{CLAUSE}(epsilon = 1, kappa = 1) MEDIAN(x, contribution_bounds_per_row => (0, 16)) FROM t"
    ).selects[0]
    chosen: Counter = Counter()
    for _ in range(6):
        leaves = measure(plan, session._engine, fresh_sampling_key()).measurement.totals[0]
        chosen.update(dict(zip(leaves.leaves.tolist(), leaves.counts.tolist(), strict=True)))
    assert len(chosen) == 10
    assert all(abs(count / 6 - 200) < 38 for count in chosen.values())


def test_one_owner_with_very_many_rows_moves_a_group_by_the_bound_and_no_more(open_shop):
    heavy = pa.table({"uid": np.concatenate([np.zeros(100_000, int), np.arange(1, 101)]), "x": np.ones(100_100)})
    session = open_shop({"tables": {"t": {"owner": "uid"}}}, {"t": heavy})
    count, total = (
        "COUNT(*, contribution_bounds_per_group => (0, 7))",
        "SUM(x, contribution_bounds_per_group => (-3, 5))",
    )
    (row,) = session.query(f"{CLAUSE}(epsilon = 1000000) {count} AS n, {total} AS s FROM t").to_dicts()
    assert row["n"] == 100 + 7
    assert row["s"] == pytest.approx(100 + 5, abs=0.01)


def test_one_owner_with_a_row_in_each_of_very_many_groups_is_seen_in_as_many_as_allowed(open_shop):
    table = pa.table({"uid": np.zeros(10_000, int), "g": np.arange(10_000)})
    session = open_shop({"tables": {"t": {"owner": "uid"}}}, {"t": table})
    sql = f"{CLAUSE}(epsilon = 1000000, delta = 0.01, max_groups_contributed = 4) g, COUNT(*) AS n FROM t GROUP BY g"
    measured = measure(session.plan(sql).selects[0], session._engine, fresh_sampling_key(), found=(bounds(0, 1),))
    assert int(measured.measurement.owners.sum()) == 4


def test_rows_of_groups_that_are_not_listed_are_dropped_before_an_owners_groups_are_chosen(open_shop):
    table = pa.table({"uid": np.repeat(np.arange(30), 20), "g": np.tile(np.arange(20), 30)})
    session = open_shop({"tables": {"t": {"owner": "uid", "columns": {"g": {"values": [3, 777]}}}}}, {"t": table})
    plan = session.plan(
        f"{CLAUSE}(epsilon = 1, max_groups_contributed = 1) g, COUNT(DISTINCT uid) FROM t GROUP BY g"
    ).selects[0]
    measured = measure(plan, session._engine, fresh_sampling_key()).measurement
    assert sorted(zip(measured.keys.column(0).to_pylist(), measured.owners.tolist(), strict=True)) == [
        (3, 30),
        (777, 0),
    ]


def by_site(options: str) -> str:
    return f"{CLAUSE}({options}) site, COUNT(DISTINCT uid) AS n FROM visits GROUP BY site"


# ---- what leaves ---------------------------------------------------------------------------------------------------


def test_every_released_real_is_a_multiple_of_its_grid(shop):
    for noise in ("LAPLACE", "GAUSSIAN"):
        options = f"epsilon = 1, delta = 1e-6, max_groups_contributed = 4, noise = {noise}"
        asked = f"{CLAUSE}({options}) site, SUM(spend, contribution_bounds_per_group => (0, 100)) AS s FROM visits GROUP BY site"
        grid = float(shop.plan(asked).selects[0].releases[0].noise.grid)
        rows = shop.query(asked).to_dicts()
        assert rows
        assert all((row["s"] / grid).is_integer() for row in rows)


def test_a_seed_makes_an_answer_repeatable_and_the_operating_system_does_not(shop):
    plan = shop.plan(by_site("epsilon = 0.1, delta = 0.01, max_groups_contributed = 4")).selects[0]
    measured = measure(plan, shop._engine, fresh_sampling_key())
    same = [release(plan, measured, seeded_entropy(3)).table.to_pylist() for _ in range(2)]
    fresh = [release(plan, measured, SYSTEM).table.to_pylist() for _ in range(4)]
    assert same[0] == same[1]
    assert len({str(rows) for rows in fresh}) > 1


def test_the_order_of_released_rows_is_drawn(shop):
    """Four groups come in 24 orders; that 40 answers all have the same one has a chance of 24⁻³⁹."""
    plan = shop.plan(by_site("epsilon = 100000, delta = 0.01, max_groups_contributed = 4")).selects[0]
    measured = measure(plan, shop._engine, fresh_sampling_key())
    orders = Counter(tuple(release(plan, measured).table.column(0).to_pylist()) for _ in range(40))
    assert len(orders) > 1


def test_a_group_below_the_minimum_of_owners_never_appears(open_shop):
    table = pa.table({"uid": np.arange(105), "g": ["many"] * 100 + ["few"] * 5})
    session = open_shop({"tables": {"t": {"owner": "uid"}}}, {"t": table})
    for strategy in ("OPTIMAL", "LAPLACE_THRESHOLD", "GAUSSIAN_THRESHOLD"):
        options = (
            f"epsilon = 1000, delta = 0.09, min_privacy_units_per_group = 6, group_selection_strategy = {strategy}"
        )
        plan = session.plan(f"{CLAUSE}({options}) g, COUNT(DISTINCT uid) AS n FROM t GROUP BY g").selects[0]
        measured = measure(plan, session._engine, fresh_sampling_key())
        for _ in range(30):
            assert release(plan, measured).table.column(0).to_pylist() == ["many"]


def test_what_the_ledger_is_asked_for_is_what_was_asked_and_delta_only_where_it_is_used(shop):
    plan = shop.plan(f"{CLAUSE}(epsilon = 3, delta = 1e-6, noise = LAPLACE) COUNT(DISTINCT uid) FROM visits")
    assert (charge_of(plan).epsilon, charge_of(plan).delta) == (3, 0)
    grouped = shop.plan(f"{CLAUSE}(epsilon = 3, delta = 1e-6) site, COUNT(DISTINCT uid) FROM visits GROUP BY site")
    assert (charge_of(grouped).epsilon, charge_of(grouped).delta) == (3, Fraction(1, 10**6))


def test_sampling_keys_are_fresh():
    assert len({fresh_sampling_key().seeds for _ in range(5)}) == 5
    assert fresh_sampling_key(seeded_entropy(1)) == fresh_sampling_key(seeded_entropy(1))


def test_found_bounds_wider_than_planned_are_a_bug_and_not_a_release(plans):
    planned = next(r for r in plans[0].releases if isinstance(r.bounds, Inferred) and isinstance(r.measure, OwnerSum))
    narrow = replace(planned, noise=replace(planned.noise, shift=Shift(1, planned.noise.shift.coordinates)))
    with pytest.raises(InternalError):
        resolve(narrow, tuple(bounds(-64, 64) for _ in plans[0].histograms))
