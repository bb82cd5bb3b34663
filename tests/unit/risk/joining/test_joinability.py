from __future__ import annotations

import numpy as np
import pytest

from shoal.errors import ShoalError
from shoal.risk import (
    Grade,
    Sketch,
    SketchedDataset,
    by_inclusion_exclusion,
    containment,
    joinability,
    knowledge_from,
    read_knowledge,
    scan,
    write_datasets,
)
from shoal.risk.joining.containment import all_containments, common_counts
from shoal.risk.joining.pairs import BY_CHANCE, FEW_VALUES

KEY = b"0123456789abcdef"


def sketch_of(values, k: int = 2048, owners=None) -> Sketch:
    sketch = Sketch(k=k, key=KEY)
    sketch.update(values, owners)
    return sketch


def names(prefix: str, *ranges: range) -> list[str]:
    return [f"{prefix}-{number:06}" for numbers in ranges for number in numbers]


def test_containment_is_exact_for_small_columns_and_asymmetric():
    small, large = sketch_of(range(100)), sketch_of(range(50, 1_000))
    assert containment(small, large).to_dict() == {"value": 0.5, "low": 0.5, "high": 0.5}
    assert containment(large, small).value == 50 / 950
    assert containment(small, small).value == 1


def test_containment_of_nothing_and_in_nothing_is_zero():
    empty, some = Sketch(key=KEY), sketch_of(range(10))
    assert containment(empty, some).value == containment(some, empty).value == 0


def test_a_sample_that_says_nothing_gives_the_whole_interval():
    tiny, huge = sketch_of([1, 2, 3]), sketch_of(np.arange(10**6), k=16)
    found = containment(tiny, huge)
    assert (found.low, found.high) == (0, 1)


def test_different_keys_cannot_be_compared():
    other = Sketch(key=b"another")
    with pytest.raises(ShoalError) as caught:
        containment(sketch_of([1]), other)
    assert caught.value.code == "E_SKETCH"


def test_the_coordinated_sample_is_close_at_unequal_sizes():
    rng = np.random.default_rng(1)
    errors = {"coordinated": [], "inclusion-exclusion": []}
    for _ in range(15):
        small = rng.integers(0, 2**60, 5_000)
        large = np.concatenate([small[:2_500], rng.integers(0, 2**60, 97_500)])
        a, b = sketch_of(small), sketch_of(large)
        errors["coordinated"].append(abs(containment(a, b).value - 0.5))
        errors["inclusion-exclusion"].append(abs(by_inclusion_exclusion(a, b) - 0.5))
    assert np.median(errors["coordinated"]) <= 0.06
    assert np.mean(np.square(errors["inclusion-exclusion"])) > np.mean(np.square(errors["coordinated"]))


def test_all_pairs_at_once_agree_with_one_pair_at_a_time():
    rng = np.random.default_rng(2)
    pool = rng.integers(0, 2**60, 20_000)
    sizes = [3, 40, 64, 65, 500, 3_000, 9_000] * 6  # more columns than the limit between the two ways of counting
    sketches = [sketch_of(rng.choice(pool, size), k=64) for size in sizes] + [Sketch(k=64, key=KEY)]
    together = all_containments(sketches)
    for i in range(len(sketches)):
        for j in range(0, len(sketches), 3):
            alone, found = containment(sketches[i], sketches[j]), together.estimate(i, j)
            assert (found.value, found.low, found.high) == pytest.approx(
                (alone.value, alone.low, alone.high)
            ) or not len(sketches[i].hashes)


def test_common_hashes_are_counted_for_rare_and_for_frequent_ones():
    rng = np.random.default_rng(3)
    samples = [np.unique(rng.choice(np.arange(300, dtype=np.uint64) ** 7, 150)) for _ in range(50)]
    expected = [[len(np.intersect1d(a, b)) for b in samples] for a in samples]
    assert (common_counts(samples) == np.array(expected)).all()


@pytest.fixture(scope="module")
def world() -> list[SketchedDataset]:
    """A shop that knows people, an advertiser that knows cookies, and a log between them."""
    people, cookies = names("mail", range(2_000)), names("cookie", range(3_000))
    tables = {
        "crm": {"email": people, "customer_no": names("c", range(2_000)), "age": [n % 70 for n in range(2_000)]},
        "newsletter": {"address": people[500:1_500], "device": cookies[500:1_500]},
        "ads": {"cookie": cookies, "campaign": [f"campaign-{n % 40}" for n in range(3_000)]},
        "orders": {"quantity": list(range(1_900)), "price": list(range(100, 2_000))},
        "stock": {"count": list(range(2_100))},
    }
    return list(scan(tables, key=KEY).sketched)


