"""Those who hold the data and answer: exactly, rounded, with a little noise, or privately with a budget."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from shoal.exact import as_fraction
from shoal.frozen import dataclass
from shoal.mechanisms.sampling.samplers import discrete_laplace

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


class Curator(Protocol):
    """Answers a batch of counting queries, given what the true answers are."""

    @property
    def name(self) -> str:
        """What the curator does, for people."""

    def answer(self, truth: Floats) -> Floats:
        """The answers an analyst gets; each entry is one query."""


@dataclass(frozen=True)
class Exact:
    """Answers as they are."""

    name: str = "exact answers"

    def answer(self, truth: Floats) -> Floats:
        """The truth."""
        return truth


@dataclass(frozen=True)
class Rounded:
    """Answers rounded to the nearest multiple of a base."""

    base: int

    @property
    def name(self) -> str:
        """What the curator does, for people."""
        return f"rounded to {self.base}"

    def answer(self, truth: Floats) -> Floats:
        """The nearest multiple; halves go up."""
        rounded: Floats = np.floor(truth / self.base + 0.5) * self.base
        return rounded


@dataclass(frozen=True)
class SmallNoise:
    """Fresh Laplace noise on every answer, at no charge, however often it is asked."""

    scale: float
    rng: np.random.Generator

    @property
    def name(self) -> str:
        """What the curator does, for people."""
        return f"noise of scale {self.scale:.3g}, no budget"

    def answer(self, truth: Floats) -> Floats:
        """The truth and fresh noise."""
        noisy: Floats = truth + self.rng.laplace(scale=self.scale, size=truth.shape)
        return noisy


@dataclass(frozen=True)
class Private:
    """The noise of a private SUM, one budget for the whole batch: ε is shared evenly by all queries.

    Every owner moves every answer by at most 1, so k answers at ε/k each add up to ε. A row of answers is a query;
    columns are independent runs with a budget of their own.
    """

    epsilon: float

    @property
    def name(self) -> str:
        """What the curator does, for people."""
        return f"shoal, total ε = {self.epsilon:.4g}"

    def answer(self, truth: Floats) -> Floats:
        """The truth and discrete Laplace noise of scale k/ε for k queries (rows of `truth`)."""
        scale = len(truth) / as_fraction(self.epsilon)
        noise = discrete_laplace(scale, truth.size).reshape(truth.shape)
        noisy: Floats = truth + noise
        return noisy
