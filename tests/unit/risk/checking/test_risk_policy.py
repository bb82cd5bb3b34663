from __future__ import annotations

import pytest

from shoal.errors import ShoalError
from shoal.risk import SketchedDataset, check, compare_with_baseline, policy_from, read_policy, scan

KEY = b"0123456789abcdef"


def scanned(city=None, **more) -> list[SketchedDataset]:
    city = city or ["Oslo"] * 60 + ["Riga"] * 38 + ["Bodø", "Hamar"]
    return list(scan({"visits": {"uid": list(range(len(city))), "city": city}, **more}, owner="uid", key=KEY).sketched)


def verdict(text_or_data, datasets=None, baseline=None):
    return check(datasets or scanned(), policy_from(text_or_data), baseline)


def test_a_limit_on_uniqueness_breaks_with_the_column_and_the_share():
    found = verdict({"uniqueness": [{"columns": ["visits.city"], "below": 5, "max_share": 0.1}]})
    assert not found.passed
    (broken,) = found.broken
    assert broken.subject == "visits.city"
    assert broken.measured.value == 0.5
    assert "50% of the values" in broken.sentence


def test_a_limit_on_owners_or_rows_holds_where_the_one_on_values_breaks():
    for of in ("owners", "rows"):
        rule = {"columns": ["visits.city"], "below": 5, "of": of, "max_share": 0.02}
        assert verdict({"uniqueness": [rule]}).passed
        assert not verdict({"uniqueness": [rule | {"max_share": 0.01}]}).passed


def test_patterns_match_many_columns():
    found = verdict({"uniqueness": [{"columns": ["visits.*"], "below": 2, "max_share": 1.0}]})
    assert {finding.subject for finding in found.findings} == {"visits.uid", "visits.city"}


def test_a_rule_that_matches_nothing_is_broken():
    for rule in (
        {"uniqueness": [{"columns": ["visits.country"], "below": 2, "max_share": 1.0}]},
        {"containment": [{"between": ["visits", "crm"], "max": 1.0}]},
        {"k_anonymity": [{"table": "visits", "columns": ["zip"], "min_owners": 1}]},
    ):
        (finding,) = verdict(rule).broken
        assert "cannot be checked" in finding.sentence


def test_containment_between_datasets_is_judged_both_ways():
    crm = {"person": [f"p{n}" for n in range(300)]}
    log = {"visitor": [f"p{n}" for n in range(200, 1_000)]}
    datasets = scanned(crm=crm, log=log)
    found = verdict({"containment": [{"between": ["crm", "log"], "max": 0.2}]}, datasets)
    (broken,) = found.broken
    assert broken.subject == "crm.person in log.visitor"
    assert broken.measured.value == pytest.approx(1 / 3)
    assert verdict({"containment": [{"between": ["crm.person", "log.visitor"], "max": 0.4}]}, datasets).passed
    assert verdict({"containment": [{"between": ["crm", "visits"], "max": 0.0}]}, datasets).passed


def test_k_anonymity_is_the_rarest_value():
    rule = {"table": "visits", "columns": ["city"], "min_owners": 1}
    assert verdict({"k_anonymity": [rule]}).passed
    found = verdict({"k_anonymity": [rule | {"min_owners": 2}]})
    assert "has 1 owners; the limit is 2" in found.broken[0].sentence


def test_k_anonymity_of_a_combination_whatever_the_order():
    table = {"t": {"uid": list(range(100)), "zip": [n % 5 for n in range(100)], "age": [n % 2 for n in range(100)]}}
    datasets = list(scan(table, owner="uid", combine=2, key=KEY).sketched)
    for columns in (["zip", "age"], ["age", "zip"]):
        assert verdict({"k_anonymity": [{"table": "t", "columns": columns, "min_owners": 10}]}, datasets).passed


