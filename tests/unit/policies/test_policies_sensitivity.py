"""Policy sensitivity against the definition, the published numbers, and what is refused."""

import math
from fractions import Fraction

import numpy as np
import pytest
from brute_force import all_edges, edge, hops, largest, policies, sensitivity_with_known_counts, values, with_known
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.errors import ShoalError
from shoal.policies import known, queries, secrets
from shoal.policies.domain import Domain
from shoal.policies.policy import Policy, stretch

AGES = Domain({"age": range(101)})
TENS = secrets.partition(age=[0, *range(11, 100, 10)])


def every_query(draw, rule):
    names = list(rule.domain.names)
    one = draw(st.sampled_from(names))
    some = draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
    weights = draw(st.lists(st.fractions(-3, 3, max_denominator=4), min_size=3, max_size=3))
    low, high = sorted(draw(st.lists(st.sampled_from(list(rule.domain.attribute(one).values)), min_size=2, max_size=2)))
    spread = draw(st.integers(1, 3))

    def function(record):
        total = sum(w * v for w, v in zip(weights, record.values(), strict=False))
        return [total * (i + 1) + i * record[one] ** 2 for i in range(spread)]

    return draw(
        st.sampled_from(
            [
                queries.histogram(*some),
                queries.cumulative(one),
                queries.sum(*some),
                queries.ranges(one, [(low, high), (rule.domain.attribute(one).values[0], low)]),
                queries.linear(function, name="f"),
            ]
        )
    )


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_l1_and_l2_are_those_of_the_definition(data):
    rule = data.draw(policies())
    query = every_query(data.draw, rule)
    assert (rule.l1(query), rule.l2_squared(query)) == largest(rule, query)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_a_witness_is_an_edge_that_attains_the_sensitivity(data):
    rule = data.draw(policies())
    query = every_query(data.draw, rule)
    witness = rule.witness(query)
    if rule.l1(query) == 0:
        assert witness is None
        return
    x, y = (rule.domain.positions(value) for value in witness)
    assert edge(rule, x, y)
    from brute_force import row

    gap = [abs(a - b) for a, b in zip(row(rule, query, x), row(rule, query, y), strict=True)]
    assert sum(gap) == rule.l1(query)


@given(st.data())
@settings(max_examples=80, deadline=None)
def test_hops_are_shortest_paths_and_edges_are_protected(data):
    rule = data.draw(policies())
    x, y = data.draw(st.sampled_from(values(rule))), data.draw(st.sampled_from(values(rule)))
    shown = [rule.domain.values_at(place) for place in (x, y)]
    assert rule.distance(*shown) == hops(rule, x, y)
    assert rule.protects(*shown) == edge(rule, x, y)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_with_a_known_marginal_paths_stay_inside_one_cell(data):
    rule = data.draw(policies(largest_domain=24))
    name = data.draw(st.sampled_from(list(rule.domain.names)))
    knowing = with_known(rule, name)
    axis = rule.domain.axis(name)
    cell = {x: x[axis] for x in values(rule)}
    x, y = data.draw(st.sampled_from(values(rule))), data.draw(st.sampled_from(values(rule)))
    shown = [rule.domain.values_at(place) for place in (x, y)]
    assert knowing.distance(*shown) == hops(rule, x, y, cell)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_stretch_is_the_longest_path_of_an_edge(data):
    of = data.draw(policies(largest_domain=20))
    under = data.draw(policies(largest_domain=20))
    under = (
        Policy(of.domain, under.secret) if under.domain.shape == of.domain.shape and under.domain == of.domain else of
    )
    truth = max(hops(of, x, y) for x, y in all_edges(under))
    assert stretch(of, under) == truth


@pytest.mark.parametrize("kind", ["full", "attributes", "distance", "within", "partition", "graph"])
@given(st.data())
@settings(max_examples=12, deadline=None)
def test_stretch_under_every_kind_of_policy(kind, data):
    of = data.draw(policies(largest_domain=20))
    names = of.domain.names
    other = {
        "full": secrets.full(),
        "attributes": secrets.attributes(1),
        "distance": secrets.distance(**{names[0]: 2}),
        "within": secrets.distance(within=3, **dict.fromkeys(names, 1)),
        "partition": secrets.partition(**{names[0]: [of.domain.attributes[0].values[0]]}),
        "graph": secrets.graph([(of.domain.record(0), of.domain.record(of.domain.size - 1))]),
    }[kind]
    if not other.has_edges(of.domain):
        return
    under = Policy(of.domain, other)
    assert stretch(of, under) == max(hops(of, x, y) for x, y in all_edges(under))


