"""The samplers of the audit, each as a noisy count of the letters of a word."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.accounting.events import LaplaceNoise, Shift
from shoal.exact import as_fraction
from shoal.frozen import dataclass
from shoal.mechanisms import calibrate
from shoal.mechanisms.noise import draw_noise
from shoal.mechanisms.sampling.samplers import VETTED_BATCH, bernoulli, discrete_gaussian, discrete_laplace, geometric

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

SMALL_DELTA = 0.01
"""A δ that samples can tell; realistic ones are computed exactly instead."""


@dataclass(frozen=True, slots=True)
class Sampler:
    """`draws(ε, n)` is noise for a count; one that is `slower` is asked for fewer samples."""

    name: str
    draws: Callable[[float, int], NDArray[Any]]
    delta: float = 0.0
    slower: int = 1

    def mechanism(self, epsilon: float) -> Callable[[str, int], NDArray[Any]]:
        """The noisy number of letters of a word."""
        return lambda word, samples: len(word) + self.draws(epsilon, samples)


def _scale(epsilon: float) -> Fraction:
    return calibrate.laplace_scale(Shift(1), as_fraction(epsilon))


def _vetted_laplace(epsilon: float, samples: int) -> NDArray[Any]:
    batches = [min(VETTED_BATCH, samples - start) for start in range(0, samples, VETTED_BATCH)]
    return np.concatenate([discrete_laplace(_scale(epsilon), size) for size in batches])


def _two_geometrics(epsilon: float, samples: int) -> NDArray[Any]:
    scale = _scale(epsilon)
    return geometric(scale, samples) - geometric(scale, samples)


def _laplace(epsilon: float, samples: int) -> NDArray[Any]:
    return draw_noise(LaplaceNoise(Shift(1), _scale(epsilon)), samples)


def _gaussian(epsilon: float, samples: int) -> NDArray[Any]:
    sigma = calibrate.joint_gaussian_sigmas([Shift(1)], [1], as_fraction(epsilon), as_fraction(SMALL_DELTA))[0]
    return discrete_gaussian(sigma, samples)


@dataclass(frozen=True, slots=True)
class _Coins(Sampler):
    """Randomized response: whether the number of letters is odd, reported truthfully with chance e^ε/(1 + e^ε) rounded down."""

    def mechanism(self, epsilon: float) -> Callable[[str, int], NDArray[Any]]:
        """A coin that is biased by the number of letters."""
        chance = Fraction(math.floor(math.exp(epsilon) / (1 + math.exp(epsilon)) * 2**50), 2**50)

        def mechanism(word: str, samples: int) -> NDArray[Any]:
            odd = chance if len(word) % 2 else 1 - chance
            return bernoulli([odd], np.zeros(samples, dtype=np.int64)).astype(np.int64)

        return mechanism


SAMPLERS: tuple[Sampler, ...] = (
    Sampler("discrete Laplace", _laplace),
    Sampler("discrete Laplace, vetted library", _vetted_laplace, slower=2),
    Sampler("difference of two geometrics", _two_geometrics),
    Sampler("discrete Gaussian", _gaussian, delta=SMALL_DELTA),
    _Coins("biased coins", _gaussian),
)
