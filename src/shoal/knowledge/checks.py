"""What may be asked: every argument is checked before anything is computed."""

from __future__ import annotations

import math
import numbers
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.errors import ShoalError

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST_PEOPLE = 10_000_000
MOST_RELATED = 50
MOST_GROUPS = 2000
MOST_TIMES = 1000
ATTACKERS = ("passive", "active")
ANSWERS = ("new people", "independent", "dependent")


def whole(value: object, name: str, smallest: int, largest: int) -> int:
    """A whole number in a range."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or not smallest <= int(value) <= largest:
        raise ShoalError(
            "E_USAGE", f"{name} must be a whole number from {smallest} to {largest}.", hint=f"{name}={smallest}"
        )
    return int(value)


def people_and_known(people: object, known: object) -> tuple[int, int]:
    """How many there are, and how many of them the attacker knows; the target is never one of these."""
    if isinstance(people, numbers.Integral) and int(people) > MOST_PEOPLE:
        raise ShoalError(
            "E_USAGE",
            "At most ten million people are supported.",
            hint="Use a sample of ten million: more people only lower δ.",
        )
    everybody = whole(people, "people", 1, MOST_PEOPLE)
    if isinstance(known, numbers.Integral) and int(known) >= everybody:
        raise ShoalError(
            "E_USAGE", "known must be below people: somebody is the target.", hint=f"known={everybody - 1} at most"
        )
    return everybody, whole(known, "known", 0, everybody - 1)


def number_between(value: object, name: str, low: float, high: float, *, open_low: bool) -> float:
    """A finite number in [low, high], or in (low, high]."""
    if not isinstance(value, bool) and isinstance(value, numbers.Real) and math.isfinite(value):
        number = float(value)
        if (low < number if open_low else low <= number) and number <= high:
            return number
    edge = f"above {low:g}" if open_low else f"at least {low:g}"
    raise ShoalError("E_USAGE", f"{name} must be {edge} and at most {high:g}.", hint=f"{name}={high / 2:g}")


def uncertainty_of(value: object, name: str = "uncertainty") -> float:
    """λ, 0 < λ ≤ ½."""
    return number_between(value, name, 0.0, 0.5, open_low=True)


def noise_scale_of(value: object) -> float | None:
    """The scale b of two-sided geometric noise, if there is any."""
    return None if value is None else number_between(value, "noise_scale", 0.0, 1e6, open_low=True)


def probabilities_of(values: Iterable[Any], expected: int, of_whom: str) -> tuple[float, ...]:
    """One chance for each person."""
    try:
        chances = np.asarray(values if hasattr(values, "__len__") else list(values), dtype=np.float64)
    except (TypeError, ValueError):
        raise ShoalError("E_USAGE", "probabilities must be a list of numbers.", hint="[0.2, 0.5, 0.3]") from None
    if chances.ndim != 1 or len(chances) != expected:
        raise ShoalError("E_USAGE", f"probabilities must have {expected} entries: one for each {of_whom}.")
    if not ((chances >= 0) & (chances <= 1)).all():  # NaN fails too
        raise ShoalError("E_USAGE", "Every probability must be from 0 to 1.")
    return tuple(chances.tolist())


def groups_are_few(chances: tuple[float, ...], related: int) -> None:
    """Groups of related people that differ in their chances are all tried."""
    if related > 1 and math.comb(len(set(chances)) + related - 1, related) > MOST_GROUPS:
        raise ShoalError(
            "E_USAGE",
            f"There are too many different groups of {related} related people.",
            hint="Round the probabilities so that few different ones are left, or say uncertainty= instead.",
        )


def exactly_one(first: object, second: object, names: str) -> None:
    """Of two ways to say what is known about the chances, one."""
    if (first is None) == (second is None):
        raise ShoalError("E_USAGE", f"Give one of {names}, not both or neither.", hint="uncertainty=0.1")


def one_of(value: object, allowed: tuple[str, ...], name: str) -> str:
    """One of a few words."""
    if value not in allowed:
        raise ShoalError(
            "E_USAGE", f"{name} must be one of {', '.join(map(repr, allowed))}.", hint=f"{name}={allowed[0]!r}"
        )
    return str(value)


def answers_of(value: object) -> str:
    """How a person's answers at different times hang together."""
    if value not in ANSWERS:
        raise ShoalError(
            "E_USAGE",
            "Counts over overlapping people do not compose.",
            hint="Say answers='new people', 'independent' or 'dependent', or add noise and use a budget.",
        )
    return str(value)
