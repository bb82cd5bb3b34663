# ruff: noqa: PD011 - a release has values, and is no data frame
"""Releases under a policy: exact totals, noise that is charged, consistent answers, ledgers, and data of every kind."""

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from shoal import policy
from shoal.accounting.ledger import Ledger
from shoal.errors import ShoalError
from shoal.mechanisms.entropy import seeded_entropy
from shoal.mechanisms.noise import draw_noise
from shoal.params import Budget
from shoal.policies import answers, charging, planning
from shoal.policies.strategies import discrete_variance

AGES = policy.Domain({"age": range(101)})
NEAR = policy.Policy(AGES, policy.distance(age=5), name="nearby_age")
TENS = policy.Policy(AGES, policy.partition(age=[0, *range(11, 100, 10)]), name="tens")
BOTH = policy.Domain({"age": range(101), "ward": ["A", "B", "C"]})
WARDS = policy.Policy(BOTH, policy.distance(age=5), known=[policy.counts_by("ward")], name="wards")
HUGE = 10**6


def people(rows=500, seed=1):
    rng = np.random.default_rng(seed)
    return {
        "uid": np.arange(rows),
        "age": rng.integers(0, 101, rows),
        "ward": rng.choice(["A", "B", "C"], rows),
    }


class Exact:
    """Records for a plan, straight from a table."""

    def __init__(self, domain, data):
        self.domain, self.data = domain, data

    def counts(self, names):
        seen = self.domain.projected(names)
        found = np.zeros(seen.size, dtype=np.int64)
        for record in zip(*(self.data[name] for name in seen.names), strict=True):
            found[seen.index(tuple(getattr(v, "item", lambda v=v: v)() for v in record))] += 1
        return found


def repeated(plan, records, runs, seed=11):
    """`answers.draw` many times over, the noise of all runs drawn at once from a seeded source."""
    entropy = seeded_entropy(seed)
    exact = [np.array(each.totals(records), dtype=np.int64) for each in plan.measured]
    noisy = [
        (total + draw_noise(each.event, runs * len(total), entropy).reshape(runs, len(total))).tolist()
        for each, total in zip(plan.measured, exact, strict=True)
    ]
    runs_left = iter(zip(*noisy, strict=True))
    return lambda: list(next(runs_left))


@pytest.mark.parametrize("rule", [NEAR, TENS, policy.Policy(AGES, policy.full())])
@pytest.mark.parametrize("kind", ["histogram", "cumulative", "sum", "mean", "ranges", "linear"])
def test_with_hardly_any_noise_every_answer_is_the_plain_one(rule, kind):
    data = people()
    age = data["age"]
    query, truth = {
        "histogram": (policy.histogram("age"), np.bincount(age, minlength=101)),
        "cumulative": (policy.cumulative("age"), np.cumsum(np.bincount(age, minlength=101))),
        "sum": (policy.sum("age"), age.sum()),
        "mean": (policy.mean("age"), age.mean()),
        "ranges": (
            policy.ranges("age", [(0, 17), (18, 64), (3, 3)]),
            [(age < 18).sum(), ((age > 17) & (age < 65)).sum(), (age == 3).sum()],
        ),
        "linear": (
            policy.linear(lambda r: [r["age"] ** 2, Fraction(r["age"], 2)], name="f"),
            [(age**2).sum(), age.sum() / 2],
        ),
    }[kind]
    found = policy.release(data, query, rule, epsilon=HUGE)
    assert np.allclose(np.array(found.values, dtype=float), truth, atol=0.05)
    assert found.promise.startswith(f"policy {rule.name}: hidden:")


@pytest.mark.parametrize("make", [pa.table, pd.DataFrame, pl.DataFrame, dict])
def test_data_may_come_in_every_shape(make):
    data = {"age": [30.9, 41, 52, None, 200, -3], "ward": ["A", "B", "nowhere", "A", "C", "C"]}
    found = policy.release(make(data), policy.histogram("age"), WARDS, epsilon=HUGE)
    counted = {key: round(value) for key, value in zip(found.keys, found.values, strict=True) if round(value)}
    # Rounded down, clamped; rows with NULL or an unknown value are dropped.
    assert counted == {30: 1, 41: 1, 100: 1, 0: 1}


def test_a_path_is_data_too(tmp_path):
    import pyarrow.parquet as pq

    pq.write_table(pa.table(people(50)), tmp_path / "people.parquet")
    found = policy.release(tmp_path / "people.parquet", policy.sum("age"), NEAR, epsilon=HUGE)
    assert found.values == people(50)["age"].sum()


