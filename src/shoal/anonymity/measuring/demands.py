"""Demands as a caller writes them → demands as classes, each checked; what is missing is said with what to write instead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from shoal.anonymity.measuring.definitions import (
    Closeness,
    Demand,
    Distinct,
    Entropy,
    KAnonymity,
    KMap,
    Presence,
    Recursive,
)
from shoal.errors import ShoalError
from shoal.exact import as_fraction
from shoal.frozen import dataclass

if TYPE_CHECKING:
    from fractions import Fraction

    from shoal.anonymity.measuring.distances import Distance

NAMES = ("k", "l", "entropy_l", "recursive", "t", "k_map", "presence")
"""Every demand, by the name `enforce`, `check` and a policy know it by."""


@dataclass(frozen=True, slots=True)
class Ground:
    """What demands can build on: the sensitive columns with their distances, and whether a population is known."""

    distances: Mapping[str, Distance]
    population: bool = False
    sampling: bool = False


def usage(message: str, hint: str | None = None) -> ShoalError:
    """A wrong argument."""
    return ShoalError("E_USAGE", message, hint=hint)


def demands_from(asked: Mapping[str, Any], ground: Ground) -> tuple[Demand, ...]:
    """The demands of a call; at least one."""
    unknown = set(asked) - set(NAMES)
    if unknown:
        raise usage(f"There is no demand {min(unknown)!r}.", hint=f"Demands are: {', '.join(NAMES)}.")
    made = {name: value for name, value in asked.items() if value is not None}
    if not made:
        raise usage("No demand was made.", hint="Ask for one, such as k=5 (--k 5).")
    readers = {"k": _k, "k_map": _k_map, "presence": _presence}
    found: list[Demand] = []
    for name in NAMES:
        if name in made:
            found += [readers[name](made[name], ground)] if name in readers else _on_values(name, made[name], ground)
    return tuple(found)


def _whole(name: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise usage(f"{name} must be a whole number of at least {least}.", hint=f"Write {name}={max(least, 5)}.")
    return value


def exact_number(
    name: str, value: Any, low: Fraction | int | None = None, high: Fraction | int | None = None
) -> Fraction:
    """A number within limits, as the fraction its decimals mean."""
    try:
        number = as_fraction(value)
    except (ValueError, TypeError):
        raise usage(f"{name} must be a number.") from None
    if (low is not None and number < low) or (high is not None and number > high):
        limits = f"at least {low}" if high is None else f"between {low} and {high}"
        raise usage(f"{name} must be {limits}.")
    return number


def _k(value: Any, _ground: Ground) -> Demand:
    return KAnonymity(_whole("k", value, 2))


def _k_map(value: Any, ground: Ground) -> Demand:
    if not (ground.population or ground.sampling):
        raise usage("k_map needs a population.", hint="Give population= (--population) or sampling= (--sampling).")
    return KMap(_whole("k_map", value, 2))


def _presence(value: Any, ground: Ground) -> Demand:
    if not ground.population:
        raise usage("presence needs a population.", hint="Give population= (--population) with the same columns.")
    pair = list(value) if isinstance(value, Sequence) and not isinstance(value, str) else [0, value]
    if len(pair) != 2:
        raise usage("presence is δ, or a lower and an upper limit.", hint="Write presence=0.5 or presence=(0.1, 0.5).")
    low, high = (exact_number("presence", part, 0, 1) for part in pair)
    if low > high:
        raise usage("The lower limit of presence is above the upper one.", hint="Write presence=(0.1, 0.5).")
    return Presence(low, high)


def _on_values(name: str, value: Any, ground: Ground) -> list[Demand]:
    """A demand on each sensitive column, or on those that a mapping names."""
    if not ground.distances:
        raise usage(f"{name} is about a sensitive column, and none was given.", hint="Give sensitive= (--sensitive).")
    by_column = value if isinstance(value, Mapping) else dict.fromkeys(ground.distances, value)
    unknown = set(by_column) - set(ground.distances)
    if unknown:
        raise usage(f"{name} names {min(unknown)!r}, which is not a sensitive column.", hint="Add it to sensitive=.")
    readers = {"l": _distinct, "entropy_l": _entropy, "recursive": _recursive, "t": _closeness}
    return [readers[name](part, column, ground) for column, part in by_column.items()]


def _distinct(value: Any, column: str, _ground: Ground) -> Demand:
    return Distinct(_whole("l", value, 1), column)


def _entropy(value: Any, column: str, _ground: Ground) -> Demand:
    return Entropy(exact_number("entropy_l", value, 1), column)


def _recursive(value: Any, column: str, _ground: Ground) -> Demand:
    if isinstance(value, str) or not isinstance(value, Sequence) or len(value) != 2:
        raise usage("recursive is a pair (c, l).", hint="Write recursive=(4, 3).")
    c = exact_number("c of recursive", value[0])
    if c <= 0:
        raise usage("c of recursive must be above 0.", hint="Write recursive=(4, 3).")
    return Recursive(c, _whole("l of recursive", value[1], 1), column)


def _closeness(value: Any, column: str, ground: Ground) -> Demand:
    return Closeness(exact_number("t", value, 0, 1), column, ground.distances[column])