def test_the_published_numbers_for_ages():
    rules = [Policy(AGES, secret) for secret in (secrets.full(), secrets.distance(age=5), TENS)]
    assert [rule.l1(queries.sum("age")) for rule in rules] == [100, 5, 10]
    assert [rule.l1(queries.mean("age")) for rule in rules] == [100, 5, 10]
    assert [rule.l1(queries.cumulative("age")) for rule in rules] == [100, 5, 10]
    assert [rule.l1(queries.histogram("age")) for rule in rules] == [2, 2, 2]


def test_a_histogram_that_no_edge_crosses_is_no_secret():
    domain = Domain({"age": range(101), "ward": ["A", "B", "C"]})
    for secret in (secrets.distance(age=5), TENS):
        assert Policy(domain, secret).l1(queries.histogram("ward")) == 0
    assert Policy(domain, secrets.full()).l1(queries.histogram("ward")) == 2


def test_sums_of_several_attributes():
    domain = Domain({"a": range(11), "b": range(21), "c": range(4)})
    total = queries.sum("a", "b", "c")
    assert Policy(domain, secrets.full()).l1(total) == 33
    assert Policy(domain, secrets.attributes(1)).l1(total) == 20
    assert Policy(domain, secrets.attributes(2)).l1(total) == 30
    assert Policy(domain, secrets.distance(a=3, b=7)).l1(total) == 7
    assert Policy(domain, secrets.distance(within=10, a=3, b=5)).l1(total) == 3
    assert Policy(domain, secrets.partition(a=[0, 4], b=[0, 10])).l1(total) == 6 + 10


def test_a_sum_over_a_domain_that_nobody_can_list_has_its_closed_form():
    colours = Domain({"r": range(256), "g": range(256), "b": range(256)})
    assert Policy(colours, secrets.full()).l1(queries.sum("r", "g", "b")) == 765
    with pytest.raises(ShoalError, match="E_LIMITS"):
        Policy(colours, secrets.full()).l1(queries.histogram("r", "g", "b"))


def test_hops_on_a_line_round_up():
    rule = Policy(AGES, secrets.distance(age=5))
    assert [rule.distance(0, y) for y in (0, 1, 5, 6, 10, 11)] == [0, 1, 1, 2, 2, 3]
    assert Policy(AGES, TENS).distance(10, 11) == math.inf
    assert Policy(AGES, secrets.distance(within=10, age=3)).distance(0, 10) == 4


def test_stretch_between_the_policies_of_the_text():
    five, ten, full = (Policy(AGES, s) for s in (secrets.distance(age=5), secrets.distance(age=10), secrets.full()))
    assert stretch(five, ten) == 2
    assert stretch(five, full) == 20
    assert stretch(Policy(AGES, TENS), full) == math.inf
    assert stretch(full, five) == 1
    assert stretch(five, five) == 1
    assert stretch(five, Policy(Domain({"age": range(100)}), secrets.full())) == math.inf


# ---- known counts ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("cells", "expected"), [(2, 4), (3, 6)])
def test_a_known_marginal_of_s_cells_makes_a_histogram_twice_s(cells, expected):
    domain = Domain({"ward": list("ABC")[:cells], "sex": ["f", "m"]})
    rule = Policy(domain, secrets.full(), [known.counts_by("ward")])
    assert rule.moves == cells
    assert rule.l1(queries.histogram("ward", "sex")) == expected
    cell = {x: x[0] for x in values(rule)}
    assert sensitivity_with_known_counts(rule, queries.histogram("ward", "sex"), cell, most=cells) == expected


def test_our_definition_counts_moves_off_the_secret_pairs_too():
    domain = Domain({"ward": ["A", "B"], "sex": ["f", "m"]})
    rule = Policy(domain, secrets.attributes(1), [known.counts_by("ward")])
    assert rule.l1(queries.histogram("ward", "sex")) == 4


