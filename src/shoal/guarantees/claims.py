"""Claims about a mechanism as values: definitions with their parameters, and mechanisms that imply them.

A claim checks itself when it is made. It keeps numbers as they were written: 0.1 is one tenth, `Fraction(1, 3)` a third.

    >>> from shoal.guarantees.promises import Pure
    >>> Pure(0.1) == Pure(Fraction(1, 10))
    True
    >>> len(Pure(0.1) * 3 + Pure(1))
    4
    >>> Pure(-1)
    Traceback (most recent call last):
    shoal.errors.ShoalError: E_OPTION_INVALID: epsilon must be from 0 to 1e6; got -1.
"""

from __future__ import annotations

import math
import numbers
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import fields
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, NamedTuple, overload

from shoal.errors import ShoalError
from shoal.exact import as_fraction
from shoal.params import LARGEST_EPSILON, MOST_BITS, SMALLEST_POSITIVE_DELTA, whole_number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from shoal.accounting.claims.profiles import Loss

Number = int | float | Decimal | Fraction

LARGEST_COUNT = 10**7
LARGEST_PARAMETER = Fraction(10**12)
SMALLEST_PARAMETER = Fraction(1, 10**100)
SMALLEST_RATE = Fraction(1, 10**12)


class Concentrated(NamedTuple):
    """δ-approximate zCDP: with chance 1 − δ, the divergence of every order α is at most ξ + ρα."""

    rho: Fraction
    xi: Fraction
    chance: Fraction


class Curve(NamedTuple):
    """A Rényi curve, up to which order it is known, and the chance that everything is revealed besides."""

    at: Callable[[Decimal], Decimal]
    largest_order: Fraction | None = None
    whole_orders: bool = False
    chance: Fraction = Fraction(0)


class Claim:
    """What all claims can be asked; None says that a claim does not imply this."""

    name: ClassVar[str]
    """As the command line writes it."""

    def approximate(self) -> tuple[Fraction, Fraction] | None:
        """One (ε, δ) that it implies, with neither ε nor δ given."""
        return None

    def concentrated(self) -> Concentrated | None:
        """The concentrated privacy that it implies."""
        return None

    def renyi_curve(self) -> Curve | None:
        """Its Rényi curve."""
        return None

    def loss(self) -> tuple[Loss, Fraction] | None:
        """A worst pair of outputs, and the chance that everything is revealed besides."""
        return None

    def gaussian_mu(self) -> Fraction | None:
        """Its μ, where it is Gaussian."""
        return None

    def __mul__(self, times: int) -> Claims:
        return Claims([(self, count_of(times))])

    __rmul__ = __mul__

    def __add__(self, other: Claim | Claims | Sequence[Claim]) -> Claims:
        return Claims.of(self) + other

    def __str__(self) -> str:
        return f"{self.name}({', '.join(self._arguments())})"

    def _arguments(self) -> list[str]:
        """As the command line writes them."""
        shown = []
        for field in fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if value != field.default:
                shown.append(f"s={_written(value)}" if field.name == "sensitivity" else _written(value))
        return shown


def _written(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.10g}"
    return f"{float(value):.10g}" if isinstance(value, Fraction) else str(value)


# --- checks at the door -----------------------------------------------------------------------------------------------


def exact(value: object) -> Fraction:
    """The exact number behind a parameter of a claim."""
    return as_fraction(value)  # type: ignore[arg-type]


