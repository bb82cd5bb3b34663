"""What a selection rule can be asked: to be calibrated, to decide, to say its chances, its cost and its threshold."""

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
    """Which groups appear; for a threshold rule also the noisy owners, to be released for kept groups only."""

    kept: npt.NDArray[np.bool_]
    noisy_owners: npt.NDArray[np.int64] | None
    noises: tuple[npt.NDArray[Any], npt.NDArray[Any]] | None = None
    """Where two parts of a whole decide: the noise of each, to be added to what is released."""


@dataclass(frozen=True, slots=True)
class SelectionApart:
    """A selection with a budget of its own, and the events that are charged for it."""

    selection: Selection
    events: tuple[Event, ...]
    epsilon: Fraction


class SelectionLoss(NamedTuple):
    """What a selection event alone costs: (ε, δ), and δ-approximate ρ-zCDP."""

    epsilon: Fraction
    delta: Fraction
    rho: Fraction
    rho_delta: Fraction


class Rule(Protocol):
    """One rule. n is a group's number of owners after bounding, less `min_owners` − 1; a group without such owners is never kept.

    The methods that take a selection are only asked about selections that the rule `made`.
    """

    name: str
    """As in OPTIONS and in `explain`."""
    words: str
    """What it does, in half a sentence."""
    reads: str | None
    """The noise of the owner count that it reads, as in OPTIONS; such a count may be a released one. None: reads none."""
    joins_gaussian: bool
    """Whether what it reads can be one more part of a joint Gaussian release; it is then a `JointRule`."""

    def made(self, selection: Selection) -> bool:
        """Whether a selection is one of this rule."""

    def apart(self, max_groups: int, min_owners: int, epsilon: Fraction, delta: Fraction) -> SelectionApart:
        """The rule with (ε, δ) of its own, for owners in at most this many groups."""

    def draw(
        self,
        selection: Any,
        owners: npt.NDArray[np.int64],
        entropy: Entropy,
        weights: npt.NDArray[np.int64] | None = None,
    ) -> SelectionDraw:
        """Decides for each group, given its owners after bounding (and their weights' sum); each decision has its own draw."""

    def keep_probability(self, selection: Any, counted: int, weight: float | None = None) -> float:
        """The chance that a group with n = `counted` ≥ 1 is kept; by its weights' sum, where the rule goes by weights."""

    def half_point(self, selection: Any) -> int:
        """The smallest n at which a group is at least as likely kept as not."""

    def typical_owners(self, selection: Any) -> float:
        """About the same, the minimum included, where the owners of a group are in 1 to κ groups, each as likely."""

    def threshold(self, selection: Any) -> int | None:
        """The noisy count from which on a group appears, where the rule has one."""

    def loss(self, selection: Any) -> SelectionLoss:
        """What the event costs; an `InternalError` where its claim does not hold."""

    def responses(self, selection: Any) -> tuple[Fraction, int] | None:
        """(ε₁, κ) where the event is κ randomised responses of ε₁ each, beside its δ; None where it costs δ alone."""


class JointRule(Rule, Protocol):
    """A rule that reads Gaussian noise, its own or a part of a joint release."""

    def shift(self, max_groups: int) -> Shift:
        """How far one owner moves what it reads."""

    def joined(
        self, noise: GaussianNoise, max_groups: int, min_owners: int, delta: Fraction, *, released: bool = False
    ) -> ThresholdSelection | WeightedSelection:
        """The rule on noise that is charged elsewhere; `released`: on a count that is also an answer."""