def test_joinable_pairs_come_out_with_both_directions_and_uniqueness(world):
    found = joinability(world)
    pairs = {frozenset((pair.a, pair.b)): pair for pair in found.pairs}
    pair = pairs[frozenset(("crm.email", "newsletter.address"))]
    into, out = (pair.a_in_b, pair.b_in_a) if pair.a == "newsletter.address" else (pair.b_in_a, pair.a_in_b)
    assert into.value == 1
    assert out.value == pytest.approx(0.5)
    assert pair.a_uniqueness.value == pair.b_uniqueness.value == 1
    assert pair.common == 1_000
    assert pair.grade >= Grade.HIGH
    assert pair.shape_similarity > 0.9
    assert "single one owner out" in pair.reason


def test_small_integers_and_few_values_are_set_aside_with_the_reason(world):
    found = joinability(world)
    reasons = {frozenset((pair.a, pair.b)): pair.set_aside for pair in found.set_aside}
    assert reasons[frozenset(("crm.age", "stock.count"))] == FEW_VALUES
    assert all(pair.may_be_chance for pair in found.pairs if {"orders", "stock"} & {pair.a_dataset, pair.b_dataset})
    often = {"a": {"x": [*range(2_000), *range(2_000)]}, "b": {"y": [*range(2_000), *range(2_000)]}}
    assert [pair.set_aside for pair in joinability(scan(often, key=KEY)).set_aside] == [BY_CHANCE]
    everything = joinability(world, minimum_values=1)
    assert not any("campaign" in pair.a + pair.b for pair in everything.pairs)


def test_counters_of_the_same_name_are_not_set_aside():
    numbers = list(range(5_000))
    found = joinability(scan({"a": {"uid": numbers}, "b": {"uid": numbers[:4_000]}}, key=KEY))
    assert [(pair.a, pair.b) for pair in found.pairs] == [("a.uid", "b.uid")]


def test_large_random_integers_are_evidence_whatever_their_names():
    rng = np.random.default_rng(5)
    numbers = rng.integers(10**8, 10**9, 3_000)
    found = joinability(scan({"a": {"x": numbers}, "b": {"y": numbers[:2_000]}}, key=KEY))
    assert len(found.pairs) == 1
    assert found.pairs[0].chance < 0.001


def test_links_of_identified_to_pseudonymous_owners_come_first(world):
    known = knowledge_from({"datasets": {"newsletter": {"space": "identified"}, "ads": {"space": "pseudonymous"}}})
    first = joinability(world, knowledge=known).pairs[0]
    assert first.links_identified
    assert {first.a_dataset, first.b_dataset} == {"newsletter", "ads"}
    assert first.grade is Grade.CRITICAL


def test_spaces_are_guessed_from_names_and_marked_as_guesses(world):
    spaces = joinability(world).spaces
    assert spaces["crm"] == ("identified", True)
    assert spaces["ads"] == ("pseudonymous", True)
    assert spaces["stock"] == (None, True)


def test_paths_lead_over_other_datasets(world):
    found = joinability(world)
    path = found.path("crm", "ads")
    assert path is not None
    assert path.datasets == ["crm", "newsletter", "ads"]
    assert path.score == pytest.approx(1)
    assert [sorted(p.datasets[::2]) for p in found.paths] == [["ads", "crm"]]
    assert found.path("crm", "stock") is None
    assert found.groups == [["ads", "crm", "newsletter"]]
    with pytest.raises(ShoalError):
        found.path("crm", "nothing")


def test_the_best_of_several_ways_is_taken():
    ids, others = names("id", range(1_000)), names("y", range(1_000))
    worse = {"x3": ids[:600] + names("n", range(600)), "y3": others[:300] + names("z", range(900))}
    tables = {"a": {"x": ids}, "b": {"x2": ids, "y": others}, "c": {"y2": others}, "d": worse}
    path = joinability(scan(tables, key=KEY)).path("a", "c")
    assert path is not None
    assert path.datasets == ["a", "b", "c"]


def test_labels_spread_to_columns_with_the_same_values(world):
    known = knowledge_from({"datasets": {"ads": {"labels": {"cookie": "cookie id"}}}})
    tables = {"ads": {"cookie": names("k", range(500))}, "log": {"visitor": names("k", range(500))}}
    found = joinability(scan(tables, key=KEY), knowledge=known)
    assert [(p.column, p.label, p.because_of) for p in found.proposed_labels] == [
        ("log.visitor", "cookie id", "ads.cookie")
    ]
    assert found.contradictions == []


