"""Where the tester looks."""

import pytest

from shoal.audit.tester.neighbours import edge_cases, halton_point, plan_pairs, remove_depth_first
from shoal.errors import ShoalError

PLAN = {"seed": 0, "bases": 2, "records": 4, "domain": None}


def test_halton_points_are_the_mirrored_digits():
    assert halton_point(6, 3) == pytest.approx([3 / 8, 2 / 9, 6 / 25])


def test_removing_depth_first_visits_every_edge_of_the_cube_once():
    edges = [(tuple(larger), tuple(smaller)) for larger, smaller in remove_depth_first([1, 2, 3, 4])]
    assert len(edges) == len(set(edges)) == 4 * 2**3
    assert all(len(larger) == len(smaller) + 1 and set(smaller) < set(larger) for larger, smaller in edges)


def test_depth_first_reaches_the_empty_data_set_before_the_second_removal():
    first = list(remove_depth_first([1, 2, 3]))[:3]
    assert first == [([1, 2, 3], [2, 3]), ([2, 3], [3]), ([3], [])]


def test_edge_cases_hold_empty_single_extreme_duplicate_crowded_and_outlying_data():
    larger = [pair[0] for pair in edge_cases(None)]
    assert [1.0] in larger
    assert [0.0] in larger
    assert [1.0, 1.0, 1.0] in larger
    assert [0.0, 1.0] in larger
    assert any(len(dataset) >= 20 for dataset in larger)
    assert any(max(dataset) > 1000 for dataset in larger)
    assert any(min(dataset) < -1000 for dataset in larger)
    assert any(pair[1] == [] for pair in edge_cases(None))


def test_a_domain_keeps_every_record_inside():
    pairs = plan_pairs(None, **{**PLAN, "domain": (5.0, 6.0)})
    assert all(5.0 <= x <= 6.0 for pair in pairs for x in pair.larger)


def test_every_searched_pair_differs_by_one_record():
    for pair in plan_pairs(None, **PLAN):
        rest = list(pair.larger)
        for record in pair.smaller:
            rest.remove(record)
        assert len(rest) == 1


def test_no_pair_is_tried_twice_and_the_callers_come_first():
    pairs = plan_pairs([([1.0], []), ([3.0, 3.0], [3.0])], **PLAN)
    keys = [(pair.larger_key, pair.smaller_key) for pair in pairs]
    assert len(keys) == len(set(keys))
    assert keys[:2] == [((1.0,), ()), ((3.0, 3.0), (3.0,))]


def test_the_same_seed_gives_the_same_data_sets_and_another_seed_others():
    assert plan_pairs(None, **PLAN) == plan_pairs(None, **PLAN)
    assert plan_pairs(None, **PLAN) != plan_pairs(None, **{**PLAN, "seed": 1})


def test_data_sets_that_are_not_numbers_are_tried_alone():
    pairs = plan_pairs([({"a": 1}, {})], **PLAN)
    assert len(pairs) == 1


def test_inputs_that_are_not_pairs_are_refused():
    with pytest.raises(ShoalError) as refused:
        plan_pairs([3.0], **PLAN)
    assert refused.value.code == "E_USAGE"
