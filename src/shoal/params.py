"""Parameters of a private query, checked once at the door: what passes here is exact, finite and in range.

Numbers come as int, float, Decimal or Fraction (NumPy scalars too) and leave as exact fractions; a float stands for its
shortest decimal form, so 0.1 is one tenth. Text, booleans, None, NaN and infinities are refused, never converted.

    >>> epsilon(0.1) * 10 == 1
    True
    >>> epsilon("1")
    Traceback (most recent call last):
    shoal.errors.ShoalError: E_OPTION_INVALID: epsilon must be a number; got a string.
    Hint: Write epsilon = 1, or any number from 1e-10 to 1e6.
"""

from __future__ import annotations

import math
import numbers
from decimal import Context, Decimal
from fractions import Fraction

from shoal.errors import ShoalError
from shoal.exact import as_fraction
from shoal.frozen import dataclass

SMALLEST_EPSILON = Fraction(1, 10**10)
MIN_EPSILON_PER_QUERY = Fraction(1, 100)
"""Where a ledger has a budget: it bounds how many queries the budget can pay for, and with it what failures can reveal."""
LARGEST_EPSILON = Fraction(10**6)
LARGEST_BUDGET_EPSILON = Fraction(10**9)
SMALLEST_POSITIVE_DELTA = Fraction(1, 10**300)
LARGEST_DELTA_FOR_UNKNOWN_GROUPS = Fraction(1, 10)
LARGEST_COUNT = 10**6
LARGEST_SHARE = Fraction(1, 2)
"""Of ε, for measuring instead of answering."""
LARGEST_BOUND = Fraction(10**30)
SMALLEST_POSITIVE_BOUND = Fraction(1, 10**30)
MOST_BITS = 4096
"""No parameter needs more digits than this; every amount in a ledger stays short."""
SMALL_CHANCE = 0.01
ROUNDED_OFF = 1e-9
LARGE_NUMBERS = ((10**12, " trillion"), (10**9, " billion"), (10**6, " million"))
LARGEST_WORD = LARGE_NUMBERS[0][0]
RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
PROTECTS_UP_TO = Fraction(10)
"""Above this ε an answer may be e^10 times likelier with one owner than without: the promise says next to nothing."""


def epsilon(value: object, *, option: str = "epsilon") -> Fraction:
    """The ε of one query: from 1e-10 to 1e6.

    >>> epsilon(0.5)
    Fraction(1, 2)
    """
    hint = f"Write {written(option, '1')}, or any number from 1e-10 to 1e6."
    exact = _number(value, option, "E_OPTION_INVALID", hint)
    if not SMALLEST_EPSILON <= exact <= LARGEST_EPSILON:
        raise ShoalError("E_OPTION_INVALID", f"{option} must be from 1e-10 to 1e6; got {_shown(value)}.", hint=hint)
    return exact


def warning_about(epsilon: Fraction | float) -> str | None:
    """What to say about an ε that is accepted for experiments, and promises next to nothing.

    >>> warning_about(1000)
    'ε = 1000 protects nobody: use it only on data you may see.'
    >>> warning_about(1)
    """
    if epsilon <= PROTECTS_UP_TO:
        return None
    return f"ε = {float(epsilon):g} protects nobody: use it only on data you may see."


def delta(value: object, *, option: str = "delta", hint: str | None = None) -> Fraction:
    """The δ of one query: 0 ≤ δ < 1, and not so small (below 1e-300) that a float would lose it.

    >>> delta(1e-6)
    Fraction(1, 1000000)
    """
    hint = hint or f"Write {written(option, '1e-6')}, or less than one over a hundred times the number of owners."
    exact = _number(value, option, "E_OPTION_INVALID", hint)
    if not 0 <= exact < 1:
        raise ShoalError(
            "E_OPTION_INVALID", f"{option} must be at least 0 and less than 1; got {_shown(value)}.", hint=hint
        )
    if 0 < exact < SMALLEST_POSITIVE_DELTA:
        raise ShoalError(
            "E_OPTION_INVALID", f"{option} must be 0 or at least 1e-300: this one is too small.", hint=hint
        )
    return exact


def default_delta(population: int) -> Fraction:
    """The δ for a public order of magnitude of owners: min(10⁻⁶, 1/(100·population)); never taken from the data.

    >>> default_delta(150_000)
    Fraction(1, 15000000)
    """
    owners = whole_number(population, option="population", largest=10**12)
    return min(Fraction(1, 10**6), Fraction(1, 100 * owners))