def test_not_a_number_is_missing_and_infinity_is_clamped():
    found = policy.release({"age": [math.nan, math.inf, -math.inf, 7.5]}, policy.histogram("age"), NEAR, epsilon=HUGE)
    assert {k: round(v) for k, v in zip(found.keys, found.values, strict=True) if round(v)} == {0: 1, 7: 1, 100: 1}


def test_unsigned_and_decimal_columns_are_rounded_down():
    from decimal import Decimal

    unsigned = pa.table({"age": pa.array([2**64 - 1, 5], type=pa.uint64())})
    decimals = pa.table({"age": pa.array([Decimal("5.99"), Decimal("-0.01")])})
    for data, expected in ((unsigned, 105), (decimals, 5)):
        assert policy.release(data, policy.sum("age"), NEAR, epsilon=HUGE).values == expected


def test_exact_answers_are_exact_free_and_say_so():
    found = policy.release(
        people(), policy.histogram("ward"), policy.Policy(BOTH, policy.distance(age=5)), epsilon=0.01
    )
    assert found.values == np.unique(people()["ward"], return_counts=True)[1].tolist()
    assert (found.mechanism, found.epsilon) == ("exact", 0)
    assert "exact" in found.promise


@pytest.mark.parametrize("rule", [NEAR, TENS, WARDS, policy.Policy(BOTH, policy.full(), [policy.counts_by("ward")])])
def test_answers_are_consistent_with_what_is_known(rule):
    data = people(200)
    counts = policy.release(data, policy.histogram("age"), rule, epsilon=0.1)
    assert min(counts.values) >= 0
    assert sum(counts.values) == pytest.approx(200)
    below = policy.release(data, policy.cumulative("age"), rule, epsilon=0.1)
    assert below.cdf() == sorted(below.cdf())
    assert (below.cdf()[0] >= 0, below.cdf()[-1]) == (True, 200)
    assert 0 <= below.range(18, 64).low <= below.range(18, 64).high <= 200
    assert 0 <= below.quantile(0.5) <= 100
    total = policy.release(data, policy.sum("age"), rule, epsilon=0.001)
    assert 0 <= total.values <= 200 * 100


def test_known_totals_make_a_histogram_consistent_cell_by_cell():
    data = people(200)
    truth = dict(zip(*np.unique(data["ward"], return_counts=True), strict=True))
    rule = policy.Policy(BOTH, policy.full(), [policy.counts_by("ward")])
    for totals in (None, {"A": 10, "B": 20, "C": 170}):
        found = policy.release(data, policy.histogram("age", "ward"), rule, epsilon=0.5, totals=totals)
        for ward, total in (totals or truth).items():
            kept = [value for (_, w), value in zip(found.keys, found.values, strict=True) if w == ward]
            assert sum(kept) == pytest.approx(total)


