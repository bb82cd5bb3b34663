"""The door to exact noise: types, saturation, wide draws, coins with rational chances."""

from __future__ import annotations

import os
from fractions import Fraction

import numpy as np
import pytest

from shoal.errors import InternalError
from shoal.mechanisms.entropy import SYSTEM, Entropy, seeded_entropy
from shoal.mechanisms.sampling import opendp_samplers, rejection, samplers, vectorised


class Words(Entropy):
    """Plays given 64-bit words, then given bits."""

    safe = False

    def __init__(self, *words):
        self.words = list(words)

    def bytes(self, count):
        raise NotImplementedError

    def uint64(self, count):
        played, self.words = self.words[:count], self.words[count:]
        return np.array(played, dtype=np.uint64)

    def bits(self, _count):
        return self.words.pop(0)


@pytest.mark.parametrize("draw", [samplers.discrete_laplace, samplers.discrete_gaussian, samplers.geometric])
@pytest.mark.parametrize("scale", [Fraction(1, 10**7), Fraction(1, 3), Fraction(5), Fraction(2**60), Fraction(2**80)])
@pytest.mark.parametrize("entropy", [SYSTEM, seeded_entropy(5)], ids=["system", "seeded"])
def test_draws_are_int64_within_two_to_the_62(draw, scale, entropy):
    for size in (0, 1, 300):
        drawn = draw(scale, size, entropy)
        assert drawn.dtype == np.int64
        assert drawn.shape == (size,)
        assert (np.abs(drawn) <= 2**62).all()


@pytest.mark.parametrize("draw", [samplers.discrete_laplace, samplers.discrete_gaussian])
def test_a_tiny_scale_draws_zero(draw):
    assert not draw(Fraction(1, 10**7), 1000).any()


@pytest.mark.parametrize("draw", [samplers.wide_discrete_laplace, samplers.wide_discrete_gaussian])
def test_wide_draws_of_a_huge_scale_are_python_integers_that_neither_wrap_nor_saturate(draw):
    drawn = draw(Fraction(2**90), 2000, seeded_entropy(1))
    assert drawn.dtype == object
    largest = max(abs(value) for value in drawn)
    assert 2**90 < largest < 2**97
    assert len({value % 2**20 for value in drawn}) > 1900  # the low places are filled too


def test_a_seed_gives_the_same_noise_again():
    first, again = (samplers.discrete_gaussian(Fraction(9, 2), 50, seeded_entropy(8)) for _ in range(2))
    assert (first == again).all()


@pytest.mark.parametrize("scale", [Fraction(0), Fraction(-1)])
def test_noise_without_a_positive_scale_is_a_bug_of_ours(scale):
    with pytest.raises(InternalError):
        samplers.discrete_laplace(scale, 1)


@pytest.mark.system_noise
def test_small_batches_come_from_the_vetted_sampler_and_seeded_ones_never_do(monkeypatch):
    asked = []
    monkeypatch.setattr(
        opendp_samplers, "discrete_laplace", lambda scale, size: asked.append((scale, size)) or np.zeros(size, int)
    )
    samplers.wide_discrete_laplace(Fraction(3), 10)
    samplers.wide_discrete_laplace(Fraction(1, 3), 10)  # not a binary float
    samplers.wide_discrete_laplace(Fraction(2**60), 10)  # OpenDP would saturate
    samplers.wide_discrete_laplace(Fraction(3), samplers.VETTED_BATCH + 1)
    samplers.wide_discrete_laplace(Fraction(3), 10, seeded_entropy(1))
    assert asked == [(Fraction(3), 10)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:This process")
@pytest.mark.parametrize("draw", [opendp_samplers.discrete_laplace, opendp_samplers.discrete_gaussian])
def test_the_vetted_sampler_differs_after_a_fork(draw):
    draw(Fraction(2**40), 4)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, draw(Fraction(2**40), 4).tobytes())
        os._exit(0)
    mine = draw(Fraction(2**40), 4).tobytes()
    os.waitpid(child, 0)
    assert os.read(reader, 32) != mine  # false alarm below 2⁻¹⁶⁰


def test_a_coin_is_decided_by_its_first_word_unless_that_is_a_tie():
    half, third = Fraction(1, 2), Fraction(1, 3)
    word = 2**64 // 3  # binary thirds repeat: every further word of 1/3 is the same
    assert samplers.bernoulli([half], entropy=Words(2**63 - 1)).tolist() == [True]
    assert samplers.bernoulli([half], entropy=Words(2**63)).tolist() == [False]
    assert samplers.bernoulli([third], entropy=Words(word, word, word - 1)).tolist() == [True]
    assert samplers.bernoulli([third], entropy=Words(word, word, word + 1)).tolist() == [False]


def test_coins_of_chance_zero_and_one_are_certain():
    words = Words(0, 2**64 - 1, 0, 2**64 - 1)
    outcome = samplers.bernoulli([Fraction(0), Fraction(1)], np.array([0, 0, 1, 1]), words)
    assert outcome.tolist() == [False, False, True, True]


def test_a_coin_of_a_chance_far_below_one_word_uses_further_words():
    tiny = Fraction(3, 2**130)
    assert samplers.bernoulli([tiny], entropy=Words(0, 0, 3 * 2**62)).tolist() == [False]
    assert samplers.bernoulli([tiny], entropy=Words(0, 0, 3 * 2**62 - 1)).tolist() == [True]


@pytest.mark.parametrize("chance", [Fraction(-1, 5), Fraction(6, 5)])
def test_a_chance_outside_zero_and_one_is_a_bug_of_ours(chance):
    with pytest.raises(InternalError):
        samplers.bernoulli([chance])


def test_the_float_that_decides_a_gaussian_proposal_is_within_its_proven_error():
    exponents = np.concatenate([np.linspace(0, 61, 20_001), np.arange(0, 61 * 32) / 32, [1e-300, 2**-53]])
    values = rejection._exp_of_minus(exponents)
    for exponent, value in zip(exponents[::7], values[::7], strict=True):
        exact = Fraction(rejection.enclose_exp(Fraction(exponent), 400)[0], 2**400)
        assert abs(Fraction(value) - exact) <= exact / 2**38


def test_coins_decided_by_the_float_and_by_exact_arithmetic_agree():
    sigma, scale = Fraction(7, 3), Fraction(3)
    proposals = vectorised.discrete_laplace(scale, 3000, seeded_entropy(2))
    fast = rejection.keep_as_gaussian(proposals, sigma, scale, seeded_entropy(3))
    exact = rejection.keep_as_gaussian(proposals, sigma, scale, seeded_entropy(3), tolerance=10.0)
    assert (fast == exact).all()