def kept_number(value: object, what: str, allowed: str) -> int | float | Fraction:
    """A number in the one form in which equal ones are equal: whole, as a float is written, or a fraction."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real | Decimal):
        raise refused_parameter(what, "must be a number", allowed)
    plain: object = value
    if not isinstance(value, int | float | Decimal | Fraction):
        plain = int(value) if isinstance(value, numbers.Integral) else float(value)
    try:
        number = exact(plain)
    except (ValueError, OverflowError):
        raise refused_parameter(what, "must be a finite number", allowed) from None
    if max(number.numerator.bit_length(), number.denominator.bit_length()) > MOST_BITS:
        raise refused_parameter(what, "has too many digits, or is too large or too small", allowed)
    if number.denominator == 1 and abs(number) < 10**15:
        return int(number)
    try:
        near = float(number)
    except OverflowError:
        return number
    return near if exact(near) == number else number


def refused_parameter(what: str, problem: str, allowed: str) -> ShoalError:
    """The refusal of a parameter that is out of its range."""
    return ShoalError("E_OPTION_INVALID", f"{what} {problem}.", hint=f"Allowed: {allowed}.")


def check_field(claim: Claim, field: str, allowed: str, within: Callable[[Fraction], bool]) -> None:
    """Keep a field of a frozen claim in its one form, or refuse it."""
    given = getattr(claim, field)
    kept = kept_number(given, field, allowed)
    if not within(exact(kept)):
        raise ShoalError(
            "E_OPTION_INVALID",
            f"{field} must be {allowed}; got {_written(kept)}.",
            hint=f"Write {claim.name}(…) with {field} {allowed}.",
        )
    object.__setattr__(claim, field, kept)


def check_epsilon(claim: Claim) -> None:
    """0 ≤ ε ≤ 10⁶."""
    check_field(claim, "epsilon", "from 0 to 1e6", lambda value: 0 <= value <= LARGEST_EPSILON)


def check_delta(claim: Claim) -> None:
    """0 ≤ δ < 1."""
    check_field(claim, "delta", "at least 0 and less than 1", lambda value: 0 <= value < 1)
    if 0 < exact(claim.delta) < SMALLEST_POSITIVE_DELTA:  # type: ignore[attr-defined]
        raise refused_parameter("delta", "is too small", "0, or at least 1e-300")


def check_positive(claim: Claim, field: str) -> None:
    """A scale, a ρ, a μ: above 0."""
    check_field(claim, field, "above 0", lambda value: value > 0)
    value = exact(getattr(claim, field))
    if not SMALLEST_PARAMETER <= value <= LARGEST_PARAMETER:
        raise refused_parameter(field, "is out of range", "from 1e-100 to 1e12")


def number_above(value: Fraction) -> float:
    """A float that, as it is written, is not below the value."""
    near = float(value)
    while exact(near) < value:
        near = math.nextafter(near, math.inf)
    return near


def count_of(times: object) -> int:
    """How often a claim is made: a whole number from 1 to 10⁷."""
    return whole_number(times, option="A count", largest=LARGEST_COUNT)


def rate_of(value: object) -> Fraction:
    """A sampling rate in (0, 1]."""
    rate = exact(kept_number(value, "rate", "above 0 and at most 1"))
    if not 0 < rate <= 1 or rate < SMALLEST_RATE:
        raise refused_parameter("rate", "must be above 0 and at most 1", "from 1e-12 to 1")
    return rate


# --- several claims ---------------------------------------------------------------------------------------------------


class Claims(Sequence[Claim]):
    """Claims in a row, equal neighbours kept once with their count: `claim * 1000` costs nothing.

    >>> from shoal.guarantees.promises import Pure
    >>> str(Pure(0.1) * 50 + Pure(1))
    'dp(0.1)*50 + dp(1)'
    """

    def __init__(self, runs: Iterable[tuple[Claim, int]] = ()) -> None:
        self.runs = tuple(runs)

    @classmethod
    def of(cls, claims: Claim | Iterable[Claim | Claims]) -> Claims:
        """Claims of whatever lists them."""
        if isinstance(claims, Claims):
            return claims
        if isinstance(claims, Claim):
            return cls([(claims, 1)])
        runs: list[tuple[Claim, int]] = []
        for one in claims:
            if not isinstance(one, Claim | Claims):
                raise ShoalError("E_USAGE", "A list of claims holds something that is not a claim.", hint=WHAT_CLAIMS)
            runs.extend(cls.of(one).runs)
        return cls(runs)

    def counted(self) -> Counter[Claim]:
        """How often each claim is made."""
        counts: Counter[Claim] = Counter()
        for claim, times in self.runs:
            counts[claim] += times
        return counts

    def __len__(self) -> int:
        return sum(times for _, times in self.runs)

    def __iter__(self) -> Iterator[Claim]:
        for claim, times in self.runs:
            for _ in range(times):
                yield claim

    @overload
    def __getitem__(self, index: int) -> Claim: ...

    @overload
    def __getitem__(self, index: slice) -> list[Claim]: ...

    def __getitem__(self, index: int | slice) -> Claim | list[Claim]:
        if isinstance(index, slice):
            return [self[position] for position in range(*index.indices(len(self)))]
        position = index + len(self) if index < 0 else index
        for claim, times in self.runs:
            if 0 <= position < times:
                return claim
            position -= times
        raise IndexError(index)

    def __add__(self, other: Claim | Claims | Sequence[Claim]) -> Claims:
        return Claims((*self.runs, *Claims.of(other).runs))

    def __radd__(self, other: Sequence[Claim]) -> Claims:
        return Claims.of(other) + self

    def __mul__(self, times: int) -> Claims:
        return Claims([(claim, count_of(count * count_of(times))) for claim, count in self.runs])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str) or len(other) != len(self):
            return False
        return all(one == another for one, another in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        return " + ".join(f"{claim}*{times}" if times > 1 else str(claim) for claim, times in self.runs)

    def __repr__(self) -> str:
        return f"Claims({str(self)!r})"


WHAT_CLAIMS = "Write claims such as [Pure(0.1)], LaplaceNoise(10) * 50, or the text 'laplace(10)*50 + dp(0.1, 1e-9)'."
