"""The shuffling calculator: what n local reports keep when a trusted shuffler forgets who sent them.

    >>> round(shuffled(1.0, 10_000, 1e-6), 4)
    0.053
    >>> round(shuffled(1.0, 10_000, 1e-6, oracle="yes_no"), 4)
    0.0432

The bound and its proof are in `accounting.shuffling`. n counts honest reports: a sender whose report is known, or made up,
hides nobody.
"""

from __future__ import annotations

import math
from fractions import Fraction

from shoal import params
from shoal.accounting.claims.shuffling import shuffled_delta, shuffled_epsilon
from shoal.errors import ShoalError
from shoal.local.charges import MOST_REPORTS
from shoal.local.weights import LARGEST_EPSILON, checked_epsilon

YES_NO = "yes_no"


def shuffled(epsilon: float, n: int, delta: float, oracle: str | None = None, honest: float = 1.0) -> float:
    """The central ε of n reports that keep `epsilon` each, at this δ, rounded up; never above `epsilon`.

    `oracle="yes_no"` uses the tighter bound of binary randomized response. `honest` is the share of reports that count.
    """
    exact, tolerated = float(checked_epsilon(epsilon)), float(params.delta(delta))
    return shuffled_epsilon(exact, _honest(n, honest), tolerated, binary=_is_binary(oracle))


def local_for(epsilon: float, n: int, delta: float, oracle: str | None = None, honest: float = 1.0) -> float:
    """The largest ε₀ of a report that n reports shuffle to (ε, δ), rounded down."""
    target, tolerated = float(checked_epsilon(epsilon)), float(params.delta(delta))
    count, binary = _honest(n, honest), _is_binary(oracle)
    low, high, least = target, float(LARGEST_EPSILON), target * (1 - 2e-7)
    while high - low > 1e-5 * low:
        middle = (low + high) / 2
        if tolerated > 0 and count > 1 and shuffled_delta(least, middle, count, binary=binary) <= tolerated:
            low = middle
        else:
            high = middle
    return low


def closed_form_of_2021(epsilon: float, n: int, delta: float) -> float:
    """The closed bound of Feldman, McMillan and Talwar (2021), for comparison only: up to five times larger."""
    grown = math.exp(epsilon)
    inner = 8 * math.sqrt(grown * math.log(4 / delta) / n) + 8 * grown / n
    return math.log1p((grown - 1) / (grown + 1) * inner)


def _is_binary(oracle: str | None) -> bool:
    if oracle not in {None, YES_NO}:
        raise ShoalError(
            "E_USAGE",
            "There is a bound for any oracle and one for yes_no.",
            hint='Leave oracle out, or write "yes_no".',
        )
    return oracle == YES_NO


def _honest(n: int, share: float) -> int:
    count = params.whole_number(n, option="n", largest=MOST_REPORTS)
    if isinstance(share, bool) or not isinstance(share, int | float | Fraction) or not 0 < share <= 1:
        raise ShoalError("E_USAGE", "honest is a share above 0 and at most 1.", hint="Write honest=0.8.")
    return math.floor(count * share)
