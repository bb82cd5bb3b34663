"""Measures against definitions spelled out row by row, and against the tables of the literature."""

from __future__ import annotations

import math

import brute
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal import ShoalError, anonymity

QUASI = ["a", "b"]


@st.composite
def tables(draw):
    size = draw(st.integers(1, 25))
    owners = draw(st.integers(1, 12))
    value = st.one_of(st.none(), st.integers(0, 2))
    return [
        {"a": draw(value), "b": draw(st.integers(0, 1)), "s": draw(value), "owner": draw(st.integers(1, owners))}
        for _ in range(size)
    ]


def arrow(rows):
    return pa.Table.from_pylist(
        rows, pa.schema([("a", pa.int64()), ("b", pa.int64()), ("s", pa.int64()), ("owner", pa.int64())])
    )


@settings(deadline=None, max_examples=120)
@given(rows=tables(), owned=st.booleans(), distance=st.sampled_from(["equal", "ordered"]))
def test_every_measure_is_its_definition(rows, owned, distance):
    found = anonymity.measure(
        arrow(rows), quasi=QUASI, sensitive="s", owner="owner" if owned else None, distance={"s": distance}
    )
    if not owned:
        rows = [row | {"owner": number} for number, row in enumerate(rows)]
    classes = brute.classes_of(rows, QUASI)
    sizes = {key: len(brute.owners_of(part)) for key, part in classes.items()}
    everybody = len(brute.owners_of(rows))
    assert (found.rows, found.owners, found.classes) == (len(rows), everybody, len(classes))
    assert found.k == min(sizes.values())
    assert found.profile_k == brute.profile_k(rows, QUASI)
    assert found.unique == sum(size == 1 for size in sizes.values())
    assert sum(size * count for size, count in found.sizes.items()) == sum(sizes.values())
    column, overall = found.sensitive["s"], brute.holders(rows, "s")
    assert column.distinct == min(brute.distinct_l(part, "s") for part in classes.values())
    assert column.entropy == pytest.approx(min(brute.entropy_l(part, "s") for part in classes.values()))
    for level in (1, 2, 3):
        assert column.recursive(level) == pytest.approx(
            max(brute.recursive_c(part, "s", level) for part in classes.values())
        )
    shares = [
        (count / sizes[key], overall[value] / everybody)
        for key, part in classes.items()
        for value, count in brute.holders(part, "s").items()
    ]
    assert column.alpha == pytest.approx(max(share for share, _ in shares))
    assert column.beta == pytest.approx(max(share / whole - 1 for share, whole in shares))
    assert column.t == pytest.approx(
        float(max(brute.closeness(part, rows, "s", distance) for part in classes.values())), abs=1e-12
    )
    assert column.homogeneous == sum(
        sizes[key] for key, part in classes.items() if max(brute.holders(part, "s").values()) == sizes[key]
    )


def test_tables_of_the_thesis():
    def k(*pairs):
        return anonymity.measure(
            pa.table({"zip": [z for z, _ in pairs], "age": [a for _, a in pairs]}), ["zip", "age"]
        ).k

    assert k(*[(4217, 34)] * 3, *[(1742, 77)] * 2) == 2
    assert k((4217, 34), (4217, 34), (1742, 77), (1743, 77)) == 1
    assert k((4217, 34), (4217, 77), (1742, 34), (1742, 77)) == 1


def diagnoses(*rows):
    table = pa.Table.from_pylist([{"zip": z, "age": a, "dx": d} for z, a, ds in rows for d in ds])
    return anonymity.measure(table, ["zip", "age"], "dx")


def test_diagnoses_of_the_thesis():
    found = diagnoses(("4210-4219", "30-39", ["cold", "n/a"]), ("4700-4799", "20-39", ["HIV", "HIV"]))
    assert (found.k, found.sensitive["dx"].distinct, found.sensitive["dx"].alpha) == (2, 1, 1.0)
    found = diagnoses(("4000-4999", "20-34", ["cold", "HIV"]), ("4000-4999", "35-39", ["n/a", "HIV"]))
    assert found.sensitive["dx"].distinct == 2
    found = diagnoses(("4", "3", ["cold", *["HIV"] * 8]))
    assert (found.sensitive["dx"].distinct, found.sensitive["dx"].alpha) == (2, 8 / 9)


