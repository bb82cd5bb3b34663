"""How often a claim fits a budget, and how much noise makes it fit.

>>> from shoal.guarantees.promises import Pure
>>> how_many(Pure(0.1), 1, 1e-6, rule="optimal"), how_many(Pure(0.01), 1, 1e-6, rule="optimal")
(10, 562)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from shoal.accounting.claims import loss_distributions
from shoal.errors import ShoalError
from shoal.exact import float_above
from shoal.guarantees.claims import LARGEST_COUNT, LARGEST_PARAMETER, Claim, Claims, count_of, exact
from shoal.guarantees.composing import RULES, Question, claims_of, is_exact, named_rule
from shoal.guarantees.noises import GaussianNoise, GeometricNoise, LaplaceNoise
from shoal.guarantees.promises import Approximate

if TYPE_CHECKING:
    from collections.abc import Callable
    from fractions import Fraction

Kind = Literal["laplace", "gaussian", "geometric"]

WITHOUT_EXTRA = tuple(name for name in RULES if name != "numerical")
_STEPS_ABOVE = 3
"""Numbers from a grid may fall a little as counts grow: this many counts above the last one that fits are tried too."""


def how_many(claim: Claim, epsilon: float | Fraction, delta: float | Fraction, rule: str = "best") -> int:
    """How often the claim can be made within (ε, δ), by a rule or by the best one; at most 10⁷.

    >>> how_many(LaplaceNoise(10), 1, 1e-6, rule="basic")
    10
    """
    budget = Approximate(epsilon, delta)
    claims_of(claim)
    if rule != "best":
        return _most(claim, budget, rule, 0)
    most = max(_most(claim, budget, name, 0) for name in WITHOUT_EXTRA)
    if is_exact(Claims.of(claim).counted()) or not loss_distributions.is_installed():
        return most
    return max(most, _most(claim, budget, "numerical", most))


def _most(claim: Claim, budget: Approximate, rule: str, known: int) -> int:
    """The largest count that fits, from one that is known to fit by some rule."""

    def fits(times: int) -> bool:
        return _fits(claim, times, budget, rule)

    low, step = known, max(1, known // 16)
    while low + step <= LARGEST_COUNT and fits(low + step):
        low, step = low + step, step * 2
    high = min(low + step, LARGEST_COUNT + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    above_it = range(low + _STEPS_ABOVE, low, -1) if rule == "numerical" and low else ()
    return next((times for times in above_it if times <= LARGEST_COUNT and fits(times)), low)


def _fits(claim: Claim, times: int, budget: Approximate, rule: str) -> bool:
    """Whether this many claims have at most the budget's δ at its ε: one step along the profile, no search."""
    answer = named_rule(rule)((claim * times).counted(), Question(None, exact(budget.epsilon)))
    return isinstance(answer, float) and exact(answer) <= exact(budget.delta)


def noise_for(
    epsilon: float | Fraction,
    delta: float | Fraction,
    times: int,
    *,
    kind: Kind = "laplace",
    sensitivity: float | Fraction = 1,
) -> float:
    """The smallest scale of noise, rounded up, at which this many answers fit (ε, δ).

    Gaussian noise by its exact profile, the others by the best rule that needs no extra, so that the same question has the
    same answer everywhere. The scale that is returned was tried itself.

    >>> round(noise_for(1, 1e-6, 10, kind="gaussian"), 3)
    13.36
    """
    budget, count = Approximate(epsilon, delta), count_of(times)
    if kind not in _KINDS:
        raise ShoalError("E_USAGE", "There is no such noise.", hint=f"Kinds: {', '.join(_KINDS)}.")
    if not exact(budget.epsilon) or (kind == "gaussian" and not exact(budget.delta)):
        raise ShoalError(
            "E_OPTION_INVALID",
            "No noise is enough for this.",
            hint="Ask for an epsilon above 0, and for Gaussian noise a delta above 0.",
        )
    rules = ("gdp",) if kind == "gaussian" else ("basic", "optimal", "renyi", "zcdp")
    make = _KINDS[kind]

    def fits(scale: float) -> bool:
        claim = make(scale, sensitivity)
        return any(_fits(claim, count, budget, rule) for rule in rules)

    return _smallest(fits, float_above(exact(make(1, sensitivity).sensitivity)))


_KINDS: dict[str, Callable[..., LaplaceNoise | GeometricNoise | GaussianNoise]] = {
    "laplace": LaplaceNoise,
    "gaussian": GaussianNoise,
    "geometric": GeometricNoise,
}


def _smallest(fits: Callable[[float], bool], start: float) -> float:
    """The smallest scale that fits, to a part in 10¹⁰, by doubling and halving intervals."""
    low = high = start
    while not fits(high):
        low, high = high, high * 4
        if high > LARGEST_PARAMETER:
            raise ShoalError(
                "E_OPTION_INVALID", "The noise would be too large.", hint="Ask fewer times, or allow more ε."
            )
    while low == high or (low > 1e-11 and fits(low)):
        low, high = low / 4, low
    while high - low > 1e-10 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high