def confidence_level(value: object, *, option: str = "level") -> Fraction:
    """How often an interval should cover: strictly between 0 and 1, at most 1 − 10⁻¹².

    >>> confidence_level(0.95)
    Fraction(19, 20)
    """
    hint = f"Write {written(option, '0.95')} for intervals that cover 95 times out of 100."
    exact = _number(value, option, "E_OPTION_INVALID", hint)
    if not Fraction(1, 10**12) <= exact <= 1 - Fraction(1, 10**12):
        raise ShoalError("E_OPTION_INVALID", f"{option} must be between 0 and 1; got {_shown(value)}.", hint=hint)
    return exact


def share(value: object, *, option: str = "measure_cut") -> Fraction:
    """A part of ε that is spent on something beside the answer: from 0 to a half.

    >>> share(0.05)
    Fraction(1, 20)
    """
    hint = f"Write {written(option, '0.05')} for a twentieth of epsilon, or {written(option, '0')} for nothing."
    exact = _number(value, option, "E_OPTION_INVALID", hint)
    if not 0 <= exact <= LARGEST_SHARE:
        raise ShoalError("E_OPTION_INVALID", f"{option} must be from 0 to 0.5; got {_shown(value)}.", hint=hint)
    return exact


def percent(level: float) -> str:
    """A level as people say it; 0.9999999 is never rounded to certainty.

    >>> percent(0.95), percent(0.9999999)
    ('95%', '99.99999%')
    """
    return f"{level * 100:.12g}%"


def one_in(chance: float) -> str:
    """A chance as people say it, never smaller than it is.

    >>> one_in(1e-7), one_in(0.0004), one_in(3e-9), one_in(0.05), one_in(1e-20), one_in(3e-310)
    ('1 in 10 million', '1 in 2,500', '1 in 333 million', '5%', '10⁻²⁰', '10⁻³⁰⁹')
    """
    if chance >= SMALL_CHANCE:
        return percent(math.ceil(chance * 1000 - ROUNDED_OFF) / 1000)
    times = 1 / chance * (1 + ROUNDED_OFF)
    if times >= LARGEST_WORD * 1000:
        return "10⁻" + str(int(ROUNDED_OFF - math.log10(chance))).translate(RAISED)
    size, word = next(((size, word) for size, word in LARGE_NUMBERS if times >= size), (1, ""))
    digits = 10 ** max(0, int(math.log10(times / size)) - 2)
    return f"1 in {int(times / size / digits) * digits:,}{word}"


def many(number: int, thing: str) -> str:
    """This many of a thing, in words.

    >>> many(1, "group"), many(2000, "row")
    ('1 group', '2,000 rows')
    """
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def whole_number(value: object, *, option: str, smallest: int = 1, largest: int = LARGEST_COUNT) -> int:
    """A count of something; 2.7 is not rounded, and neither 2.0, True nor "3" are taken for whole numbers.

    >>> whole_number(5, option="min_owners")
    5
    """
    hint = f"Write {written(option, str(max(smallest, 1)))}, or any whole number from {smallest} to {largest}."
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise ShoalError("E_OPTION_INVALID", f"{option} must be a whole number; got {_shown(value)}.", hint=hint)
    count = int(value)
    if not smallest <= count <= largest:
        raise ShoalError(
            "E_OPTION_INVALID", f"{option} must be from {smallest} to {largest}; got {_shown(count)}.", hint=hint
        )
    return count


def max_groups_per_owner(value: object, *, option: str = "max_groups_per_owner") -> int:
    """κ, the number of groups an owner may contribute to: a whole number from 1 to 1,000,000."""
    return whole_number(value, option=option)


def bounds(lower: object, upper: object, *, option: str = "bounds") -> Bounds:
    """Bounds from two numbers as the analyst wrote them.

    >>> bounds(0, 499.5)
    Bounds(lower=Fraction(0, 1), upper=Fraction(999, 2))
    """
    hint = f"Write {option} as two numbers, the smaller first, such as 0 and 100."
    low = _number(lower, f"the lower end of {option}", "E_BOUNDS_INVALID", hint)
    high = _number(upper, f"the upper end of {option}", "E_BOUNDS_INVALID", hint)
    return Bounds(low, high)


def budget(value: object, *, option: str = "budget") -> Budget:
    """A budget from a pair (epsilon, delta).

    >>> budget((1.0, 1e-6))
    Budget(epsilon=Fraction(1, 1), delta=Fraction(1, 1000000))
    """
    if isinstance(value, Budget):
        return value
    example = f"{option} 1,1e-6" if option.startswith("--") else f"{option}=(1.0, 1e-6)"
    hint = f"Write {example}: epsilon first, then delta."
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise ShoalError("E_OPTION_INVALID", f"{option} must be a pair (epsilon, delta).", hint=hint)
    total = _number(value[0], f"The epsilon of {option}", "E_OPTION_INVALID", hint)
    if not SMALLEST_EPSILON <= total <= LARGEST_BUDGET_EPSILON:
        raise ShoalError("E_OPTION_INVALID", f"The epsilon of {option} must be from 1e-10 to 1e9.", hint=hint)
    return Budget(total, delta(value[1], option=f"The delta of {option}", hint=hint))


