"""The tables of the documentation, to the digits shown (the last one may be rounded twice)."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from shoal import local
from shoal.accounting.claims.shuffling import shuffled_epsilon
from shoal.local import oracles
from shoal.local.geometric import LOSSES
from shoal.local.shuffle import closed_form_of_2021
from shoal.local.weights import weights_for

ORACLES = {
    # (ε, k): best n·Var, then relative to it: k-ary RR, subset, projective, unary, hashing, Hadamard
    ("0.5", 16): ("13.72", "2.81", "1", "1.10", "1.15", "1.16", "1.21"),
    ("1", 4): ("1.889", "1.00", "1", "1.00", "2.08", "2.12", "2.35"),
    ("1", 64): ("3.553", "6.33", "1", "1.04", "1.04", "1.04", "1.31"),
    ("1", 1024): ("3.674", "94.6", "1", "1.024", "1.002", "1.005", "1.27"),
    ("2", 256): ("0.7146", "9.18", "1", "1.017", "1.019", "1.019", "2.41"),
    ("4", 64): ("0.0587", "1.00", "1", "1.04", "1.56", "1.56", "18.1"),
    ("4", 1024): ("0.0749", "5.25", "1", "1.018", "1.028", "1.028", "14.4"),
}


def shows(value: float, digits: str) -> bool:
    """Whether a number is shown by these digits; half a unit of the last place, and a little for rounding twice."""
    places = len(digits.partition(".")[2])
    return abs(value - float(digits)) <= 0.55 * 10**-places


def hadamard(epsilon: float, share: float) -> float:
    p = math.exp(epsilon) / (math.exp(epsilon) + 1)
    return (share * p * (1 - p) + (1 - share) / 4) / (p - 0.5) ** 2


@pytest.mark.parametrize(("epsilon", "count"), ORACLES)
def test_the_table_of_oracles(epsilon, count):
    exact, texts = Fraction(epsilon), tuple(range(count))
    known = oracles.candidates(texts, exact)
    spreads = {name: oracles.variance(oracle, 1 / count) for name, oracle in known.items()}
    best = min(spreads.values())
    kary = oracles.variance(oracles.Subset(count, weights_for(exact), 1), 1 / count)
    found = [kary, *spreads.values(), hadamard(float(exact), 1 / count)]
    shown, *ratios = ORACLES[epsilon, count]
    assert list(known) == ["subset", "projective", "unary", "hashing"]
    assert shows(best, shown), best
    assert all(shows(one / best, ratio) for one, ratio in zip(found, ratios, strict=True)), [x / best for x in found]


@pytest.mark.parametrize("epsilon", ["0.1", "0.5", "1", "2", "4"])
@pytest.mark.parametrize("count", [2, 3, 16, 100, 1024])
def test_subset_is_never_beaten_where_shares_are_small(epsilon, count):
    known = oracles.candidates(tuple(range(count)), Fraction(epsilon))
    assert oracles.variance(known["subset"], 1 / count) <= min(
        oracles.variance(oracle, 1 / count) * (1 + 1e-9) for oracle in known.values()
    )


@pytest.mark.parametrize("count", [256, 1000, 4096, 20_000, 65_536])
@pytest.mark.parametrize("epsilon", ["0.5", "1", "2"])
def test_projective_is_within_a_few_percent_of_the_best_at_18_bits(count, epsilon):
    known = oracles.candidates(tuple(range(count)), Fraction(epsilon))
    limit = oracles.variance(oracles.best_subset(count, weights_for(Fraction(epsilon))), 1 / count)
    assert oracles.variance(known["projective"], 1 / count) <= 1.035 * limit
    assert known["projective"].message_bits <= 18


@pytest.mark.parametrize(
    ("epsilon", "count", "name"),
    [("1", 3, "subset"), ("1", 4, "subset"), ("0.5", 16, "subset"), ("1", 64, "projective"), ("2", 256, "projective"),
     ("4", 64, "subset"), ("4", 1024, "projective"), ("1", 65_536, "projective")],
)  # fmt: skip
def test_the_automatic_choice(epsilon, count, name):
    assert oracles.best_oracle(tuple(range(count)), Fraction(epsilon)).name == name


@pytest.mark.parametrize(("epsilon", "shown"), [(0.5, "16.67"), (1, "4.289"), (2, "1.042"), (4, "0.219")])
def test_the_worst_variance_of_numbers(epsilon, shown):
    design = local.number(-1, 1, epsilon=epsilon).design
    assert shows(design.worst_variance, shown)
    assert design.worst_variance < 8 / epsilon**2


def test_the_constants_of_a_longitudinal_question():
    question = local.choice(["a", "b", "c"], longitudinal=(1, 4))
    assert shows(float(question.parameters["keep"]), "0.739680")
    assert question.p == Fraction(1, 2)
    assert shows(float(question.q), "0.268941")
    plain = local.choice(["a", "b", "c"], epsilon=1, oracle="unary")
    assert question.expected_error(1000) == pytest.approx(plain.expected_error(1000), rel=1e-9)


@pytest.mark.parametrize(
    ("loss", "shown"), [("absolute", "1.060537"), ("squared", "1.979521"), ("zero_one", "0.629234")]
)
def test_the_remapped_geometric_mechanism_is_the_optimum_over_all_mechanisms(loss, shown):
    """The linear program over every mechanism with six outputs that keeps ½ for each step."""
    from scipy.optimize import linprog

    question = local.count(5, epsilon=2.5)
    rows = np.array([[float(chance) for chance in row] for row in question.matrix()])
    reading = question.remap([1] * 6, loss)
    mean = sum(rows[i, j] * LOSSES[loss](reading[j], i) for i in range(6) for j in range(6)) / 6
    costs = np.array([LOSSES[loss](guess, truth) for truth in range(6) for guess in range(6)]) / 6
    limits = []
    for truth, other in [(i, i + 1) for i in range(5)] + [(i + 1, i) for i in range(5)]:
        for guess in range(6):
            limit = np.zeros(36)
            limit[truth * 6 + guess], limit[other * 6 + guess] = 1, -math.exp(0.5)
            limits.append(limit)
    sums = np.kron(np.eye(6), np.ones(6))
    best = linprog(costs, A_ub=np.array(limits), b_ub=np.zeros(len(limits)), A_eq=sums, b_eq=np.ones(6), method="highs")
    assert shows(mean, shown)
    assert mean == pytest.approx(best.fun, abs=1e-8)


SHUFFLED = {
    (1, 10**4): ("0.0530", "0.0432", "0.2140"),
    (1, 10**5): ("0.0153", "0.0124", "0.0726"),
    (4, 10**5): ("0.170", "0.118", "0.535"),
    (2, 10**4): ("0.155", "0.114", "0.501"),
}


@pytest.mark.parametrize(("epsilon", "n"), SHUFFLED)
def test_the_table_of_shuffling(epsilon, n):
    any_oracle, binary, closed = SHUFFLED[epsilon, n]
    assert shows(local.shuffled(epsilon, n, 1e-6), any_oracle)
    assert shows(local.shuffled(epsilon, n, 1e-6, oracle="yes_no"), binary)
    assert shows(closed_form_of_2021(epsilon, n, 1e-6), closed)
    assert shuffled_epsilon(epsilon, n, 1e-6) == local.shuffled(epsilon, n, 1e-6)


def test_the_survey_of_the_thesis():
    """Two coins, 400 of 1000 say yes: three tenths, standard error 0.0310 over the population."""
    question = local.yes_no(epsilon=local.from_keep_probability(0.75))
    reports = [{"q": question.fingerprint, "r": [place]} for place in [1] * 400 + [0] * 600]
    estimate = question.estimate(reports, target="population", consistent=False)
    assert shows(estimate["yes"].share, "0.300")
    assert shows(estimate.standard_error[1], "0.0310")


def test_variance_as_the_notes_write_it():
    """Truth with ½ + γ, half of the values true: 1/(16γ²n) − 1/(4n) for those who answered."""
    gamma, n = 0.25, 1000
    question = local.yes_no(epsilon=local.from_keep_probability(0.5 + gamma))
    assert question.expected_error(n) ** 2 == pytest.approx(1 / (16 * gamma**2 * n) - 1 / (4 * n), rel=1e-9)


def test_the_central_error_for_contrast():
    found = local.compare(values=2, epsilon=1, n=10_000)
    assert found.central_standard_error == pytest.approx(1.4e-4, abs=0.05e-4)
    assert found.rows[0].standard_error == pytest.approx(9.6e-3, abs=0.05e-3)