@pytest.mark.parametrize(
    "query", [policy.histogram("age"), policy.cumulative("age"), policy.ranges("age", [(0, 17), (18, 64)])]
)
@pytest.mark.parametrize(
    "rule", [NEAR, TENS, policy.Policy(AGES, policy.distance(age=1)), policy.Policy(AGES, policy.full())]
)
def test_intervals_hold_as_often_as_they_say(rule, query):
    """400 releases × several answers at 90%: below 85% of covered answers would happen with a chance under 1e-6."""
    data = people(300, seed=3)
    plan = planning.plan_release(query, rule, Fraction(1))
    draw = repeated(plan, Exact(AGES, data), 400)
    truth = np.array(policy.release(data, query, rule, epsilon=HUGE).values)
    covered = []
    for _ in range(400):
        found = answers.answer(plan, draw(), 300, 0.9)
        inside = (np.array(found.low) <= truth + 0.05) & (truth - 0.05 <= np.array(found.high))
        covered.append(inside[:: max(1, len(inside) // 7)])
    assert np.mean(covered) > 0.85


@pytest.mark.parametrize(
    "rule", [NEAR, TENS, policy.Policy(AGES, policy.distance(age=20)), policy.Policy(AGES, policy.full())]
)
def test_the_expected_error_of_ranges_is_the_measured_one(rule):
    """600 releases: the mean squared error of 60 ranges lies within 15% of the formula (5 standard errors and more)."""
    data = people(300, seed=3)
    plan = planning.plan_release(policy.cumulative("age"), rule, Fraction(1))
    draw = repeated(plan, Exact(AGES, data), 600)
    truth = np.append(0, np.cumsum(np.bincount(data["age"], minlength=101)))
    rng = np.random.default_rng(0)
    errors = []
    for _ in range(600):
        raw = np.append(0, answers.prefix_estimates(plan, draw(), 300)) - truth
        low, high = np.sort(rng.integers(0, 102, (60, 2)), axis=1).T
        kept = low < high
        errors.append(float(((raw[high] - raw[low])[kept] ** 2).mean()))
    assert np.mean(errors) == pytest.approx(plan.expected_error, rel=0.15)


@pytest.mark.parametrize(
    ("query", "rule"),
    [
        (policy.histogram("age"), NEAR),
        (policy.cumulative("age"), NEAR),
        (policy.cumulative("age"), TENS),
        (policy.ranges("age", [(0, 17), (18, 64)]), NEAR),
        (policy.sum("age"), NEAR),
        (policy.linear(lambda r: [r["age"] % 7, 1], name="f"), NEAR),
        (policy.cumulative("age"), policy.Policy(AGES, policy.graph([(1, 3), (50, 90), (60, 61)]))),
        (policy.histogram("age", "ward"), policy.Policy(BOTH, policy.full(), [policy.counts_by("ward")])),
        (policy.cumulative("age"), policy.Policy(BOTH, policy.attributes(1), [policy.counts_by("ward")])),
    ],
)
@pytest.mark.parametrize("public_n", [True, False])
def test_the_noise_covers_every_neighbour(query, rule, public_n):
    """The loss between neighbours, from the exact totals and the scales that are run: never above what is charged."""
    plan = planning.plan_release(query, rule, Fraction(1), public_n=public_n)
    largest = Fraction(0)
    for first, second in policy.pairs(rule, limit=60):
        sides = []
        for side in (first, second):
            rows = [record if isinstance(record, tuple) else (record,) for record in side]
            data = {name: [row[i] for row in rows] for i, name in enumerate(rule.domain.names)}
            sides.append([each.totals(Exact(rule.domain, data)) for each in plan.measured])
        loss = Fraction(0)
        for each, x, y in zip(plan.measured, *sides, strict=True):
            moved = sum(abs(a - b) for a, b in zip(x, y, strict=True))
            assert each.scale or not moved
            loss += Fraction(moved) / each.scale if moved else 0
        largest = max(largest, loss)
    assert largest <= plan.epsilon <= 1
    assert largest >= plan.epsilon / (2 * rule.moves) > 0


def test_rows_per_owner_are_drawn_and_noise_grows_with_them():
    data = {"uid": [1] * 50 + [2], "age": [10] * 50 + [20]}
    one = policy.release(data, policy.histogram("age"), NEAR, epsilon=HUGE, owner="uid")
    assert round(one.values[10]) == round(one.values[20]) == 1
    two = policy.release(data, policy.histogram("age"), NEAR, epsilon=HUGE, owner="uid", max_rows_per_owner=2)
    assert (round(two.values[10]), round(two.values[20])) == (2, 1)
    shown = policy.explain(policy.sum("age"), NEAR, epsilon=1, owner="uid", max_rows_per_owner=3)
    assert shown.scale == 15
    assert "3 row(s) of each uid" in shown.promise


def test_rows_of_an_owner_are_equally_likely():
    """3,000 draws of 1 of 3 rows: each share within 0.06 of 1/3, which a fair draw misses with a chance under 1e-10."""
    from shoal.engines.domain_records import sampled_rows

    owners = pa.chunked_array([pa.array(["a", "b"]), pa.array(["a", "a"])])
    entropy = seeded_entropy(3)
    picked = [sorted(sampled_rows(owners, 1, entropy).tolist()) for _ in range(3000)]
    assert all(len(rows) == 2 for rows in picked)
    shares = [np.mean([row in rows for rows in picked]) for row in range(4)]
    assert shares[1] == 1
    assert all(abs(shares[row] - 1 / 3) < 0.06 for row in (0, 2, 3))


# ---- ledgers -----------------------------------------------------------------------------------------------------


def book(epsilon=100):
    return Ledger.in_memory(Budget(Fraction(epsilon), Fraction(0)))


def test_a_ledger_about_owners_is_charged_the_owner_level_loss():
    ledger = book()
    found = policy.release(people(), policy.sum("age"), NEAR, epsilon=1, ledger=ledger, owner="uid")
    assert found.epsilon == 1
    assert ledger.spent == (20, 0)
    assert "policy nearby_age" in ledger.entries()[0].description


def test_on_a_ledger_about_owners_no_answer_uses_the_number_of_records():
    ledger = book(10**6)
    below = policy.release(people(200), policy.cumulative("age"), NEAR, epsilon=HUGE / 1000, ledger=ledger, owner="uid")
    assert below.cdf() == sorted(below.cdf())
    plan = planning.plan_release(policy.cumulative("age"), NEAR, Fraction(1), public_n=False)
    assert math.isfinite(plan.owner_loss)
    assert sum(each.table.coordinates for each in plan.measured if each.scale) >= 101


@pytest.mark.parametrize(
    ("query", "rule", "owner"),
    [
        (policy.mean("age"), NEAR, "uid"),
        (policy.histogram("ward"), policy.Policy(BOTH, policy.distance(age=5)), "uid"),
        (policy.cumulative("age"), TENS, "uid"),
        (policy.sum("age"), NEAR, None),
    ],
)
def test_what_owner_level_privacy_cannot_bound_is_refused_and_costs_nothing(query, rule, owner):
    ledger = book()
    with pytest.raises(ShoalError) as refused:
        policy.release(people(), query, rule, epsilon=1, ledger=ledger, owner=owner)
    assert refused.value.code == "E_BUDGET"
    assert ledger.entries() == []


def test_an_empty_budget_refuses_before_data_is_read():
    ledger = book(1)
    with pytest.raises(ShoalError) as refused:
        policy.release(people(), policy.sum("age"), NEAR, epsilon=1, ledger=ledger, owner="uid")
    assert refused.value.code == "E_BUDGET"
    assert ledger.spent == (0, 0)


def test_a_release_on_a_budget_costs_no_less_than_a_query():
    ledger = book()
    with pytest.raises(ShoalError, match="at least epsilon") as refused:
        policy.release(people(), policy.sum("age"), NEAR, epsilon=0.001, ledger=ledger, owner="uid")
    assert refused.value.code == "E_POLICY"
    assert ledger.spent == (0, 0)


def test_a_ledger_may_be_a_path(tmp_path):
    Ledger.create(tmp_path / "budget", Budget(Fraction(30), Fraction(0)))
    policy.release(people(), policy.sum("age"), NEAR, ledger=tmp_path / "budget", owner="uid", user="ann")
    assert Ledger.open(tmp_path / "budget").spent_by_user() == {"ann": (20, 0)}


def policy_book(rule, epsilon=100):
    return Ledger.in_memory(Budget(Fraction(epsilon), Fraction(0)), promise=charging.promise_of(rule))


def test_on_a_ledger_of_the_same_policy_sums_are_exact_and_the_same_rational():
    ledger = policy_book(TENS)
    total = Fraction(0)
    for query in (policy.cumulative("age"), policy.mean("age"), policy.histogram("age")):
        found = policy.release(people(), query, TENS, epsilon=0.3, ledger=ledger, owner="uid")
        assert found.epsilon == policy.explain(query, TENS, epsilon=0.3, owner="uid").epsilon
        total += found.epsilon
    assert ledger.spent == (total, 0)
    assert sum(policy.release(people(), policy.histogram("age"), TENS, ledger=ledger).values) == pytest.approx(500)


def test_on_a_ledger_of_another_policy_a_release_costs_what_it_loses_there():
    full = policy.Policy(AGES, policy.full(), name="full")
    ten = policy.Policy(AGES, policy.distance(age=10), name="ten")
    for about, cost in ((ten, 2), (full, 20)):
        ledger = policy_book(about)
        policy.release(people(), policy.sum("age"), NEAR, epsilon=1, ledger=ledger, owner="uid")
        assert ledger.spent == (cost, 0)
        assert cost == policy.stretch(NEAR, about)
    for query, rule in (
        (policy.cumulative("age"), TENS),
        (policy.histogram("ward"), policy.Policy(BOTH, policy.full())),
    ):
        ledger = policy_book(full)
        with pytest.raises(ShoalError) as refused:
            policy.release(people(), query, rule, epsilon=1, ledger=ledger, owner="uid")
        assert refused.value.code == "E_BUDGET"
        assert ledger.entries() == []


def test_clusters_are_charged_under_the_ledgers_policy():
    parts = policy.Policy(AGES, policy.partition(age=[0, 50]), name="parts")
    ledger = policy_book(parts)
    found = policy.kmeans(people(), 2, parts, epsilon=1, iterations=2, ledger=ledger, owner="uid")
    assert ledger.spent == (found.epsilon, 0)
    with pytest.raises(ShoalError, match="E_BUDGET"):
        policy.kmeans(people(), 2, parts, epsilon=1, ledger=policy_book(NEAR), owner="uid")
    ledger = policy_book(TENS)
    found = policy.kmeans(people(), 2, NEAR, epsilon=1, ledger=ledger, owner="uid")
    assert ledger.spent == (found.epsilon, 0)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"epsilon": 0}, "E_OPTION_INVALID"),
        ({"epsilon": math.nan}, "E_OPTION_INVALID"),
        ({"level": 2}, "E_OPTION_INVALID"),
        ({"max_rows_per_owner": 2}, "E_USAGE"),
        ({"owner": "nobody"}, "E_USAGE"),
        ({"data": {"years": [1]}}, "E_USAGE"),
        ({"data": {"age": ["old"]}}, "E_USAGE"),
        ({"query": "age"}, "E_USAGE"),
        ({"rule": "age"}, "E_USAGE"),
        ({"query": policy.histogram("height")}, "E_USAGE"),
        ({"ledger": 7}, "E_USAGE"),
    ],
)
def test_wrong_use_spends_nothing(change, code):
    ledger = book(1000)
    asked = {
        "data": people(5),
        "query": policy.sum("age"),
        "rule": NEAR,
        "epsilon": 1,
        "ledger": ledger,
        "owner": "uid",
    }
    if "max_rows_per_owner" in change:
        asked["owner"] = None
    asked |= change
    data, query, rule = asked.pop("data"), asked.pop("query"), asked.pop("rule")
    with pytest.raises(ShoalError) as refused:
        policy.release(data, query, rule, **asked)
    assert refused.value.code == code
    assert ledger.entries() == []


