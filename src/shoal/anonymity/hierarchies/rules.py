"""Rules that make labels from values: intervals, dates, masks, tables.

A rule knows its inner levels, those between the value itself (level 0) and `*` (the top). Labels are nested: two values
that share one share every later one.

    >>> Intervals((Fraction(5), Fraction(10))).label(34, 1, "integer")
    '[30, 34]'
"""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol

from shoal.anonymity.hierarchies.values import text_of
from shoal.errors import ShoalError
from shoal.exact import as_fraction
from shoal.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shoal.anonymity.hierarchies.values import Kind

TOP = "*"
PERIODS = ("day", "month", "quarter", "year", "decade", "century")


def wrong(message: str, hint: str | None = None) -> ShoalError:
    """A hierarchy that cannot be used."""
    return ShoalError("E_HIERARCHY", message, hint=hint)


class Rule(Protocol):
    """Labels of values, level by level."""

    @property
    def fixed(self) -> tuple[str | None, ...] | None:
        """The leaves, where the rule names them; None where they are the values of the data."""

    def inner(self, texts: Sequence[str | None]) -> int:
        """How many levels lie between the values and the top."""

    def label(self, value: Any, level: int, kind: Kind) -> str:
        """The label of a value (not NULL) at an inner level; ValueError where it has none."""

    def to_dict(self) -> dict[str, object]:
        """The rule as `hierarchies.toml` writes it."""


@dataclass(frozen=True, slots=True)
class Intervals:
    """Stretches of equal width on a grid; each width divides the next."""

    widths: tuple[Fraction, ...]
    origin: Fraction = Fraction(0)
    low: Fraction | None = None
    high: Fraction | None = None
    fixed: None = None

    def __post_init__(self) -> None:
        if not self.widths or any(width <= 0 for width in self.widths):
            raise wrong("Intervals need widths above 0.", hint="Write intervals = [5, 10, 20].")
        for small, large in zip(self.widths, self.widths[1:], strict=False):
            if large <= small or (large / small).denominator != 1:
                raise wrong("Each width of intervals must divide the next.", hint="Write intervals = [5, 10, 20].")
        if self.low is not None and self.high is not None and self.low >= self.high:
            raise wrong("Intervals must have low below high.")

    def between(self) -> tuple[str, ...]:
        """The whole numbers between both limits, where there are two."""
        if self.low is None or self.high is None:
            return ()
        return tuple(str(number) for number in range(math.ceil(self.low), math.ceil(self.high)))

    def inner(self, texts: Sequence[str | None]) -> int:  # noqa: ARG002 - the same for all values
        """A level for each width."""
        return len(self.widths)

    def label(self, value: Any, level: int, kind: Kind) -> str:
        """`[30, 39]` of whole numbers, `[30, 40)` of others, `< 20` and `>= 90` beyond the limits."""
        number = _as_number(value, kind)
        if number is None:
            return str(text_of(value))
        if self.low is not None and number < self.low:
            return f"< {_written(self.low, kind)}"
        if self.high is not None and number >= self.high:
            return f">= {_written(self.high, kind)}"
        width = self.widths[level - 1]
        start = self.origin + math.floor((number - self.origin) / width) * width
        whole = kind == "integer" and start.denominator == 1 and width.denominator == 1
        if whole:
            return f"[{_written(start, kind)}, {_written(start + width - 1, kind)}]"
        return f"[{_written(start, kind)}, {_written(start + width, kind)})"

    def to_dict(self) -> dict[str, object]:
        """As `hierarchies.toml` writes it."""
        limits = {"origin": self.origin or None, "low": self.low, "high": self.high}
        return {
            "intervals": [_plain(width) for width in self.widths],
            **{name: _plain(limit) for name, limit in limits.items() if limit is not None},
        }


def _plain(number: Fraction) -> int | float:
    return number.numerator if number.denominator == 1 else float(number)


_DAY_ZERO = dt.date(1970, 1, 1)