def test_contradicting_labels_are_listed():
    known = knowledge_from({"datasets": {"a": {"labels": {"x": "phone"}}, "b": {"labels": {"y": "order number"}}}})
    tables = {
        "a": {"x": names("v", range(500))},
        "b": {"y": names("v", range(20, 500))},
        "c": {"z": names("v", range(500))},
    }
    found = joinability(scan(tables, key=KEY), knowledge=known)
    assert [c.labels for c in found.contradictions] == [{"a.x": "phone", "b.y": "order number"}]
    assert found.proposed_labels == []


def test_partial_containment_spreads_no_label():
    known = knowledge_from({"datasets": {"a": {"labels": {"x": "phone"}}}})
    tables = {"a": {"x": names("v", range(1_000))}, "b": {"y": names("v", range(300))}}
    assert joinability(scan(tables, key=KEY), knowledge=known).proposed_labels == []


@pytest.mark.parametrize(
    "data",
    [
        {"tables": {}},
        {"datasets": 7},
        {"datasets": {"a": {"space": "both"}}},
        {"datasets": {"a": {"label": {}}}},
        {"datasets": {"a": {"labels": {"x": 7}}}},
        {"datasets": {"a": 7}},
    ],
    ids=str,
)
def test_knowledge_that_is_not_understood_is_refused(data):
    with pytest.raises(ShoalError):
        knowledge_from(data)


def test_knowledge_is_read_from_toml(tmp_path):
    (tmp_path / "k.toml").write_text('[datasets.crm]\nspace = "identified"\n[datasets.crm.labels]\nemail = "email"\n')
    assert read_knowledge(tmp_path / "k.toml").labels == {("crm", "email"): "email"}
    (tmp_path / "k.toml").write_text("datasets = [")
    with pytest.raises(ShoalError):
        read_knowledge(tmp_path / "k.toml")
    with pytest.raises(ShoalError):
        read_knowledge(tmp_path / "missing.toml")


def test_a_folder_a_report_and_a_list_are_the_same_source(tmp_path, world):
    write_datasets(tmp_path, world)
    expected = joinability(world).to_dict()
    assert joinability(tmp_path).to_dict()["pairs"] == expected["pairs"]
    assert joinability([tmp_path]).to_dict()["paths"] == expected["paths"]


def test_sketches_of_different_keys_are_refused(world):
    other = scan({"x": {"a": [1]}}, key=b"another key").sketched
    with pytest.raises(ShoalError, match="different keys"):
        joinability([*world, *other])


def test_the_listing_is_bounded_and_the_rest_counted():
    tables = {f"t{n}": {"v": names("v", range(200))} for n in range(20)}
    found = joinability(scan(tables, key=KEY), most_pairs=50)
    assert len(found.pairs) == 50
    assert found.not_listed == 140


def test_combinations_join_with_combinations():
    zips, ages = [f"{n % 500:05}" for n in range(2_000)], [n % 71 for n in range(2_000)]
    tables = {"a": {"zip": zips, "age": ages}, "b": {"postcode": zips[:1_500], "years": ages[:1_500]}}
    subjects = {"a": ("zip", "age"), "b": ("postcode", "years")}
    reports = [scan({name: tables[name]}, columns=[subjects[name]], key=KEY) for name in tables]
    (pair,) = joinability(reports).pairs
    assert (pair.a, pair.b) == ("a.zip+age", "b.postcode+years")
    assert pair.b_in_a.value == 1


def test_text_and_json_of_a_comparison(world):
    found = joinability(world)
    assert "crm.email" in str(found)
    assert "path: " in str(found)
    told = found.to_dict()
    assert told["pairs"][0]["grade"] in {"critical", "high"}
    assert set(told) >= {"pairs", "set_aside", "paths", "groups", "proposed_labels", "label_contradictions"}


def test_a_key_of_few_customers_is_never_set_aside():
    names = [f"CUST{n}" for n in range(91)]
    for other in ("customer_id", "client"):
        tables = {"customers": {"customer_id": names}, "orders": {other: names[:80]}}
        (pair,) = joinability(scan(tables)).pairs
        assert pair.set_aside is None or not pair.set_aside
        assert pair.score > 0.9
        assert pair.grade is not Grade.MINIMAL


def test_two_keys_are_never_set_aside_and_chance_is_said():
    tables = {"people": {"person": list(range(1, 91))}, "prizes": {"number": list(range(1, 91))}}
    found = joinability(scan(tables, key=KEY))
    assert found.set_aside == ()
    (pair,) = found.pairs
    assert pair.score == 1
    assert str(pair.grade) == "medium"
    assert "by chance, too" in pair.reason
    assert found.paths == []


def test_a_comparison_ends_with_what_to_do(world):
    text = " ".join(str(joinability(world)).split())
    assert text.endswith("Then scan and join again.")
    assert "Then scan and join again." in joinability(world).to_html()