def test_sampled_k_anonymity_says_what_it_has_not_seen():
    values = [n // 10 for n in range(50_000)]
    datasets = list(scan({"t": {"v": values}}, key=KEY).sketched)
    found = verdict({"k_anonymity": [{"table": "t", "columns": ["v"], "min_owners": 10}]}, datasets)
    assert found.passed
    assert "were not sampled" in found.findings[0].sentence


def test_judging_by_the_interval_is_stricter_or_milder():
    values = [n if n % 2 else -(n // 4) for n in range(20_000)]  # two thirds of the values alone
    datasets = list(scan({"t": {"v": values}}, key=KEY).sketched)
    sketch = datasets[0].sketches["v",]
    share = sketch.share_below(2)
    rule = {"columns": ["t.v"], "below": 2}
    for judge, limit, passed in (
        ("estimate", share.value + 0.001, True),
        ("possibly", share.value + 0.001, False),
        ("possibly", share.high, True),
        ("estimate", share.value - 0.001, False),
        ("surely", share.value - 0.001, True),
        ("surely", share.low - 0.001, False),
    ):
        assert verdict({"uniqueness": [rule | {"judge": judge, "max_share": limit}]}, datasets).passed is passed


def test_changes_are_held_against_a_baseline():
    before, now = scanned(), scanned(["Oslo"] * 60 + [f"village {n}" for n in range(40)])
    rule = {"change": [{"columns": ["visits.city"], "below": 2, "max_rise": 0.1}]}
    found = verdict(rule, now, before)
    assert not found.passed
    assert "went from 50% to 97.6%" in found.broken[0].sentence
    assert verdict(rule, before, now).passed
    with pytest.raises(ShoalError, match="baseline"):
        verdict(rule, now)


def test_a_comparison_shows_what_moved_beyond_the_error():
    before = scanned(old={"x": [1, 2]})
    now = scanned(["Oslo"] * 60 + [f"village {n}" for n in range(40)], new={"y": [1, 2]})
    found = compare_with_baseline(now, before)
    moved = {(movement.column, movement.measure) for movement in found.moved}
    assert ("visits.city", "share of values below 2") in moved
    assert not any(column == "visits.uid" for column, _ in moved)
    assert found.appeared == ("new.y",)
    assert found.vanished == ("old.x",)
    assert compare_with_baseline(now, now).moved == ()


def test_movements_within_the_sampling_error_are_not_reported():
    """Two halves of one population under different keys: 60 measures, none should move beyond twice the error."""
    halves = [
        list(scan({"t": {"v": [(n * 7919) % 30_000 for n in range(start, 60_000, 2)]}}, key=key).sketched)
        for start, key in ((0, b"one"), (0, b"two"))
    ]
    for movement in compare_with_baseline(*halves).movements:
        assert abs(movement.change) <= 2 * (movement.before.error + movement.now.error) + 1e-12


GOOD = {"columns": ["a.b"], "below": 5, "max_share": 0.1}


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"uniqueness": []},
        {"uniqueness": GOOD},
        {"uniqness": [GOOD]},
        {"uniqueness": [GOOD | {"max": 1}]},
        {"uniqueness": [GOOD | {"below": 0}]},
        {"uniqueness": [GOOD | {"below": True}]},
        {"uniqueness": [GOOD | {"max_share": 2}]},
        {"uniqueness": [GOOD | {"max_share": float("nan")}]},
        {"uniqueness": [GOOD | {"of": "people"}]},
        {"uniqueness": [GOOD | {"judge": "maybe"}]},
        {"uniqueness": [GOOD | {"columns": "a.b"}]},
        {"uniqueness": [GOOD | {"columns": []}]},
        {"uniqueness": [{"below": 5, "max_share": 0.1}]},
        {"uniqueness": [7]},
        {"containment": [{"between": ["a"], "max": 0.1}]},
        {"k_anonymity": [{"table": "a", "columns": ["b"]}]},
    ],
    ids=str,
)
def test_a_policy_that_is_not_understood_is_refused(data):
    with pytest.raises(ShoalError) as caught:
        policy_from(data)
    assert caught.value.code == "E_USAGE"


def test_a_policy_is_read_from_toml(tmp_path):
    path = tmp_path / "policy.toml"
    path.write_text('[[uniqueness]]\ncolumns = ["a.b"]\nbelow = 5\nmax_share = 0.1\n')
    assert read_policy(path).rules[0].below == 5
    path.write_text("[[uniqueness]\n")
    with pytest.raises(ShoalError, match="not TOML"):
        read_policy(path)
    with pytest.raises(ShoalError, match="cannot be read"):
        read_policy(tmp_path / "missing.toml")