def _as_number(value: Any, kind: Kind) -> Fraction | None:
    """A value on the line of numbers (dates by their day); None for what is on no line, as NaN."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if kind == "date":
        return Fraction((as_day(value) - _DAY_ZERO).days)
    return as_fraction(value)


def _written(number: Fraction, kind: Kind) -> str:
    if kind == "date":
        return (_DAY_ZERO + dt.timedelta(days=int(number))).isoformat()
    return str(number.numerator) if number.denominator == 1 else repr(float(number))


def as_day(value: Any) -> dt.date:
    """The day of a date, a timestamp or an ISO text; ValueError for anything else."""
    if isinstance(value, dt.datetime):
        return value.date()
    if isinstance(value, dt.date):
        return value
    return dt.date.fromisoformat(str(value)[:10])


@dataclass(frozen=True, slots=True)
class Dates:
    """Days, months, quarters, years, decades, centuries."""

    periods: tuple[str, ...]
    fixed: None = None

    def __post_init__(self) -> None:
        positions = [PERIODS.index(period) if period in PERIODS else -1 for period in self.periods]
        if not positions or -1 in positions or positions != sorted(set(positions)):
            raise wrong(
                f"The periods of dates are some of {', '.join(PERIODS)}, in this order.",
                hint='Write dates = ["month", "year"].',
            )

    def inner(self, texts: Sequence[str | None]) -> int:  # noqa: ARG002 - one signature for all rules
        """A level for each period."""
        return len(self.periods)

    def label(self, value: Any, level: int, kind: Kind) -> str:  # noqa: ARG002 - one signature for all rules
        """`1984-02-29`, `1984-02`, `1984-Q1`, `1984`, `1980s`, `1900s`."""
        day = as_day(value)
        match self.periods[level - 1]:
            case "day":
                return day.isoformat()
            case "month":
                return f"{day.year:04}-{day.month:02}"
            case "quarter":
                return f"{day.year:04}-Q{(day.month + 2) // 3}"
            case "year":
                return f"{day.year:04}"
            case "decade":
                return f"{day.year // 10:03}0s"
            case _:
                return f"{day.year // 100:02}00s"

    def to_dict(self) -> dict[str, object]:
        """As `hierarchies.toml` writes it."""
        return {"dates": list(self.periods)}


@dataclass(frozen=True, slots=True)
class Mask:
    """Characters replaced by `*`, one more on each level, from the right or from the left."""

    side: str = "right"
    length: int | None = None
    fixed: None = None

    def __post_init__(self) -> None:
        if self.side not in {"right", "left"}:
            raise wrong("A mask starts at the right or at the left.", hint='Write mask = "right".')
        if self.length is not None and self.length < 1:
            raise wrong("The length of a mask is at least 1.")

    def inner(self, texts: Sequence[str | None]) -> int:
        """One less than the longest value has characters: with all of them replaced nothing is left to tell."""
        longest = self.length or max((len(text) for text in texts if text is not None), default=1)
        return max(longest - 1, 0)

    def label(self, value: Any, level: int, kind: Kind) -> str:  # noqa: ARG002 - one signature for all rules
        """The value with `level` characters replaced."""
        text = str(text_of(value))
        gone = min(level, len(text))
        kept = len(text) - gone
        return text[:kept] + TOP * gone if self.side == "right" else TOP * gone + text[gone:]

    def to_dict(self) -> dict[str, object]:
        """As `hierarchies.toml` writes it."""
        return {"mask": self.side} | ({} if self.length is None else {"length": self.length})


@dataclass(frozen=True, slots=True)
class Table:
    """Labels listed for each value, from a file, from groups or from an order, and the label of everything."""

    lines: tuple[tuple[str, ...], ...]
    top: str = TOP
    labels: dict[str, tuple[str, ...]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "labels", {line[0]: line[1:] for line in self.lines})

    @property
    def fixed(self) -> tuple[str | None, ...] | None:
        """The values listed."""
        return tuple(self.labels)

    def inner(self, texts: Sequence[str | None]) -> int:  # noqa: ARG002 - one signature for all rules
        """As many as a line has labels."""
        return len(self.lines[0]) - 1 if self.lines else 0

    def label(self, value: Any, level: int, kind: Kind) -> str:  # noqa: ARG002 - one signature for all rules
        """The label listed."""
        found = self.labels.get(str(text_of(value)))
        if found is None:
            raise ValueError("not listed")
        return found[level - 1]

    def to_dict(self) -> dict[str, object]:
        """The lines themselves."""
        return {"lines": [[*line, self.top] for line in self.lines]}


@dataclass(frozen=True, slots=True)
class Flat:
    """The value, or nothing."""

    fixed: None = None

    def inner(self, texts: Sequence[str | None]) -> int:  # noqa: ARG002 - one signature for all rules
        """None."""
        return 0

    def label(self, value: Any, level: int, kind: Kind) -> str:  # noqa: ARG002 - one signature for all rules
        """There is no level to ask for."""
        raise ValueError("no inner level")

    def to_dict(self) -> dict[str, object]:
        """As `hierarchies.toml` writes it."""
        return {"flat": True}


@dataclass(frozen=True, slots=True)
class SortedGroups:
    """The values of the data in order, this many together at each level."""

    sizes: tuple[int, ...]
    fixed: None = None

    def inner(self, texts: Sequence[str | None]) -> int:  # noqa: ARG002 - one signature for all rules
        """A level for each size."""
        return len(self.sizes)

    def label(self, value: Any, level: int, kind: Kind) -> str:  # noqa: ARG002 - one signature for all rules
        """Labels come with the values, see `Hierarchy.bound`."""
        raise ValueError("an order needs values")

    def to_dict(self) -> dict[str, object]:
        """As `hierarchies.toml` writes it."""
        return {"order": list(self.sizes)}