def test_a_known_count_on_a_line_is_an_upper_bound():
    domain = Domain({"x": range(6)})
    near, farther = (Policy(domain, secrets.distance(x=reach), [known.counts_of([[3, 4, 5]])]) for reach in (1, 2))
    cell = {(x,): x >= 3 for x in range(6)}
    histogram = queries.histogram("x")
    assert (near.l1(histogram), sensitivity_with_known_counts(near, histogram, cell, most=2)) == (4, 2)
    assert (farther.l1(histogram), sensitivity_with_known_counts(farther, histogram, cell, most=2)) == (4, 4)


def test_parts_inside_known_cells_move_alone():
    domain = Domain({"age": range(20), "ward": ["A", "B"]})
    rule = Policy(domain, secrets.partition(age=[0, 10]), [known.counts_by("ward")])
    assert rule.moves == 1
    assert Policy(domain, secrets.full(), [known.counts_by("age")]).moves == 20
    assert Policy(domain, secrets.distance(age=3), [known.counts_by("ward")]).moves == 1


def test_what_known_counts_decide_is_no_secret():
    domain = Domain({"age": range(20), "ward": ["A", "B"]})
    rule = Policy(domain, secrets.full(), [known.counts_by("ward")])
    assert rule.l1(queries.histogram("ward")) == 0
    assert rule.l1(queries.linear(lambda record: 3 if record["ward"] == "A" else 5, name="f")) == 0
    assert rule.l1(queries.histogram("age")) == 4
    assert rule.steps(("ward",), queries.histogram("ward").table(domain), sampled=True) == 4
    assert Policy(domain, secrets.full(), [known.counts_by("age")]).l1(queries.sum("age")) == 0


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_with_known_counts_the_sensitivity_is_never_below_the_truth(data):
    rule = data.draw(policies(largest_domain=6))
    count = rule.domain.size
    label = data.draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))
    listed = [[rule.domain.record(i) for i in range(count) if label[i] == number] for number in range(2)]
    if not any(listed):
        return
    knowing = Policy(rule.domain, rule.secret, [known.counts_of([cell for cell in listed if cell])])
    cell = {x: label[np.ravel_multi_index(x, rule.domain.shape)] for x in values(rule)}
    query = queries.histogram(*rule.domain.names)
    assert knowing.l1(query) >= sensitivity_with_known_counts(knowing, query, cell, most=3)


@given(st.integers(3, 9), st.data())
@settings(max_examples=30, deadline=None)
def test_moves_is_the_longest_cycle(count, data):
    domain = Domain({"x": range(count)})
    every = [(a, b) for a in range(count) for b in range(a + 1, count)]
    chosen = data.draw(st.lists(st.sampled_from(every), min_size=1, unique=True))
    rule = Policy(domain, secrets.graph(chosen), [known.counts_by("x")])
    near = {a: {b for x, y in chosen for b in (x, y) if a in (x, y) and a != b} for a in range(count)}

    def longest(path):
        closes = len(path) if path[0] in near[path[-1]] else 0
        return max([closes, *(longest([*path, v]) for v in near[path[-1]] - set(path) if v > path[0])])

    assert rule.moves == max(longest([start]) for start in range(count))


# ---- composition -------------------------------------------------------------------------------------------------


def test_groups_of_people_cost_the_largest_and_groups_by_value_the_two_largest():
    domain = Domain({"age": range(101), "ward": ["A", "B", "C"]})
    rule = Policy(domain, secrets.full())
    assert rule.parallel_cost([0.5, 1.0, 0.25]) == 1
    assert rule.parallel_cost([0.5, 1.0, 0.25], by="ward") == Fraction(3, 2)
    assert Policy(domain, secrets.distance(age=5)).parallel_cost([0.5, 1.0], by="ward") == 1
    knowing = Policy(domain, secrets.full(), [known.counts_by("ward")])
    assert knowing.parallel_cost([0.5, 1.0, 0.25, 2.0]) == Fraction(7, 2)
    assert knowing.parallel_cost([0.5, 1.0, 0.25, 2.0], by="ward") == Fraction(15, 4)


# ---- face --------------------------------------------------------------------------------------------------------


@given(policies())
@settings(max_examples=40, deadline=None)
def test_a_policy_survives_being_written_down(rule):
    again = Policy.from_dict(rule.to_dict())
    assert again == rule
    assert again.sha256 == rule.sha256