@dataclass(frozen=True, slots=True)
class Bounds:
    """The range that one owner's value in one group is clamped to."""

    lower: Fraction
    upper: Fraction

    def __post_init__(self) -> None:
        if not self.lower <= self.upper:
            raise ShoalError(
                "E_BOUNDS_INVALID",
                "The lower bound is above the upper bound.",
                hint="Write the smaller number first, as in (0, 100).",
            )
        if not (is_usable_bound(self.lower) and is_usable_bound(self.upper)):
            raise ShoalError(
                "E_BOUNDS_INVALID",
                "Bounds must be 0 or between 1e-30 and 1e30 in size.",
                hint="Measure in another unit, such as kilometres instead of millimetres.",
            )

    @property
    def magnitude(self) -> Fraction:
        """max(|lower|, |upper|): what one owner can add to a sum, or take from it."""
        return max(abs(self.lower), abs(self.upper))


_CAREFUL = "Epsilon 1 and delta 1e-6 make a careful budget."


@dataclass(frozen=True, slots=True)
class Budget:
    """What may be spent in all: ε from 1e-10 to 1e9, and 0 ≤ δ < 1."""

    epsilon: Fraction
    delta: Fraction

    def __post_init__(self) -> None:
        if not SMALLEST_EPSILON <= self.epsilon <= LARGEST_BUDGET_EPSILON:
            raise ShoalError(
                "E_OPTION_INVALID",
                "The epsilon of a budget must be from 1e-10 to 1e9.",
                hint=_CAREFUL,
            )
        delta(self.delta, option="The delta of a budget", hint=_CAREFUL)


def is_usable_bound(end: Fraction) -> bool:
    """Whether an end of bounds is neither too large nor too close to 0 for exact arithmetic on a grid."""
    return end == 0 or SMALLEST_POSITIVE_BOUND <= abs(end) <= LARGEST_BOUND


def written(option: str, value: str) -> str:
    """An option with a value as it is written where the option belongs: in SQL, in a catalog or behind a command.

    >>> written("epsilon", "1"), written("--level", "0.95")
    ('epsilon = 1', '--level 0.95')
    """
    return f"{option} {value}" if option.startswith("--") else f"{option} = {value}"


def exact_number(value: object, *, option: str, code: str = "E_OPTION_INVALID") -> Fraction:
    """Any number, exactly; what it may be is checked where it is used.

    >>> exact_number(0.1, option="a bound")
    Fraction(1, 10)
    """
    return _number(value, option, code, "Write a plain number, without quotes.")


def _number(value: object, option: str, code: str, hint: str) -> Fraction:
    """The exact rational behind a number; anything else is refused in words that name the option."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real | Decimal):
        raise ShoalError(code, f"{option} must be a number; got {_shown(value)}.", hint=hint)
    try:
        exact = as_fraction(_plain(value))
    except ValueError:
        raise ShoalError(code, f"{option} must be a finite number; got {_shown(value)}.", hint=hint) from None
    if max(exact.numerator.bit_length(), exact.denominator.bit_length()) > MOST_BITS:
        raise ShoalError(code, f"{option} has too many digits, or is too large or too small.", hint=hint)
    return exact


def _plain(value: numbers.Real | Decimal) -> int | float | Decimal | Fraction:
    """Scalars of other libraries as Python's own."""
    if isinstance(value, Decimal | Fraction):
        return value
    return int(value) if isinstance(value, numbers.Integral) else float(value)


def _shown(value: object) -> str:
    """What was given, in a few characters that need no escaping."""
    if value is None or isinstance(value, bool):
        return str(value).upper() if isinstance(value, bool) else "nothing"
    if isinstance(value, str | bytes):
        return "a string"
    if isinstance(value, numbers.Integral):
        return str(int(value)) if abs(int(value)) < 10**20 else "a number of more than 20 digits"
    if isinstance(value, numbers.Real | Decimal):
        return _digits(value) if isinstance(value, Fraction) else f"{value:.12g}"
    return f"a value of type {type(value).__name__[:40]}"


def _digits(value: Fraction) -> str:
    """Twelve digits of a fraction of any size: numbers of a query come as fractions."""
    context = Context(prec=12, Emin=-999999, Emax=999999, traps=[])
    return f"{context.divide(Decimal(value.numerator), Decimal(value.denominator)).normalize(context):g}"