# ---- explain -----------------------------------------------------------------------------------------------------


def test_explain_puts_owner_level_privacy_beside_the_policy():
    total = policy.explain(policy.sum("age"), NEAR, epsilon=1)
    assert (total.mechanism, total.scale, total.epsilon, total.owner_level_epsilon) == ("noise", 5, 1, 20)
    assert total.expected_error == pytest.approx(discrete_variance(Fraction(5)))
    assert total.owner_level_error == pytest.approx(discrete_variance(Fraction(100)))
    assert not total.prefer_owner_level
    counts = policy.explain(policy.histogram("age"), NEAR)
    assert counts.prefer_owner_level
    assert "owner-level privacy would be as accurate: prefer it" in str(counts)
    assert str(counts).startswith("PROMISE: policy nearby_age")
    assert policy.explain(policy.mean("age"), NEAR).owner_level_epsilon == math.inf
    assert total.to_dict()["owner_level_epsilon"] == 20


def test_a_release_a_plan_and_an_explanation_name_the_same_epsilon():
    for query in (policy.cumulative("age"), policy.histogram("age"), policy.sum("age")):
        found = policy.release(people(), query, TENS, epsilon=0.3)
        assert found.epsilon == policy.explain(query, TENS, epsilon=0.3).epsilon <= Fraction(3, 10)