def test_known_counts_and_lists_survive_being_written_down():
    domain = Domain({"ward": ["A", "B"], "level": [3, 7, 1], "age": range(5)})
    secret = secrets.partition(ward=[["A", "B"]], age=[0, 2])
    rule = Policy(domain, secret, [known.counts_by("ward", "age")], name="w")
    assert Policy.from_dict(rule.to_dict()) == rule


def test_the_promise_says_what_is_hidden_and_what_is_not():
    domain = Domain({"age": range(101), "ward": ["A", "B"]})
    rule = Policy(domain, secrets.distance(age=5), [known.counts_by("ward")], name="nearby_age")
    for words in (
        "policy nearby_age",
        "hidden: age up to a distance of 5",
        "not hidden: presence",
        "ward",
        "weaker than",
    ):
        assert words in rule.promise


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda: Policy(AGES, secrets.partition(age=[0, 200])), "E_USAGE"),
        (lambda: Policy(AGES, secrets.partition(age=[20, 10])), "E_USAGE"),
        (lambda: Policy(AGES, secrets.partition(age=list(range(101)))), "E_USAGE"),
        (lambda: Policy(AGES, secrets.distance(age=0)), "E_USAGE"),
        (lambda: Policy(AGES, secrets.distance(age=0.5)), "E_USAGE"),
        (lambda: Policy(AGES, secrets.distance(age="far")), "E_USAGE"),
        (lambda: Policy(AGES, secrets.distance(height=5)), "E_USAGE"),
        (lambda: Policy(AGES, secrets.distance(within=1, age=3)), "E_USAGE"),
        (lambda: Policy(AGES, secrets.distance()), "E_USAGE"),
        (lambda: Policy(AGES, secrets.graph([])), "E_USAGE"),
        (lambda: Policy(AGES, secrets.graph([(3, 3)])), "E_USAGE"),
        (lambda: Policy(AGES, secrets.graph([(3, 300)])), "E_USAGE"),
        (lambda: Policy(AGES, secrets.attributes(2)), "E_USAGE"),
        (lambda: Policy(AGES, secrets.attributes(0)), "E_USAGE"),
        (lambda: Policy(Domain({"w": ["A", "B"]}), secrets.distance(w=1)), "E_USAGE"),
        (lambda: Policy(Domain({"w": ["A"]}), secrets.full()), "E_USAGE"),
        (lambda: Policy(AGES, secrets.full(), [known.counts_by("height")]), "E_USAGE"),
        (lambda: Policy(AGES, secrets.full(), [known.counts_by("age"), known.counts_of([[1]])]), "E_POLICY"),
        (lambda: Policy(AGES, secrets.full(), [known.counts_of([[1], [1, 2]])]), "E_USAGE"),
        (lambda: Domain({}), "E_USAGE"),
        (lambda: Domain({"age": range(0, 10, 2)}), "E_USAGE"),
        (lambda: Domain({"age": range(0)}), "E_USAGE"),
        (lambda: Domain({"w": ["A", "A"]}), "E_USAGE"),
        (lambda: Domain({"w": ["A", 1]}), "E_USAGE"),
        (lambda: Domain({"w": [1.5]}), "E_USAGE"),
        (lambda: Policy(AGES, secrets.full()).l1(queries.histogram("height")), "E_USAGE"),
        (lambda: Policy(AGES, secrets.full()).l1(queries.linear(lambda _: 0.5, name="f")), "E_USAGE"),
        (lambda: Policy(AGES, secrets.full()).l1(queries.linear(lambda _: 1 / 0, name="f")), "E_USAGE"),
        (lambda: Policy(AGES, secrets.full()).l1(queries.ranges("age", [(5, 3)])), "E_USAGE"),
        (lambda: Policy(AGES, secrets.full()).distance(3, 300), "E_USAGE"),
        (lambda: Policy(AGES, secrets.full()).distance("x", 3), "E_USAGE"),
        (
            lambda: Policy(Domain({"a": range(1 << 11), "b": range(1 << 11)}), secrets.full()).l1(
                queries.histogram("a", "b")
            ),
            "E_LIMITS",
        ),
    ],
)
def test_wrong_use_is_refused(make, code):
    with pytest.raises(ShoalError) as refused:
        make()
    assert refused.value.code == code
