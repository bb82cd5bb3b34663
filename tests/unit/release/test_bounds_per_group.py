"""Bounds of its own for every group: found after selection, used for clamping and noise, told in notes and reports."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import shoal
from shoal.audit.suite.replay import Neighbours
from shoal.mechanisms.entropy import seeded_entropy
from shoal.plan.totals import LeafCounts
from shoal.release.bounds_per_group import find_bounds, measure_classes
from shoal.release.execute import fresh_sampling_key
from shoal.release.resolve_bounds import histogram_query

CATALOG = {"tables": {"pay": {"owner": "uid"}, "jobs": {"public": True}}}
OPTIONS = "delta = 1e-6, max_groups_contributed = 3, inferred_bounds = PER_GROUP"
SURE = f"epsilon = 100000, {OPTIONS}"
OWNERS, SCALES = 600, {"small": 1.0, "middle": 100.0, "large": 10_000.0}
ITEMS = "COUNT(*) AS n, SUM(x) AS s, AVG(x) AS a, STDDEV(x) AS d, MEDIAN(x) AS m, MAX(x) AS t, APPROX_BOUNDS(x) AS b"


@pytest.fixture(scope="module")
def tables():
    """Every owner once in each of three groups whose values differ by powers of a hundred; one group has one owner."""
    rng = np.random.default_rng(3)
    parts = [
        pa.table({"uid": np.arange(OWNERS), "job": [job] * OWNERS, "x": scale * rng.uniform(1.05, 1.95, OWNERS)})
        for job, scale in SCALES.items()
    ]
    lonely = pa.table({"uid": [OWNERS], "job": ["rare"], "x": [1e6]})
    return {"pay": pa.concat_tables([*parts, lonely]), "jobs": pa.table({"job": [*SCALES, "none"]})}


@pytest.fixture(scope="module")
def pay(tables):
    with shoal.connect(tables, catalog=CATALOG) as session:
        yield session


def asked(items: str, options: str = SURE, rest: str = "FROM pay GROUP BY job ORDER BY job") -> str:
    return f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({options}) job, {items} {rest}"


def test_answers_agree_with_plain_sql_when_bounds_do_not_bind(pay, tables):
    rows = {row["job"]: row for row in pay.query(asked(ITEMS)).to_dicts()}
    assert set(rows) == set(SCALES)
    for job, scale in SCALES.items():
        x = tables["pay"].filter(pa.compute.equal(tables["pay"]["job"], job))["x"].to_numpy()
        row = rows[job]
        low, high = row["b"]
        leaf = (high - low) / 16**4
        assert row["n"] == OWNERS
        assert row["s"] == pytest.approx(x.sum(), abs=0.01 * scale)
        assert row["a"] == pytest.approx(x.mean(), abs=0.001 * scale)
        assert row["d"] == pytest.approx(x.std(ddof=1), rel=0.01)
        assert row["m"] == pytest.approx(np.median(x), abs=leaf + 0.01 * scale)
        assert row["t"] == pytest.approx(x.max(), abs=2 * leaf)


def test_bounds_are_powers_of_two_around_the_values_of_their_own_group(pay):
    found = {row["job"]: row["b"] for row in pay.query(asked("APPROX_BOUNDS(x) AS b")).to_dicts()}
    assert found == {"small": [1.0, 2.0], "middle": [64.0, 256.0], "large": [8192.0, 32768.0]}


def test_small_groups_get_small_noise(pay):
    options = f"epsilon = 2, {OPTIONS}"
    together = pay.query(asked("SUM(x) AS s", options.replace("PER_GROUP", "GLOBAL"))).intervals()
    width = together["s_high"][0] - together["s_low"][0]

    def is_small():
        each = pay.query(asked("SUM(x) AS s", options)).intervals()
        widths = dict(zip(each["job"], np.subtract(each["s_high"], each["s_low"]), strict=True))
        small, middle, large = (widths.get(job, np.inf) for job in SCALES)
        return small < middle / 50 < large / 2000 and small < width / 1000

    # An empty bin of a group stands out by chance in less than 1 of 20 answers.
    assert any(is_small() for _ in range(8))


@pytest.mark.slow
def test_intervals_cover_the_truth_of_every_group_at_their_level(pay, tables):
    """100 answers of 3 groups at 80%: fewer than 190 of 300 covered has a chance below 1e-9."""
    truth = {job: float(np.sum(_values(tables, job))) for job in SCALES}
    covered = 0
    for _ in range(100):
        rows = pay.query(asked("SUM(x) AS s", f"epsilon = 2, {OPTIONS}")).intervals(0.8).to_dicts()
        covered += sum(row["s_low"] <= truth[row["job"]] <= row["s_high"] for row in rows)
    assert covered >= 190


def _values(tables, job):
    return tables["pay"].filter(pa.compute.equal(tables["pay"]["job"], job))["x"].to_numpy()


def test_a_group_without_bounds_has_null_and_says_so(pay):
    rest = "FROM pay RIGHT JOIN jobs ON pay.job = jobs.job GROUP BY jobs.job ORDER BY job"
    options = f"{SURE}, group_selection_strategy = PUBLIC_GROUPS"
    sql = asked("SUM(x) AS s, COUNT(*) AS n", options, rest).replace(" job, ", " jobs.job AS job, ", 1)
    result = pay.query(sql)
    rows = {row["job"]: row for row in result.to_dicts()}
    assert rows["none"] == {"job": "none", "s": None, "n": 0}
    assert rows["small"]["n"] == OWNERS
    assert any("1 group has none: NULL there" in note for note in result.notes)
    assert any("1 group has none: each owner counts once there" in note for note in result.notes)


def test_nobody_shown_is_an_answer_with_all_columns(pay):
    result = pay.query(
        asked("SUM(x) AS s, COUNT(*) AS n", f"epsilon = 0.01, {OPTIONS}", "FROM pay WHERE x > 1e5 GROUP BY 1")
    )
    assert (len(result), result.columns) == (0, ["job", "s", "n"])
    assert len(result.intervals()) == 0


def test_reports_tell_the_bounds_of_their_row(pay):
    rows = pay.query(asked("SUM(x, report_format => 'JSON') AS s")).to_dicts()
    told = {row["job"]: json.loads(row["s"])["bounds"] for row in rows}
    assert told["small"]["upper"] == 2.0
    assert told["large"]["upper"] == 32768.0
    assert told["small"]["source"] == "inferred"
    assert 0 <= told["small"]["share_outside"] < 0.01


def test_error_bars_pass_an_outer_query(pay):
    inner = asked("SUM(x) AS s", f"epsilon = 2, {OPTIONS}", "FROM pay GROUP BY job")
    result = pay.query(f"SELECT p.job AS job, p.s AS total FROM ({inner}) AS p JOIN jobs ON p.job = jobs.job")
    bars = {row["job"]: row["total_high"] - row["total_low"] for row in result.intervals().to_dicts()}
    assert bars["small"] < bars["middle"] < bars["large"]


def test_a_row_that_a_join_adds_has_no_interval(pay):
    for how in ("PER_GROUP", "GLOBAL"):
        options = f"epsilon = 10, {OPTIONS}".replace("PER_GROUP", how)
        inner = asked("SUM(x) AS s, COUNT(*) AS n, AVG(x) AS a", options, "FROM pay GROUP BY job")
        result = pay.query(f"SELECT jobs.job, p.s, p.n, p.a FROM jobs LEFT JOIN ({inner}) AS p ON p.job = jobs.job")
        rows = {row["job"]: row for row in result.intervals().to_dicts()}
        assert set(rows["none"].values()) == {"none", None}
        assert None not in rows["small"].values()


def test_the_price_is_told_before_and_after(pay):
    laplace = f"epsilon = 2, noise = LAPLACE, {OPTIONS}"
    explained = pay.explain(asked("SUM(x) AS s", laplace))
    assert "histogram of 181 bins for each group" in str(explained)
    assert "ε = 0.5" in str(explained)
    assert any("found privately for ε = 0.5" in note for note in pay.query(asked("SUM(x) AS s", laplace)).notes)
    gaussian = pay.query(asked("SUM(x) AS s, AVG(x) AS a", f"epsilon = 2, noise = GAUSSIAN, {OPTIONS}"))
    assert any("of the joint release" in note for note in gaussian.notes)


def test_noise_of_histograms_covers_every_group_of_an_owner(pay):
    (select,) = pay.plan(asked("SUM(x) AS s", f"epsilon = 2, noise = LAPLACE, {OPTIONS}")).selects
    (histogram,) = select.histograms
    assert histogram.noise.shift.coordinates == 3
    assert Fraction(3) / histogram.noise.scale == pytest.approx(0.5, rel=0.1)  # about a quarter of ε, over three groups


def test_without_groups_there_is_nothing_to_tell_apart(pay):
    options = "epsilon = 1, max_groups_contributed = 1, inferred_bounds = {}"
    one = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({options}) SUM(x) AS s FROM pay"
    plans = [pay.plan(one.format(how)).selects[0] for how in ("GLOBAL", "PER_GROUP")]
    assert plans[0].releases == plans[1].releases
    assert not plans[1].finds_bounds_per_group


def test_bounds_that_are_known_are_not_looked_for(pay):
    (select,) = pay.plan(asked("SUM(x, contribution_bounds_per_group => (0, 5)) AS s")).selects
    assert not select.histograms


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("epsilon = 1, delta = 1e-6, inferred_bounds = SOMEHOW", "one of GLOBAL, PER_GROUP"),
        (
            "epsilon = 1, delta = 1e-6, max_rows_contributed = 3, inferred_bounds = PER_GROUP",
            "needs max_groups_contributed",
        ),
    ],
)
def test_what_cannot_be_is_refused(pay, options, told):
    with pytest.raises(shoal.ShoalError, match=told) as caught:
        pay.plan(asked("SUM(x) AS s", options))
    assert caught.value.code == "E_OPTION_INVALID"


def test_many_bounds_are_measured_in_several_questions(pay, monkeypatch):
    monkeypatch.setattr("shoal.release.bounds_per_group.TASKS_AT_ONCE", 2)
    monkeypatch.setattr("shoal.release.bounds_per_group.GROUPS_AT_ONCE", 2)
    rows = pay.query(asked("SUM(x) AS s, AVG(x) AS a")).to_dicts()
    assert [round(row["s"] / row["a"]) for row in rows] == [OWNERS] * 3


def test_exact_integers_of_a_class_are_those_of_its_bounds(pay):
    """Under bounds [1, 2] a large value counts as 2, whatever the bounds of its own group are."""
    (select,) = pay.plan(asked("SUM(x) AS s")).selects
    key = fresh_sampling_key(seeded_entropy(1))
    seen = pay._engine.totals(histogram_query(select), key)
    assert all(isinstance(histogram, LeafCounts) for histogram in seen.histograms)
    found = find_bounds(select, seen, np.arange(len(seen.owners)), seeded_entropy(1))
    measured = measure_classes(select, pay._engine, key, seen, found.classes)
    names = seen.keys.column(0).to_pylist()
    narrow = measured[found.class_of[names.index("small")]]
    clamped = narrow.measurement.totals[0][names.index("large")] * narrow.tasks[0].grid
    assert float(clamped) == pytest.approx(2 * OWNERS)


@pytest.mark.parametrize("owner", [0, OWNERS])
def test_one_owner_moves_histograms_and_sums_no_further_than_is_charged(tables, owner):
    with Neighbours.of(tables, CATALOG, owner) as pair:
        replayed = pair.replay(asked(ITEMS, SURE, "FROM pay GROUP BY job"), seed=4)
    assert replayed.passed, replayed.problems
    assert any(entry.mechanism.startswith("bounds of") and entry.l1 for entry in replayed.entries)
