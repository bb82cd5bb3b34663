"""What releases cost, one by one and together: the loss of a plan from its events, and two ways to add losses up.

A plan's loss is recomputed from its events alone, so that a claim nobody can prove is an internal error, not a release.
Over a session the analyst chooses each query after seeing earlier answers. Both accountants here are valid then: each
compares sums with limits that were fixed before the first query (docs/theory/accounting.md has the proofs).

    >>> from shoal.accounting.events import LaplaceNoise, Shift
    >>> plan_loss([LaplaceNoise(Shift(1), scale=Fraction(10))]).epsilon
    Fraction(1, 10)
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from math import isqrt
from typing import TYPE_CHECKING, Literal, Protocol

from shoal.accounting.events import (
    AdditiveNoise,
    Event,
    JointGaussian,
    LaplaceNoise,
    PolicyLaplace,
    QuantileChoice,
    SelectedGaussian,
    Selection,
    ThresholdSelection,
    WeightedSelection,
    WholeSelection,
)
from shoal.accounting.neighbours import OWNER
from shoal.accounting.zcdp import laplace_rho, zcdp_epsilon, zcdp_rho_limit
from shoal.errors import InternalError, ShoalError
from shoal.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from shoal.params import Budget

AccountantName = Literal["basic", "zcdp"]
SMALLEST_POSITIVE_AMOUNT = Fraction(1, 10**307)
"""Below it a float would lose the amount, and with it the charge; queries may ask for 10⁻³⁰⁰, and split it."""


@dataclass(frozen=True, slots=True)
class Loss:
    """What one plan costs, in both currencies.

    The plan is (epsilon, delta)-private, and also `rho_delta`-approximately `rho`-zCDP. Where `rho` is None nothing
    better is known than what every (ε, δ)-private mechanism satisfies: δ-approximate ε²/2-zCDP.
    """

    epsilon: Fraction
    delta: Fraction
    rho: Fraction | None = None
    rho_delta: Fraction | None = None

    def __post_init__(self) -> None:
        if (self.rho is None) != (self.rho_delta is None):
            raise InternalError("a loss in zCDP has both a rho and a delta")
        in_zcdp = () if self.rho is None else (self.rho, self.rho_delta)
        for amount in (self.epsilon, self.delta, *in_zcdp):
            if not isinstance(amount, Fraction) or amount < 0:
                raise InternalError("a privacy loss is an exact fraction that is not negative")
        if any(0 < amount < SMALLEST_POSITIVE_AMOUNT for amount in (self.epsilon, self.delta)):
            raise InternalError("a privacy loss is zero or at least 1e-307")

    @property
    def zcdp(self) -> tuple[Fraction, Fraction]:
        """(ρ, δ) such that the plan is δ-approximately ρ-zCDP."""
        if self.rho is None or self.rho_delta is None:
            return self.epsilon**2 / 2, self.delta
        return self.rho, self.rho_delta


@dataclass(frozen=True, slots=True)
class Spent:
    """Sums over all charges so far; each accountant looks at its own pair."""

    epsilon: Fraction = Fraction(0)
    delta: Fraction = Fraction(0)
    rho: Fraction = Fraction(0)
    rho_delta: Fraction = Fraction(0)

    def plus(self, loss: Loss) -> Spent:
        """The sums after one more charge."""
        rho, rho_delta = loss.zcdp
        return Spent(self.epsilon + loss.epsilon, self.delta + loss.delta, self.rho + rho, self.rho_delta + rho_delta)


# --- one plan ---------------------------------------------------------------------------------------------------------


def plan_loss(events: Sequence[Event]) -> Loss:
    """The loss of a finished plan, from its events alone.

    Precondition: each draw of noise that the plan makes is in `events` once (a threshold that reads a released
    count names that count's noise and does not repeat it). Postcondition: the plan is (Σε, Σδ)-private by basic
    composition, and Σδ′-approximately Σρ-zCDP. Per event:

    | event | ε | δ | ρ | δ′ |
    |---|---|---|---|---|
    | Laplace noise, c coordinates moved by ≤ s steps, scale b | c·s/b | 0 | c·`laplace_rho`(s, b) ≤ c·(s/b)²/2 | 0 |
    | Laplace noise of a policy, moved by ≤ s steps in all, scale b | s/b | 0 | `laplace_rho`(s, b) | 0 |
    | joint Gaussian noise (its claim is verified) | ε | δ | Σρ | 0 |
    | the same by groups, with the threshold on one of its parts | ε | δ | Σρ | δ of the threshold |
    | m quantiles chosen in each of κ groups (nested: m is the number of levels), c rows, scale b | 2·m·κ·c/b | 0 | m·κ·c²/2b² | 0 |
    | the rows around them counted, scale a | κ·c/a | 0 | κ·`laplace_rho`(c, a) | 0 |
    | optimal selection, κ groups | ε | δ | ε·tanh(ε/2κ) ≤ ε²/2κ | δ |
    | threshold on a count, on weights, or on two parts of a whole (its noise must be charged beside it) | 0 | δ | 0 | δ |

    Any claim that does not hold is an `InternalError`: nothing may be released under it. The sum is a loss under the one
    promise that all events are about; events of two promises have no sum.
    """
    _require_charged_thresholds(events)
    _require_one_promise(events)
    losses = [_event_loss(event) for event in events]
    return Loss(
        epsilon=sum((loss.epsilon for loss in losses), Fraction(0)),
        delta=sum((loss.delta for loss in losses), Fraction(0)),
        rho=sum((loss.zcdp[0] for loss in losses), Fraction(0)),
        rho_delta=sum((loss.zcdp[1] for loss in losses), Fraction(0)),
    )


def _event_loss(event: Event) -> Loss:
    match event:
        case LaplaceNoise() | PolicyLaplace():
            return Loss(event.epsilon, Fraction(0), _laplace_rho(event), Fraction(0))
        case JointGaussian():
            return _joint_gaussian_loss(event)
        case SelectedGaussian():
            return _selected_gaussian_loss(event)
        case QuantileChoice():
            of_counts = Fraction(0) if event.counts is None else _laplace_rho(event.counts)
            return Loss(event.epsilon, Fraction(0), event.rho_of_draws + of_counts, Fraction(0))
        case _ if isinstance(event, Selection):
            return _selection_loss(event)
    raise InternalError("a plan holds an event that cannot be charged")


def _laplace_rho(event: LaplaceNoise | PolicyLaplace) -> Fraction:
    """Coordinates add up; a convex ρ is largest where moves are, so that spreading them over more entries costs no more."""
    shift = event.shift
    return shift.coordinates * laplace_rho(shift.per_coordinate, event.scale) if shift.l1 else Fraction(0)


def _joint_gaussian_loss(event: JointGaussian) -> Loss:
    from shoal.mechanisms.calibrate import joint_gaussian_holds

    if not joint_gaussian_holds(event.parts, event.epsilon, event.delta):
        raise InternalError("joint Gaussian noise is too small for the loss it claims")
    return Loss(event.epsilon, event.delta, sum((part.rho for part in event.parts), Fraction(0)), Fraction(0))


def _selected_gaussian_loss(event: SelectedGaussian) -> Loss:
    """The larger of two chances, not their sum: no group of an owner takes both."""
    from shoal.mechanisms.gaussian_certificate import grouped_gaussian_holds

    if not grouped_gaussian_holds(event.parts, event.epsilon, event.delta, event.selection.max_groups_per_owner):
        raise InternalError("joint Gaussian noise is too small for the loss it claims")
    rho = sum((part.rho for part in event.parts), Fraction(0))
    return Loss(event.epsilon, event.delta, rho, _selection_loss(event.selection).delta)


def _selection_loss(event: Selection) -> Loss:
    """What the event's own rule says it costs, its claim checked."""
    from shoal.mechanisms.group_selection import rule_of

    return Loss(*rule_of(event).loss(event))


def _require_one_promise(events: Iterable[Event]) -> None:
    if len({event.shift.neighbours if isinstance(event, PolicyLaplace) else OWNER for event in events}) > 1:
        raise InternalError("losses under different promises do not add up")


def _require_charged_thresholds(events: Iterable[Event]) -> None:
    """Each threshold finds a charged draw of its noise, and no two thresholds share one."""
    charged: Counter[AdditiveNoise] = Counter()
    wanted: Counter[AdditiveNoise] = Counter()
    for event in events:
        match event:
            case LaplaceNoise():
                charged[event] += 1
            case JointGaussian():
                charged.update(event.parts)
            case SelectedGaussian():
                charged.update(event.parts)
                wanted[event.selection.noise] += 1
            case ThresholdSelection() | WeightedSelection() | WholeSelection():
                wanted[event.noise] += 1
    if wanted - charged:
        raise InternalError("a threshold reads noise that was not charged")


# --- a session --------------------------------------------------------------------------------------------------------


class Accountant(Protocol):
    """A rule that adds charges up. Valid for adaptive sessions: the limits are a function of the budget alone."""

    name: AccountantName

    def check(self, budget: Budget) -> None:
        """Refuse a budget that this rule cannot keep."""

    def fits(self, spent: Spent, request: Loss, budget: Budget) -> bool:
        """Whether the request may be charged on top of what is spent."""

    def total(self, spent: Spent, budget: Budget | None) -> tuple[Fraction, Fraction]:
        """The (ε, δ) that all charges together guarantee."""

    def largest_epsilon_that_fits(self, spent: Spent, request: Loss, budget: Budget) -> Fraction:
        """An ε (0 where none) at which the same request would fit."""

    def delta_left(self, spent: Spent, budget: Budget) -> Fraction:
        """The δ that further requests may take together."""


class BasicAccountant:
    """Σε ≤ ε and Σδ ≤ δ, in exact rationals.

    >>> from shoal.params import Budget
    >>> tenth, budget = Loss(Fraction(1, 10), Fraction(0)), Budget(Fraction(1), Fraction(0))
    >>> [BasicAccountant().fits(Spent(Fraction(tenths, 10)), tenth, budget) for tenths in (9, 10)]
    [True, False]
    """

    name: AccountantName = "basic"

    def check(self, budget: Budget) -> None:
        """Every budget can be kept."""

    def fits(self, spent: Spent, request: Loss, budget: Budget) -> bool:
        """Both sums stay within the budget."""
        return spent.epsilon + request.epsilon <= budget.epsilon and spent.delta + request.delta <= budget.delta

    def total(self, spent: Spent, budget: Budget | None) -> tuple[Fraction, Fraction]:  # noqa: ARG002 - one protocol
        """(Σε, Σδ)."""
        return spent.epsilon, spent.delta

    def largest_epsilon_that_fits(self, spent: Spent, request: Loss, budget: Budget) -> Fraction:
        """What is left of ε, provided that δ fits."""
        if request.delta > self.delta_left(spent, budget):
            return Fraction(0)
        return max(Fraction(0), budget.epsilon - spent.epsilon)

    def delta_left(self, spent: Spent, budget: Budget) -> Fraction:
        """δ − Σδ."""
        return max(Fraction(0), budget.delta - spent.delta)


class ZcdpAccountant:
    """Σρ ≤ ρ* and Σδ′ ≤ δ/2, where ρ* is the largest ρ that implies (ε, δ/2).

    Half of δ pays for the conversion and half for selections. The limits are fixed beforehand on purpose: a rule that
    converts at "whatever δ is left" lets an adaptive analyst decide, after seeing noise, which of the two to use up,
    and its proof fails (docs/theory/accounting.md).
    """

    name: AccountantName = "zcdp"

    def check(self, budget: Budget) -> None:
        """There is no conversion at δ = 0."""
        if budget.delta == 0:
            raise ShoalError(
                "E_OPTION_INVALID",
                "The zcdp accountant needs a budget with a positive delta.",
                hint="Give a small delta, such as 1e-6, or use the basic accountant.",
            )

    def fits(self, spent: Spent, request: Loss, budget: Budget) -> bool:
        """Both sums stay within their limits."""
        rho, delta = request.zcdp
        limit = zcdp_rho_limit(budget.epsilon, budget.delta / 2)
        return spent.rho + rho <= limit and spent.rho_delta + delta <= budget.delta / 2

    def total(self, spent: Spent, budget: Budget | None) -> tuple[Fraction, Fraction]:
        """ε of Σρ at δ/2, and δ/2 + Σδ′; without a budget there is no δ to convert at, and the basic sums are returned."""
        if budget is None:
            return spent.epsilon, spent.delta
        if spent.rho == 0:
            return Fraction(0), spent.rho_delta
        converted = zcdp_epsilon(spent.rho, budget.delta / 2)
        return min(converted, budget.epsilon), spent.rho_delta + budget.delta / 2

    def largest_epsilon_that_fits(self, spent: Spent, request: Loss, budget: Budget) -> Fraction:
        """The larger of two safe answers.

        √(2·ρ left) fits whatever the mechanism. And ρ/ε grows with ε for every mechanism here (for Laplace noise it is
        1 − (1 − e^{−ε})/(s·sinh(ε/s)); Gaussian ρ is quadratic, later linear), so t < 1 times the ε costs at most t times the ρ.
        """
        rho, delta = request.zcdp
        left = zcdp_rho_limit(budget.epsilon, budget.delta / 2) - spent.rho
        if left <= 0 or delta > self.delta_left(spent, budget):
            return Fraction(0)
        any_mechanism = Fraction(isqrt(int(2 * left * 10**48)), 10**24)
        same_mechanism = request.epsilon * min(Fraction(1), left / rho) if rho else request.epsilon
        return max(any_mechanism, same_mechanism)

    def delta_left(self, spent: Spent, budget: Budget) -> Fraction:
        """δ/2 − Σδ′."""
        return max(Fraction(0), budget.delta / 2 - spent.rho_delta)


_ACCOUNTANTS: dict[str, type[BasicAccountant | ZcdpAccountant]] = {
    "basic": BasicAccountant,
    "zcdp": ZcdpAccountant,
}


def accountant(name: str) -> Accountant:
    """The accountant of this name.

    >>> accountant("basic").name
    'basic'
    """
    if name not in _ACCOUNTANTS:
        raise ShoalError(
            "E_OPTION_INVALID",
            "accountant must be 'basic' or 'zcdp'.",
            hint="'basic' adds epsilon and delta; 'zcdp' allows more queries with small epsilon.",
        )
    return _ACCOUNTANTS[name]()
