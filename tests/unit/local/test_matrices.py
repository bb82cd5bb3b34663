"""The promise itself, in rationals: rows sum to 1, and no column has two entries further apart than e^ε."""

from __future__ import annotations

import itertools
from decimal import Context, Decimal
from fractions import Fraction

import pytest

from shoal import local
from shoal.errors import ShoalError
from shoal.local import oracles

EPSILONS = ["0.001", "0.5", "1", "4", "20"]


def power_below(epsilon: str) -> Fraction:
    """A rational just below e^ε."""
    context = Context(prec=80)
    return Fraction(context.next_minus(context.exp(Decimal(epsilon))))


def holds(question, epsilon: str) -> bool:
    rows = question.matrix()
    largest, sums = power_below(epsilon), {sum(row) for row in rows}
    columns = zip(*rows, strict=True)
    return sums == {1} and all(max(column) <= largest * min(column) for column in columns)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("count", [2, 3, 7, 10])
@pytest.mark.parametrize("oracle", ["subset", "projective", "unary"])
def test_every_oracle_keeps_its_epsilon_exactly(oracle, count, epsilon):
    question = local.choice(range(count), epsilon=Decimal(epsilon), oracle=oracle)
    assert holds(question, epsilon)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("upper", [1, 2, 10, 40])
def test_counts_keep_their_epsilon_exactly_and_a_part_of_it_for_each_step(upper, epsilon):
    question = local.count(upper, epsilon=Decimal(epsilon))
    assert holds(question, epsilon)
    step = power_below(str(Decimal(epsilon) / upper)) * (1 + Fraction(1, 10**20))
    for before, after in itertools.pairwise(question.matrix()):
        assert all(max(pair) <= step * min(pair) for pair in zip(before, after, strict=True))


@pytest.mark.parametrize(
    ("first", "total"), [("0.5", "1"), ("1", "4"), ("0.001", "0.002"), ("3", "3.0001"), ("1", "20")]
)
@pytest.mark.parametrize("count", [2, 3, 6])
def test_one_report_of_a_longitudinal_question_keeps_first_and_its_permanent_bits_total(count, first, total):
    question = local.choice(range(count), longitudinal=(Decimal(first), Decimal(total)))
    assert holds(question, first)
    permanent = oracles.Unary(count, question.design.weights)
    rows = permanent.matrix()
    columns = zip(*rows, strict=True)
    assert all(max(column) <= power_below(total) * min(column) for column in columns)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_hashing_keeps_its_epsilon_for_every_seed(epsilon):
    design = local.text(epsilon=Decimal(epsilon)).design
    total = design.weights.inside + (design.buckets - 1) * design.weights.outside
    own, other = Fraction(design.weights.inside, total), Fraction(design.weights.outside, total)
    assert own + (design.buckets - 1) * other == 1
    assert other < own <= power_below(epsilon) * other


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_numbers_keep_their_epsilon_in_both_branches(epsilon):
    design = local.number(0, 1, epsilon=Decimal(epsilon)).design
    width, everything = 2 * design.reach + 1, 2 * (2**20 + design.reach) + 1
    assert design.total == width * design.weights.inside + (everything - width) * design.weights.outside
    assert design.weights.ratio <= power_below(epsilon)


def test_a_longer_list_keeps_its_epsilon_by_its_weights():
    for oracle, count in (("subset", 4096), ("projective", 65536), ("unary", 5000)):
        assert local.choice(range(count), epsilon=1, oracle=oracle).design.weights.ratio <= power_below("1")


@pytest.mark.parametrize("oracle", ["subset", "projective", "unary"])
@pytest.mark.parametrize(("count", "epsilon"), [(3, 1), (5, 0.5), (9, 0.7)])
def test_p_and_q_are_what_counting_gives(oracle, count, epsilon):
    question = local.choice(range(count), epsilon=epsilon, oracle=oracle)
    supports = supported_sets(question)
    for value, row in enumerate(question.matrix()):
        for other in range(count):
            chance = sum(p for p, values in zip(row, supports, strict=True) if other in values)
            assert chance == (question.p if other == value else question.q)


def supported_sets(question):
    design = question.design
    if design.name == "subset":
        return [set(chosen) for chosen in itertools.combinations(range(design.values), design.size)]
    if design.name == "unary":
        return [{i for i in range(design.values) if report >> i & 1} for report in range(1 << design.values)]
    points = [local.client.point(i, design.field, design.length) for i in range(design.points)]
    return [
        {j for j in range(design.values) if sum(a * b for a, b in zip(points[j], u, strict=True)) % design.field == 0}
        for u in points
    ]


@pytest.mark.parametrize("oracle", ["hashing", "unary", "subset"])
def test_a_matrix_of_too_many_reports_is_refused(oracle):
    with pytest.raises(ShoalError, match="E_USAGE"):
        local.choice(range(40), epsilon=1, oracle=oracle).matrix()


def test_a_matrix_of_a_large_count_is_there():
    rows = local.count(1000, epsilon=1).matrix()
    assert len(rows) == len(rows[0]) == 1001
    assert sum(rows[500]) == 1


def test_the_first_lists_of_a_subset_oracle_with_one_value_are_randomized_response():
    question = local.choice(["a", "b", "c"], epsilon=1)
    assert question.parameters == {"size": 1}
    own, other = question.matrix()[0][:2]
    assert own / other == question.design.weights.ratio
