"""What no distinct-count sketch can avoid that ignores duplicates, merges without loss and protects its owners.

Adding an owner who is in the sketch never changes it. If the sketch is (ε, δ)-differentially private, the event "adding t
changes nothing" has a chance of at least (1 − δ)e^{−ε} for t outside too: a newcomer is ignored with that chance. Hence k
newcomers for each of N owners are all missed with chance above 0, and no unbiased estimate of n ≥ N owners has a standard error
below

    √( max_k (1 − c^k)/c^k · (n − k·N) ),    c = 1 − (1 − δ)e^{−ε},  k ≤ n/N.

A private sketch that merges escapes this because its merge loses accuracy and counts duplicates of a release twice.
"""

from __future__ import annotations

import math
import numbers

import numpy as np

from shoal.errors import ShoalError

_MOST_TRIED = 100_000


def smallest_error(epsilon: float, above: int, owners: int, *, delta: float = 0.0) -> float:
    """The relative standard error at `owners` below which no such sketch can go that is private from `above` owners on.

    With δ > 0 this is shown for deterministic sketches only.

    >>> round(smallest_error(1, 100, 1000), 4)
    0.0874
    """
    _check(epsilon, above, owners, delta)
    ignored = (1 - delta) * math.exp(-epsilon)
    log_c = math.log1p(-ignored) if ignored < 1 else -math.inf
    if math.isinf(log_c):
        return math.inf
    most = owners // above
    k = np.unique(
        np.concatenate(
            (
                np.arange(1, min(most, _MOST_TRIED) + 1),
                np.arange(max(1, most - _MOST_TRIED), most + 1),
            )
        )
    )
    left = owners - k * float(above)
    with np.errstate(divide="ignore"):
        logs = np.log(-np.expm1(k * log_c)) - k * log_c + np.log(left)
    half = float(logs.max()) / 2 - math.log(owners)
    return math.exp(half) if half < 700 else math.inf


def _check(epsilon: object, above: object, owners: object, delta: object) -> None:
    for name, value in (("epsilon", epsilon), ("delta", delta)):
        if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0 <= float(value) < math.inf:
            raise ShoalError("E_USAGE", f"{name} must be a finite number from 0.", hint=f"{name}=1")
    if isinstance(delta, numbers.Real) and float(delta) >= 1:
        raise ShoalError("E_USAGE", "delta must be below 1.", hint="delta=1e-6")
    for name, value in (("above", above), ("owners", owners)):
        if isinstance(value, bool) or not isinstance(value, numbers.Integral) or int(value) < 1:
            raise ShoalError("E_USAGE", f"{name} must be a whole number from 1.", hint=f"{name}=1000")
    if isinstance(above, numbers.Integral) and isinstance(owners, numbers.Integral) and int(owners) < int(above):
        raise ShoalError(
            "E_USAGE", "owners must be at least above: fewer owners are not protected.", hint=f"owners={above}"
        )
