"""The keep probabilities of the optimal rule, as exact rationals.

n is a group's number of owners after bounding, minus (`min_owners` − 1). At ε₁ = ε/κ and δ₁ = 1 − (1−δ)^{1/κ}: π(0) = 0,
π(n) = min(e^{ε₁}π(n−1) + δ₁, 1 − e^{−ε₁}(1 − π(n−1) − δ₁), 1). One owner moves the n of at most κ groups by one each.
The numbers actually sampled must satisfy, for all n ≥ 1:

    (1) π(n) ≤ e^{ε₁}π(n−1) + δ₁                (2) 1 − π(n−1) ≤ e^{ε₁}(1 − π(n)) + δ₁
    (3) π(n−1) ≤ e^{ε₁}π(n) + δ₁                (4) 1 − π(n) ≤ e^{ε₁}(1 − π(n−1)) + δ₁

Then κ such decisions together are (κε₁, 1 − (1−δ₁)^κ)-private, and the latter is at most δ. See
docs/theory/group-selection.md.
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import TYPE_CHECKING, Protocol

from shoal.errors import InternalError
from shoal.frozen import dataclass
from shoal.mechanisms.calibrate import delta_per_group
from shoal.mechanisms.certified import ARITHMETIC
from shoal.mechanisms.sampling.inversion import enclose_exp
from shoal.remembered import remembered

if TYPE_CHECKING:
    from shoal.accounting.events import OptimalSelection

LONGEST_TABLE = 1 << 14
GUARD_BITS = 128
SLACK = Fraction(1, 2**60)
MANY_STEPS_BELOW = Fraction(1, 16)
"""The ε₁ at which a table has a few hundred values, which take longer than a few evaluations of the closed form."""


class KeepTable(Protocol):
    """The chance π(n) = numerator(n)/2^bits that a group of n owners is kept, for every n ≥ 0."""

    @property
    def bits(self) -> int:
        """The binary digits of every π(n)."""

    @property
    def sure_from(self) -> int:
        """π(n) = 1 from this n on."""

    def numerator(self, owners: int) -> int:
        """π(owners)·2^bits, an integer."""


@dataclass(frozen=True, slots=True)
class RecursedTable:
    """Every π(n) below 1, by the recursion with all roundings downward.

    Proof. Let G = 2^bits, d = ⌊δ₁G⌋, E ≤ e^{ε₁} and e^{−ε₁} ≤ s ≤ 1. Each step takes p′ ≤ ⌊E·p⌋ + d, which is (1),
    and p′ ≤ G − ⌈s·(G − p − d)⌉, which is (2). Both bounds are at least p (E ≥ 1, s ≤ 1, p an integer), so p′ ≥ p:
    (3) and (4).
    """

    numerators: tuple[int, ...]
    bits: int

    @property
    def sure_from(self) -> int:
        """The first n with π(n) = 1."""
        return len(self.numerators)

    def numerator(self, owners: int) -> int:
        """π(owners)·2^bits."""
        return self.numerators[owners] if owners < len(self.numerators) else 1 << self.bits


@dataclass(frozen=True, slots=True)
class ClosedFormTable:
    """π(n) when the recursion would be long (ε₁ < 1): the closed form at δ′ = (1 − 2⁻⁶⁰)δ₁, to within h = 2⁻⁶⁴δ₁.

    Proof. The closed form π′ satisfies (1) to (4) at (ε₁, δ′). Then π(n) ≤ π′(n) + h ≤ e^{ε₁}π′(n−1) + δ′ + h ≤
    e^{ε₁}π(n−1) + δ′ + (1 + e^{ε₁})h, and (1 + e^{ε₁})h ≤ 4h = 2⁻⁶²δ₁ ≤ δ₁ − δ′: (1). The others likewise. π(0) = 0,
    and cutting to [0, 1] moves no value further from π′.
    """

    epsilon: Fraction
    delta: Fraction
    bits: int
    digits: int
    crossing: int
    sure_from: int

    def numerator(self, owners: int) -> int:
        """π(owners)·2^bits, rounded to an integer between 0 and 2^bits."""
        whole = 1 << self.bits
        if owners <= 0:
            return 0
        if owners >= self.sure_from:
            return whole
        with localcontext(ARITHMETIC) as context:
            context.prec = self.digits
            return min(max(int(self._value(owners) * whole), 0), whole)

    def _value(self, owners: int) -> Decimal:
        """t(e^{nε} − 1), t = δ/(e^ε − 1), up to the crossing n₁; beyond it 1 + t − e^{−(n−n₁)ε}(1 + t − π(n₁))."""
        epsilon = Decimal(self.epsilon.numerator) / Decimal(self.epsilon.denominator)
        step = Decimal(self.delta.numerator) / Decimal(self.delta.denominator) / (epsilon.exp() - 1)
        rising = step * ((min(owners, self.crossing) * epsilon).exp() - 1)
        if owners <= self.crossing:
            return rising
        return 1 + step - (-(owners - self.crossing) * epsilon).exp() * (1 + step - rising)


@remembered(32)
def keep_probabilities(selection: OptimalSelection) -> KeepTable:
    """The table of the probabilities actually sampled, as a function of n = owners − (min_owners − 1)."""
    epsilon, delta, bits = _facts(selection)
    if epsilon == 0:
        return ClosedFormUniform(math.floor(delta * 2**bits), bits)
    return _recurse(epsilon, delta, bits) or _closed_form(epsilon, delta, bits)


def closed_form_of(selection: OptimalSelection) -> ClosedFormTable | None:
    """The closed form when the recursion takes many steps, whether or not they are too many for a table.

    It is not what is sampled there, but within 2⁻⁵⁰ of it: the recursion loses at most two units of 2^−bits per step, which later
    steps multiply by no more than 2/δ₁, and the closed form uses 2⁻⁶⁰ of δ₁ less.
    """
    epsilon, delta, bits = _facts(selection)
    return _closed_form(epsilon, delta, bits) if 0 < epsilon < MANY_STEPS_BELOW else None


def _facts(selection: OptimalSelection) -> tuple[Fraction, Fraction, int]:
    epsilon = selection.epsilon / selection.max_groups_per_owner
    delta = delta_per_group(selection.delta, selection.max_groups_per_owner)
    return epsilon, delta, GUARD_BITS + (delta.denominator // delta.numerator).bit_length()


@dataclass(frozen=True, slots=True)
class ClosedFormUniform:
    """ε = 0: π(n) = min(1, n·d/2^bits), d = ⌊δ₁·2^bits⌋; each step adds exactly d, so (1) to (4) hold at (0, δ₁)."""

    step: int
    bits: int

    @property
    def sure_from(self) -> int:
        """The first n with π(n) = 1."""
        return -(-(1 << self.bits) // self.step)

    def numerator(self, owners: int) -> int:
        """π(owners)·2^bits."""
        return min(max(owners, 0) * self.step, 1 << self.bits)


def _recurse(epsilon: Fraction, delta: Fraction, bits: int) -> RecursedTable | None:
    """The recursion, or None if it would be too long; a huge ε is capped, which is conservative."""
    whole, step = 1 << bits, math.floor(delta * 2**bits)
    capped = min(epsilon, Fraction(bits))
    growth = (1 << (5 * bits)) // enclose_exp(capped, 4 * bits)[1]  # ≤ e^ε·2^bits
    shrink = min(enclose_exp(capped, bits)[1], whole)  # ≥ e^{−ε}·2^bits
    last, numerators = 0, [0]
    while last < whole:
        if len(numerators) > LONGEST_TABLE:
            return None
        grown, rest = ((growth * last) >> bits) + step, whole - last - step
        kept = whole + ((-shrink * rest) >> bits) if rest > 0 else whole
        last = grown if grown < kept else kept  # noqa: FURB136 - thousands of steps, and a call costs more than both products
        numerators.append(last)
    return RecursedTable(tuple(numerators[:-1]), bits)


def _closed_form(epsilon: Fraction, delta: Fraction, bits: int) -> ClosedFormTable:
    """n₁ = the first n with π′(n) ≥ (1 − δ′)/(1 + e^ε): there the second bound of the recursion takes over."""
    if epsilon >= 1:
        raise InternalError("the closed form is for small ε")
    careful = delta * (1 - SLACK)
    digits = 60 + (bits + (epsilon.denominator // epsilon.numerator).bit_length()) // 3
    with localcontext(ARITHMETIC) as context:
        context.prec = digits
        rate = Decimal(epsilon.numerator) / Decimal(epsilon.denominator)
        small = Decimal(careful.numerator) / Decimal(careful.denominator)
        growth = rate.exp()
        crossing = math.ceil((1 + (1 - small) * (growth - 1) / ((1 + growth) * small)).ln() / rate)
        before = small * ((crossing * rate).exp() - 1) / (growth - 1)
        beyond = math.ceil((1 + (growth - 1) / small * max(1 - before, Decimal(0))).ln() / rate)
    return ClosedFormTable(epsilon, careful, bits, digits, crossing, crossing + beyond + 1)