def test_a_loss_under_another_policy_is_at_most_the_stretch():
    full = policy.Policy(AGES, policy.full(), name="full")
    for query in (policy.sum("age"), policy.histogram("age"), policy.cumulative("age")):
        plan = planning.plan_release(query, NEAR, Fraction(1), public_n=False)
        assert plan.epsilon <= plan.loss_under(full) <= policy.stretch(NEAR, full)
        assert plan.loss_under(NEAR) == plan.epsilon
    assert planning.plan_release(policy.sum("age"), NEAR, Fraction(1)).loss_under(full) == 20
    exact = planning.plan_release(policy.histogram("ward"), policy.Policy(BOTH, policy.distance(age=5)), Fraction(1))
    assert exact.loss_under(policy.Policy(BOTH, policy.full())) == math.inf


def test_a_release_becomes_a_table_that_carries_its_promise():
    table = policy.release(people(), policy.histogram("age"), NEAR).to_arrow()
    assert table.column_names == ["key", "value", "low", "high"]
    assert table.schema.metadata[b"shoal.promise"].decode().startswith("policy nearby_age")
    assert policy.release(people(), policy.sum("age"), NEAR).to_dict()["mechanism"] == "noise"
    assert repr(policy.release(people(), policy.sum("age"), NEAR)).startswith("policy nearby_age")