def test_hospitals_of_the_blowfish_article():
    one = diagnoses(
        ("130**", "25-30", ["none", "stroke", "flu", "cancer"]), ("902**", "60-70", ["flu", "stroke", "flu", "cancer"])
    )
    assert (one.k, one.sensitive["dx"].distinct) == (4, 3)
    other = diagnoses(("130**", "< 40", ["cold", "stroke", "rash"]), ("1485*", ">= 40", ["cancer", "flu", "cancer"]))
    assert (other.k, other.sensitive["dx"].distinct) == (3, 2)


def decade(age):
    return f"{age // 10 * 10}-{age // 10 * 10 + 9}" if age < 60 else "60-"


AGES = [10, 12, 13, 13, 16, 43]
PEOPLE = [10] * 5 + [20] * 5 + [30] * 10 + [40] * 10 + [50] * 20 + [60] * 15


def test_a_trial_in_its_population():
    found = anonymity.measure(
        pa.table({"age": list(map(decade, AGES))}), "age", population=pa.table({"age": list(map(decade, PEOPLE))})
    )
    assert (found.k_map, found.presence) == (5, (0.0, 1.0))

    def young(age):
        return "10-39" if age < 40 else decade(age)

    found = anonymity.measure(
        pa.table({"age": list(map(young, AGES))}), "age", population=pa.table({"age": list(map(young, PEOPLE))})
    )
    assert found.presence is not None
    assert found.presence[1] == 0.25
    assert found.check(presence=0.25).passed
    assert not found.check(presence=0.2499).passed


def test_with_itself_as_the_population_k_map_is_k():
    table = pa.table({"a": [1, 1, 2, 2, 2]})
    found = anonymity.measure(table, "a", population=table)
    assert (found.k_map, found.k, found.presence) == (2, 2, (1.0, 1.0))


def test_a_population_that_does_not_contain_the_table_is_said_and_refused():
    found = anonymity.measure(pa.table({"a": [1, 1]}), "a", population=pa.table({"a": [1]}))
    assert found.presence is None
    assert "does not contain" in found.warnings[0]
    missing = anonymity.measure(pa.table({"a": [1, 1]}), "a", population=pa.table({"a": [2]}))
    assert missing.k_map == 0


def test_sampling_fractions_estimate_the_population():
    from shoal.anonymity.measuring.reidentification import expected_risk, probability_below

    assert [round(expected_risk(f, 0.1), 6) for f in (1, 2, 5)] == [0.255843, 0.082684, 0.024235]
    assert round(probability_below(10, 1, 0.1), 6) == 0.612580
    assert expected_risk(3, 1.0) == pytest.approx(1 / 3)
    found = anonymity.measure(pa.table({"a": [1, 1, 2]}), "a", sampling=0.1)
    assert found.k_map_estimate == pytest.approx(10)
    assert found.risk.journalist is not None
    assert found.risk.journalist.highest == pytest.approx(0.255843, abs=1e-6)


@pytest.mark.parametrize("sampling", [0.01, 0.3, 0.5, 0.7, 0.99])
@pytest.mark.parametrize("owners", [1, 2, 30, 64, 65, 500])
def test_expected_risk_is_its_sum_over_populations(owners, sampling):
    from shoal.anonymity.measuring.reidentification import expected_risk

    log_chance, total = owners * math.log(sampling), 0.0
    for extra in range(200_000):
        total += math.exp(log_chance) / (owners + extra)
        log_chance += math.log((owners + extra) / (extra + 1)) + math.log1p(-sampling)
        if log_chance < -60 and extra > owners / sampling:
            break
    assert expected_risk(owners, sampling) == pytest.approx(total, rel=1e-9)


def test_rows_suppressed_before_are_set_aside_unless_there_is_nothing_else():
    found = anonymity.measure(pa.table({"a": ["x", "x", "*"], "b": ["y", "y", "*"]}), QUASI)
    assert (found.k, found.suppressed, found.rows) == (2, 1, 2)
    found = anonymity.measure(pa.table({"a": ["*", "*"], "b": ["*", "*"]}), QUASI)
    assert (found.k, found.suppressed, found.classes) == (2, 0, 1)
    found = anonymity.measure(pa.table({"a": ["x", "x", "*"], "b": ["y", "y", "*"]}), QUASI, marker=None)
    assert (found.k, found.suppressed) == (1, 0)


def test_failing_classes_come_smallest_first_with_what_they_break():
    table = pa.table({"a": [1, 2, 2, 3, 3, 3], "s": ["x", "x", "x", "x", "y", "z"]})
    failing = anonymity.measure(table, "a", "s").failing(k=3, l=2)
    assert failing.to_pylist() == [
        {"a": 1, "owners": 1, "rows": 1, "breaks": "k, l"},
        {"a": 2, "owners": 2, "rows": 2, "breaks": "k, l"},
    ]


