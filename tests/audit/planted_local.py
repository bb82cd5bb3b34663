"""Planted bugs in the local model: weights, draws, points, memory, estimators."""

import itertools
import math
from fractions import Fraction

import numpy as np
from planted import EXACT, INVARIANT, REFUSAL, TESTER, is_caught_sampling, planted

from shoal import local
from shoal.audit.suite import surveys
from shoal.errors import ShoalError
from shoal.local import client, oracles, projective, questions, weights

FIVE = list(range(5))


def breaks_its_promise(asked):
    """The matrix has a column too far apart, or the client refuses the question for its weights."""

    def alarm():
        try:
            return not surveys.exact_promise(asked)(1.0).holds
        except ShoalError:
            return True

    return alarm


# ---- weights -----------------------------------------------------------------------------------------------------


@planted(
    "e^ε rounded up",
    "w₁ is the ceiling of e^ε·2⁴⁰, not the floor",
    EXACT,
    breaks_its_promise(lambda epsilon: local.choice(FIVE, epsilon=epsilon, oracle="subset")),
)
def weights_rounded_up(patch):
    honest = weights.floor_exp
    patch.setattr(weights, "floor_exp", lambda epsilon, scale: honest(epsilon, scale) + 1)


@planted(
    "e^ε rounded up",
    "the ratio of the geometric mechanism is rounded down: less noise than ε asks for",
    EXACT,
    breaks_its_promise(lambda epsilon: local.count(5, epsilon=epsilon)),
)
def a_geometric_ratio_rounded_down(patch):
    honest = weights.ratio_above

    def rounded_down(step):
        ratio, one = honest(step)
        return ratio - 1, one

    patch.setattr(questions, "ratio_above", rounded_down)


def _takes_any_weights():
    spec = local.yes_no(epsilon=5).spec | {"epsilon": "1"}
    try:
        client.Client(spec)
    except ValueError:
        return False
    return True


@planted(
    "a client that trusts the collector",
    "the client does not look at the weights of a question",
    REFUSAL,
    _takes_any_weights,
)
def a_client_that_trusts_the_collector(patch):
    patch.setattr(client, "keeps", lambda _ratio, _epsilon: True)


# ---- draws -------------------------------------------------------------------------------------------------------


def _randomized_response_of_five():
    """ε = ln 2 over five values: the total weight is 6·2⁴⁰, of which a remainder would favour the first third."""
    double = {"epsilon": str(Fraction(math.log(2) + 1e-9)), "weights": [2 << 40, 1 << 40], "size": 1}
    device = client.Client(local.choice(FIVE, epsilon=1, oracle="subset").spec | double)
    return lambda value, n: np.array([device.draw(value)[0] for _ in range(n)])


@planted(
    "modulo bias",
    "uniform integers are a remainder of random bits",
    TESTER,
    is_caught_sampling(_randomized_response_of_five, math.log(2) + 1e-8, samples=6000, inputs=[(0, 1)], search=False),
)
def remainders_of_random_bits(patch):
    patch.setattr(client, "below", lambda bound, bits: bits((bound - 1).bit_length()) % bound)


@planted(
    "Hadamard's zero column",
    "the first value is the zero vector, which every report supports",
    EXACT,
    breaks_its_promise(lambda epsilon: local.choice(FIVE, epsilon=epsilon, oracle="projective")),
)
def a_value_that_every_report_supports(patch):
    honest = projective._points_of

    def with_zero(numbers, field, length):
        found = honest(numbers, field, length)
        found[np.asarray(numbers) == 0] = 0
        return found

    patch.setattr(projective, "_points_of", with_zero)


# ---- memory ------------------------------------------------------------------------------------------------------


def _six_rounds():
    """How often the own bit was set in six rounds, less the other one."""
    spec = local.choice([0, 1], longitudinal=(1, 1.5)).spec

    def mechanism(value, n):
        found = np.zeros(n, dtype=np.int64)
        device = client.Client(spec)
        for sample in range(n):
            device._kept.clear()  # a new respondent
            reports = [int(device.randomize(value, round=str(turn))["r"], 16) for turn in range(6)]
            found[sample] = sum((report & 1) - (report >> 1 & 1) for report in reports)
        return found

    return mechanism


@planted(
    "a memo that is not kept",
    "a longitudinal client draws its permanent bits anew in each round",
    TESTER,
    is_caught_sampling(_six_rounds, 1.5, samples=4000, inputs=[(0, 1)], search=False),
)
def permanent_bits_drawn_anew(patch):
    honest = client.Client.randomize

    def forgetful(self, value, round=""):  # noqa: A002 - the client's own word
        self._kept.get(self.sha256, {}).pop("permanent", None)
        return honest(self, value, round)

    patch.setattr(client.Client, "randomize", forgetful)


def _answers_differ():
    device = client.Client(local.text(epsilon=1).spec)
    return device.randomize("tea") != device.randomize("tea")


@planted(
    "fresh noise for a repeated question",
    "the client draws a new report when it is asked again",
    INVARIANT,
    _answers_differ,
)
def a_new_report_each_time(patch):
    patch.setattr(client.Client, "randomize", lambda self, value: {"q": "", "r": self.draw(value)})


# ---- estimators --------------------------------------------------------------------------------------------------


def _is_biased():
    """q against what the matrix counts."""
    question = local.choice(FIVE, epsilon=0.5, oracle="subset")
    chosen = itertools.combinations(range(5), question.parameters["size"])
    counted = sum(chance for chance, places in zip(question.matrix()[0], chosen, strict=True) if 1 in places)
    return counted != question.q


@planted("an estimator of another mechanism", "q is that of k-ary randomized response, w = 1", EXACT, _is_biased)
def the_q_of_the_wrong_size(patch):
    honest = oracles.Subset.chances.func

    def mixed(self):
        return honest(self)[0], honest(oracles.Subset(self.values, self.weights, 1))[1]

    patch.setattr(oracles.Subset, "chances", property(mixed))
