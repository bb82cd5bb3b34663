"""The interface of a selection rule: calibrate, decide, and report its chances, cost and threshold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from shoal.frozen import dataclass

if TYPE_CHECKING:
    from fractions import Fraction

    import numpy as np
    import numpy.typing as npt

    from shoal.accounting.events import Event, GaussianNoise, Selection, Shift, ThresholdSelection, WeightedSelection
    from shoal.mechanisms.entropy import Entropy

MOST_OWNERS = 1 << 62


@dataclass(frozen=True, slots=True)
class SelectionDraw:
    """Which groups appear; for a threshold rule also the noisy owner counts, released only for kept groups."""

    kept: npt.NDArray[np.bool_]
    noisy_owners: npt.NDArray[np.int64] | None
    noises: tuple[npt.NDArray[Any], npt.NDArray[Any]] | None = None
    """If two parts of a whole decide: the noise of each, to be added to what is released."""


@dataclass(frozen=True, slots=True)
class SelectionApart:
    """A selection with its own budget, and the events charged for it."""

    selection: Selection
    events: tuple[Event, ...]
    epsilon: Fraction


class SelectionLoss(NamedTuple):
    """The cost of a selection event alone: (ε, δ), and δ-approximate ρ-zCDP."""

    epsilon: Fraction
    delta: Fraction
    rho: Fraction
    rho_delta: Fraction


class Rule(Protocol):
    """One rule. n is a group's number of owners after bounding, minus (`min_owners` − 1); a group with n < 1 is never kept.

    The methods that take a selection are only called with selections that the rule `made`.
    """

    name: str
    """Its name in OPTIONS and in `explain`."""
    words: str
    """What it does, in half a sentence."""
    reads: str | None
    """The noise of the owner count it reads, as named in OPTIONS; the count may be a released one. None: it reads no count."""
    joins_gaussian: bool
    """Whether its input can be one more part of a joint Gaussian release; it is then a `JointRule`."""

    def made(self, selection: Selection) -> bool:
        """Whether a selection is one of this rule."""

    def apart(self, max_groups: int, min_owners: int, epsilon: Fraction, delta: Fraction) -> SelectionApart:
        """The rule with its own (ε, δ), for owners in at most this many groups."""

    def draw(
        self,
        selection: Any,
        owners: npt.NDArray[np.int64],
        entropy: Entropy,
        weights: npt.NDArray[np.int64] | None = None,
    ) -> SelectionDraw:
        """Decides each group, given its owners after bounding (and their summed weights); each decision has a separate draw."""

    def keep_probability(self, selection: Any, counted: int, weight: float | None = None) -> float:
        """The chance that a group with n = `counted` ≥ 1 is kept; by the sum of its weights, if the rule uses weights."""

    def half_point(self, selection: Any) -> int:
        """The smallest n at which a group is at least as likely to be kept as not."""

    def typical_owners(self, selection: Any) -> float:
        """Roughly the same, including the minimum, if a group's owners are in 1 to κ groups, all equally likely."""

    def threshold(self, selection: Any) -> int | None:
        """The noisy count from which a group appears, if the rule has one."""

    def loss(self, selection: Any) -> SelectionLoss:
        """The cost of the event; an `InternalError` if its claim does not hold."""

    def responses(self, selection: Any) -> tuple[Fraction, int] | None:
        """(ε₁, κ) if the event is κ randomised responses of ε₁ each, in addition to its δ; None if it costs only δ."""


class JointRule(Rule, Protocol):
    """A rule that reads Gaussian noise, its own or part of a joint release."""

    def shift(self, max_groups: int) -> Shift:
        """How far one owner moves its input."""

    def joined(
        self, noise: GaussianNoise, max_groups: int, min_owners: int, delta: Fraction, *, released: bool = False
    ) -> ThresholdSelection | WeightedSelection:
        """The rule on noise charged elsewhere; `released`: on a count that is also an answer."""