def test_a_check_says_what_is_broken_and_by_how_many():
    verdict = anonymity.measure(pa.table({"a": [1, 2, 2]}), "a").check(k=2)
    assert not verdict.passed
    assert verdict.findings[0].sentence == "Every class has at least 2 owners: broken by 1 class with 1 rows."
    assert verdict.to_dict()["passed"] is False


def test_recursive_demands_hold_exactly_above_their_limit():
    found = anonymity.measure(pa.table({"a": [1] * 6, "s": list("xxxxyz")}), "a", "s")
    assert found.sensitive["s"].recursive(2) == 2.0
    assert not found.check(recursive=(2, 2)).passed
    assert found.check(recursive=(2.0001, 2)).passed


def test_a_comparison_next_to_its_limit_is_exact():
    found = anonymity.measure(pa.table({"a": [1, 1, 1, 2, 2, 2], "s": list("xyzxyz")}), "a", "s")
    assert found.check(entropy_l=3, t=0).passed
    thirds = anonymity.measure(pa.table({"a": [1, 1, 1, 2, 2, 2], "s": list("xxyxyy")}), "a", "s")
    assert not thirds.check(t=0.16666666666).passed
    assert thirds.check(t=0.16666666667).passed


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"quasi": []}, "E_USAGE"),
        ({"quasi": ["a", "A"]}, "E_USAGE"),
        ({"quasi": ["a"], "sensitive": "a"}, "E_USAGE"),
        ({"quasi": ["nothing"]}, "E_UNKNOWN_COLUMN"),
        ({"quasi": ["a"], "table": "nothing"}, "E_UNKNOWN_TABLE"),
        ({"quasi": ["a"], "sampling": 0}, "E_USAGE"),
        ({"quasi": ["a"], "sampling": 1.5}, "E_USAGE"),
        ({"quasi": ["a"], "threshold": 2}, "E_USAGE"),
        ({"quasi": ["a"], "distance": {"b": "equal"}}, "E_USAGE"),
    ],
)
def test_wrong_arguments_are_refused(arguments, code):
    with pytest.raises(ShoalError) as refused:
        anonymity.measure(pa.table({"a": [1], "b": [2]}), **arguments)
    assert refused.value.code == code


@pytest.mark.parametrize(
    "demands",
    [{}, {"k": 1}, {"k": 2.5}, {"l": 2}, {"k_map": 5}, {"presence": 0.5}, {"t": 0.5}, {"unknown": 1}],
)
def test_wrong_demands_are_refused(demands):
    found = anonymity.measure(pa.table({"a": [1], "b": [2]}), "a")
    with pytest.raises(ShoalError, match="E_USAGE"):
        found.check(**demands)


@pytest.mark.parametrize(
    "demands", [{"l": 0}, {"t": 2}, {"t": -1}, {"recursive": 3}, {"recursive": (0, 2)}, {"l": {"a": 2}}]
)
def test_wrong_demands_on_values_are_refused(demands):
    found = anonymity.measure(pa.table({"a": [1], "b": [2]}), "a", "b")
    with pytest.raises(ShoalError, match="E_USAGE"):
        found.check(**demands)


def test_the_dictionary_has_every_key_and_no_value_of_the_data():
    found = anonymity.measure(pa.table({"a": ["secret", "secret"], "s": ["hidden", "other"]}), "a", "s")
    keys = (
        "rows owners unit suppressed classes k profile_k k_map k_map_estimate presence sizes unique population_unique"
    )
    assert list(found.to_dict()) == [*keys.split(), "sensitive", "risk", "not_protected"]
    assert "secret" not in repr(found.to_dict())
    assert "hidden" not in str(found)


def test_rows_without_an_owner_count_as_one_owner_and_are_told():
    found = anonymity.measure(pa.table({"uid": [1, None, None], "a": [1, 1, 1]}), "a", owner="uid")
    assert (found.k, found.owners) == (2, 2)
    assert "2 rows have no owner" in found.warnings[0]


def test_the_chance_of_a_small_population_is_a_sum_over_its_sizes():
    found = anonymity.measure(pa.table({"a": [1] * 300}), "a", sampling=0.1)
    assert found.chance_below(300) == 0.0
    assert found.chance_below(3000) == pytest.approx(0.5, abs=0.02)
    assert anonymity.measure(pa.table({"a": [1]}), "a").chance_below(5) is None
