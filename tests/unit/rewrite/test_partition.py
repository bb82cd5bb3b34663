"""AVG off two sums that make a whole: what one owner moves of both, what the answer is, and how wide its interval."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import shoal
from shoal.accounting.accountants import plan_loss
from shoal.accounting.events import LaplaceNoise
from shoal.mechanisms.entropy import seeded_entropy
from shoal.plan.measures import OwnerCount, OwnerMean
from shoal.release.execute import fresh_sampling_key, measure

CLAUSE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS"
MEAN = "AVG(x, contribution_bounds_per_group => (-2, 9))"
CATALOG = shoal.Catalog.from_dict({"tables": {"t": {"owner": "uid"}}})


def table(values) -> dict[str, pa.Table]:
    return {"t": pa.table({"uid": pa.array(range(len(values)), pa.int64()), "x": pa.array(values, pa.float64())})}


def planned(options: str, items: str = MEAN):
    with shoal.connect(table([1.0]), catalog=CATALOG) as session:
        return session.plan(f"{CLAUSE}({options}) {items} FROM t").selects[0]


def exact(values) -> tuple[int, ...]:
    """The two sums before noise."""
    with shoal.connect(table(values), catalog=CATALOG) as session:
        plan = session.plan(f"{CLAUSE}(epsilon = 1) {MEAN} FROM t").selects[0]
        found = measure(plan, session._engine, fresh_sampling_key(seeded_entropy(1)), seeded_entropy(1))
        return tuple(int(total[0]) for total in found.measurement.totals)


def test_both_sums_are_charged_once_for_all_of_epsilon():
    plan = planned("epsilon = 1")
    assert [release.measure.origin for release in plan.releases] == ["lower", "upper"]
    assert plan.events == (plan.releases[0].noise,)
    assert plan.releases[0].noise == plan.releases[1].noise
    assert 0.999 < plan_loss(plan.events).epsilon <= 1


@pytest.mark.parametrize("value", [-50.0, -2.0, 0.0, 1.234567, 9.0, 1e30, None])
def test_an_owner_moves_both_sums_by_the_width_of_the_bounds_together(value):
    noise = planned("epsilon = 1").releases[0].noise
    moved = np.subtract(exact([1.0, value]), exact([1.0]))
    width = round(11 / float(noise.grid))
    assert abs(int(moved[0])) + abs(int(moved[1])) == (0 if value is None else width)
    assert noise.shift.per_coordinate == noise.shift.l1 == width
    assert noise.shift.touched == 2


@pytest.mark.parametrize(
    ("options", "items"),
    [
        ("epsilon = 1, delta = 1e-6, noise = GAUSSIAN", MEAN),
        ("epsilon = 1", "AVG(x)"),
        ("epsilon = 1, max_rows_contributed = 3", MEAN),
        ("epsilon = 1", f"{MEAN}, AVG(x)"),
        ("epsilon = 1", "AVG(x, contribution_bounds_per_group => (3, 3))"),
    ],
    ids=["Gaussian", "bounds to be found", "rows", "a shared count", "no room"],
)
def test_other_averages_keep_their_centred_sum(options, items):
    measures = [release.measure for release in planned(options, items).releases]
    assert all(getattr(measure, "origin", "middle") == "middle" for measure in measures)


def test_the_same_average_twice_is_drawn_once():
    plan = planned("epsilon = 1", f"{MEAN}, {MEAN.replace('AVG', 'SUM')}, {MEAN} + 1 AS more")
    assert sum(isinstance(release.measure, OwnerMean) for release in plan.releases) == 2
    assert not any(isinstance(release.measure, OwnerCount) for release in plan.releases)


def test_answers_are_the_average_and_intervals_cover_it():
    """At the edge of the bounds, where a centred sum is worst. 60 answers at 95%: more than 14 misses happen once in 10⁶ runs."""
    values = np.full(400, -1.9).tolist()
    with shoal.connect(table(values), catalog=CATALOG) as session:
        sure = session.query(f"{CLAUSE}(epsilon = 100000) {MEAN} AS a FROM t")
        assert sure["a"][0] == pytest.approx(-1.9, abs=1e-3)
        answers = [session.query(f"{CLAUSE}(epsilon = 1) {MEAN} AS a FROM t") for _ in range(60)]
    covered = [found["a_low"][0] <= -1.9 <= found["a_high"][0] for found in (answer.intervals() for answer in answers)]
    assert sum(covered) >= 46


def test_an_empty_table_has_an_average_between_the_bounds():
    with shoal.connect(table([]), catalog=CATALOG) as session:
        assert -2 <= session.query(f"{CLAUSE}(epsilon = 1) {MEAN} AS a FROM t")["a"][0] <= 9


def test_the_expected_error_is_that_of_one_sum_over_the_owners():
    with shoal.connect(table([1.0]), catalog=CATALOG) as session:
        sql = f"{CLAUSE}(epsilon = 1) {MEAN} AS a FROM t"
        epsilon = session.epsilon_for(sql, error=0.01, owners=10_000)
    # ln(40)·11/(ε·10,000) = 0.01: both noises stay within their widths at 97.5% each.
    assert float(epsilon) == pytest.approx(np.log(40) * 11 / 100, rel=0.01)


def test_noise_of_both_sums_is_laplace():
    assert isinstance(planned("epsilon = 1, delta = 1e-6").releases[0].noise, LaplaceNoise)
    assert planned("epsilon = 1").releases[0].noise.epsilon > Fraction(999, 1000)
