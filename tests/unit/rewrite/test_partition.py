"""AVG off two sums that make a whole: what one owner moves of both, what the answer is, and how wide its interval."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shoal
from shoal.accounting.accountants import plan_loss
from shoal.accounting.events import LaplaceNoise
from shoal.mechanisms.entropy import seeded_entropy
from shoal.plan.aggregates.wholes import ends_of_variance
from shoal.plan.measures import OwnerCount, OwnerMean, Steps
from shoal.release.execute import fresh_sampling_key, measure, release

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
        ("epsilon = 1, max_rows_contributed = 3", MEAN),
        ("epsilon = 1", f"{MEAN}, AVG(x)"),
        ("epsilon = 1", "AVG(x, contribution_bounds_per_group => (3, 3))"),
    ],
    ids=["Gaussian", "rows", "a shared count", "no room"],
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


@pytest.mark.parametrize(("items", "parts"), [("AVG(x)", 2), ("VAR_POP(x, max_contributions_per_group => 1)", 3)])
def test_where_bounds_are_found_the_parts_share_what_is_left_of_epsilon(items, parts):
    plan = planned("epsilon = 1, kappa = 1", items)
    noise = plan.releases[0].noise
    assert len(plan.releases) == parts == noise.shift.touched
    assert plan.events == (plan.histograms[0].noise, noise)
    assert 0.499 < noise.epsilon <= Fraction(1, 2)


@pytest.mark.parametrize("values", [[3.0] * 900, [-70.0, 3.0] * 450, [0.001] * 900])
def test_bounds_that_are_found_shrink_the_noise_of_both_sums_with_the_whole(values):
    """What is drawn loses what is charged: the move of one more owner over the scale, for whatever bounds come out."""
    with shoal.connect(table(values), catalog=CATALOG) as session:
        plan = session.plan(f"{CLAUSE}(epsilon = 1, kappa = 1) AVG(x) FROM t").selects[0]
        found = measure(plan, session._engine, fresh_sampling_key(seeded_entropy(1)), seeded_entropy(1))
        answers = [release(plan, found, seeded_entropy(seed)).table.column(0)[0].as_py() for seed in range(20)]
    noise, steps = found.noises[0], found.tasks[0].steps
    assert noise == found.noises[1]
    assert noise.shift.per_coordinate == steps.upper - steps.lower <= plan.releases[0].noise.shift.per_coordinate
    assert noise.epsilon <= plan.releases[0].noise.epsilon
    assert np.median(answers) == pytest.approx(
        np.mean(values), abs=0.02 * float(found.bounds[0].upper - found.bounds[0].lower)
    )


def test_bounds_that_are_found_without_room_say_nothing_and_why():
    with shoal.connect(table([0.0] * 900), catalog=CATALOG) as session:
        sql = f"{CLAUSE}(epsilon = 4, kappa = 1) AVG(x) AS a, STDDEV(x, max_contributions_per_group => 1) AS d FROM t"
        found = session.query(sql)
        assert (found["a"][0], found["d"][0]) == (None, None)
        assert any(note.startswith("a: no bounds") for note in found.notes)


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


SPREAD = "VAR_POP(x, contribution_bounds_per_row => (-2, 9), max_contributions_per_group => 1)"


def squares(values) -> tuple[int, ...]:
    """The three sums before noise."""
    with shoal.connect(table(values), catalog=CATALOG) as session:
        plan = session.plan(f"{CLAUSE}(epsilon = 1, kappa = 1) {SPREAD} FROM t").selects[0]
        found = measure(plan, session._engine, fresh_sampling_key(seeded_entropy(1)), seeded_entropy(1))
        return tuple(int(total[0]) for total in found.measurement.totals)


@pytest.mark.parametrize("value", [-50.0, -2.0, 0.0, 1.234567, 9.0, 1e30, None])
def test_a_row_moves_the_three_sums_of_a_variance_by_the_square_of_the_width_together(value):
    noise = planned("epsilon = 1, kappa = 1", SPREAD).releases[0].noise
    moved = np.subtract(squares([1.0, value]), squares([1.0]))
    whole = int(121 / noise.grid)
    assert int(np.abs(moved).sum()) == (0 if value is None else whole)
    assert min(moved) >= 0
    assert (noise.shift.l1, noise.shift.touched) == (whole, 3)


def test_the_three_sums_of_a_variance_are_charged_once_for_all_of_epsilon():
    plan = planned("epsilon = 1, kappa = 1", f"{SPREAD}, {SPREAD.replace('VAR_POP', 'STDDEV')}")
    assert [release.measure.origin for release in plan.releases] == ["lower", "between", "upper"]
    assert plan.events == (plan.releases[0].noise,)
    assert 0.999 < plan_loss(plan.events).epsilon <= 1


@pytest.mark.parametrize(
    ("options", "items"),
    [
        ("epsilon = 1, kappa = 1, delta = 1e-6, noise = GAUSSIAN", SPREAD),
        (
            "epsilon = 1, max_rows_contributed = 3",
            f"{SPREAD.replace(', max_contributions_per_group => 1', '')}, AVG(x)",
        ),
        (
            "epsilon = 1, kappa = 1",
            "VAR_POP(x, contribution_bounds_per_row => (3, 3), max_contributions_per_group => 1)",
        ),
    ],
    ids=["Gaussian", "sums that are shared", "no room"],
)
def test_other_variances_keep_their_centred_sums(options, items):
    assert all(release.measure.origin == "middle" for release in planned(options, items).releases)


def drawn_variances(values, function, draws):
    """Answers, and ends of their intervals at 95%."""
    sql = f"{CLAUSE}(epsilon = 1, kappa = 1) {SPREAD.replace('VAR_POP', function)} FROM t"
    with shoal.connect(table(values), catalog=CATALOG) as session:
        plan = session.plan(sql).selects[0]
        exact_sums = measure(plan, session._engine, fresh_sampling_key(seeded_entropy(1)), seeded_entropy(1))
        rows = [release(plan, exact_sums, seeded_entropy(seed)) for seed in range(draws)]
    aggregate = plan.columns[0].call.aggregate
    ends = [aggregate.interval(row.readings[0], 0.95) for row in rows]
    return [row.table.column(0).to_pylist()[0] for row in rows], [(low[0], high[0]) for low, high in ends]


@pytest.mark.parametrize(("low", "high", "better"), [(-2, 9, 1.2), (-2, -1, 1.7), (8, 9, 1.7)])
def test_a_variance_strays_less_than_off_centred_sums(low, high, better):
    """300 draws: a root mean square error is within 25% of its value, and 265 intervals of 95% cover, up to a chance of 1e-6."""
    values = np.random.default_rng(3).uniform(low, high, 400)
    answers, ends = drawn_variances(values, "VAR_POP", 300)
    truth = float(np.var(values))
    error = np.sqrt(np.mean((np.array(answers) - truth) ** 2))
    # Sums of y and y² with half and a quarter of epsilon, and a quarter for the count, to first order.
    mean, square = float(np.mean(values)) - 3.5, float(np.mean((values - 3.5) ** 2))
    centred = np.sqrt(2) / 400 * np.hypot(np.hypot(2 * mean * 5.5 * 4, 5.5**2 * 2), (square - 2 * mean**2) * 4)
    assert error * better < centred * 1.25
    assert sum(least <= truth <= most for least, most in ends) >= 265
    assert all(least <= answer <= most for answer, (least, most) in zip(answers, ends, strict=True))


def test_samples_and_roots_are_read_off_the_same_sums():
    values = np.random.default_rng(3).uniform(-2, 9, 60)
    population, _ = drawn_variances(values, "VAR_POP", 3)
    deviation, ends = drawn_variances(values, "STDDEV_POP", 3)
    sample, _ = drawn_variances(values, "VAR_SAMP", 3)
    assert np.allclose(np.square(deviation), population)
    assert all(more > less for more, less in zip(sample, population, strict=True) if less)
    assert all(low <= high for low, high in ends)


@pytest.mark.parametrize("values", [[], [4.0], [4.0, 4.0]])
def test_a_variance_of_hardly_any_rows_may_be_anything(values):
    answers, ends = drawn_variances(values, "VAR_POP", 20)
    assert all(0 <= answer <= 30.25 * 1.01 for answer in answers)
    assert all(low == 0 for low, _ in ends)


@settings(deadline=None, max_examples=200)
@given(st.lists(st.floats(0, 50), min_size=3, max_size=3), st.floats(0.01, 8), st.randoms(use_true_random=False))
def test_no_place_in_the_box_has_a_variance_beyond_its_ends(sums, width, random):
    """The ends of the interval against places drawn inside the box, edges and corners among them."""
    readings = [FakeReading(total, width) for total in sums]
    ((least,), (most,)), _ = ends_of_variance(readings, 0.95)
    for _ in range(60):
        place = [max(total + width * random.choice((-1.0, 1.0, random.uniform(-1, 1))), 0.0) for total in sums]
        above, between, below = place
        total = max(sum(place), 1.0)
        inside = min(max((above * below - between**2 / 4) / total**2, 0.0), 0.25)
        assert least - 1e-9 <= inside <= most + 1e-9


class FakeReading:
    """A noisy sum whose noise has a known width; the whole is 1."""

    steps, grid = Steps(0, 1, 0), Fraction(1)

    def __init__(self, total, width):
        self.floats, self._width = np.array([total]), width

    def half_width(self, _level):
        return self._width
