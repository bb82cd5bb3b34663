"""How many people, or how much noise, a promise needs."""

from __future__ import annotations

from shoal.errors import ShoalError
from shoal.knowledge import checks
from shoal.knowledge.counts import MOST_CORNERS
from shoal.knowledge.guarantee import checked_delta, checked_epsilon
from shoal.knowledge.releases import count, histogram

_PRECISION = 1e-3


def people_for(epsilon: float, delta: float, *, uncertainty: float) -> int:
    """The fewest unknown people, the target included, whose exact count keeps (ε, δ).

    >>> people_for(1, 1e-6, uncertainty=0.1)
    346
    """
    epsilon, delta = checked_epsilon(epsilon), checked_delta(delta)
    spread = checks.uncertainty_of(uncertainty)

    def enough(people: int) -> bool:
        """Above 2,000 others it is the blanket that falls; asking it alone saves the corners of 2,000 each time."""
        if people - 1 <= MOST_CORNERS:
            return count(people, uncertainty=spread).keeps(epsilon, delta)
        return histogram(people, uncertainty=spread).keeps(epsilon, delta)

    low, high = 0, 1
    while not enough(high):
        if high == checks.MOST_PEOPLE:
            raise ShoalError(
                "E_USAGE", "Not even ten million people are enough.", hint="Ask for a larger ε or δ, or add noise."
            )
        low, high = high, min(2 * high, checks.MOST_PEOPLE)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def noise_for(people: int, epsilon: float, delta: float, *, uncertainty: float, known: int = 0) -> float:
    """The smallest scale of geometric noise, to 0.001, with which a count keeps (ε, δ); never above 1/ε, 0 for none.

    >>> noise_for(500, 1, 1e-6, uncertainty=0.1)
    0.0
    """
    epsilon, delta = checked_epsilon(epsilon), checked_delta(delta)
    people, known = checks.people_and_known(people, known)
    spread = checks.uncertainty_of(uncertainty)
    if epsilon == 0:
        raise ShoalError("E_USAGE", "No noise gives an ε of 0.", hint="epsilon=1")
    if count(people, uncertainty=spread, known=known).keeps(epsilon, delta):
        return 0.0
    low, high = 0.0, 1 / epsilon
    while high - low > _PRECISION:
        middle = (low + high) / 2
        kept = count(people, uncertainty=spread, known=known, noise_scale=middle).keeps(epsilon, delta)
        low, high = (low, middle) if kept else (middle, high)
    return high
