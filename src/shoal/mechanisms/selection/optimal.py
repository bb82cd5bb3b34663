"""OPTIMAL: each group is kept with the largest chance that (ε, δ) allows; the tables and their proof are in `keep_tables`."""

from __future__ import annotations

from bisect import bisect_left
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from shoal.accounting.events import OptimalSelection
from shoal.accounting.zcdp import laplace_rho
from shoal.mechanisms import calibrate
from shoal.mechanisms.sampling.samplers import bernoulli
from shoal.mechanisms.selection import keep_tables
from shoal.mechanisms.selection.rule import MOST_OWNERS, SelectionApart, SelectionDraw, SelectionLoss
from shoal.remembered import remembered

if TYPE_CHECKING:
    import numpy.typing as npt

    from shoal.accounting.events import Selection
    from shoal.mechanisms.entropy import Entropy

CLEAR_BITS = 40
"""A chance this far from one half is on the same side of it in the closed form and in the recursion."""


@remembered(4096)
def _half_point(selection: OptimalSelection) -> int:
    """Cached for longer than its table: planners request it repeatedly, for hundreds of selections."""
    closed = keep_tables.closed_form_of(selection)
    if closed is not None:
        found, clear = _first_half(closed), 1 << (closed.bits - CLEAR_BITS)
        around = [closed.numerator(n) - (1 << (closed.bits - 1)) for n in (found - 1, found)]
        if found < MOST_OWNERS and -around[0] > clear and around[1] > clear:
            return found
    table = keep_tables.keep_probabilities(selection)
    if isinstance(table, keep_tables.ClosedFormTable):
        return _first_half(table)
    return bisect_left(range(min(table.sure_from, MOST_OWNERS)), 1 << (table.bits - 1), key=table.numerator)


def _first_half(table: keep_tables.ClosedFormTable) -> int:
    """A value takes a millisecond; chances pass one half about where the two branches of the closed form meet."""
    half, last = 1 << (table.bits - 1), min(table.sure_from, MOST_OWNERS)
    return calibrate.first_point(lambda n: n >= last or table.numerator(n) >= half, min(table.crossing, last))


class OptimalRule:
    """κ decisions, each a randomised response of (ε/κ, δ₁): the whole is (ε, δ)-private and δ-approximately ε·tanh(ε/2κ)-zCDP."""

    name = "OPTIMAL"
    words = "each group is kept with the largest chance that its share of (ε, δ) allows"
    reads: str | None = None
    joins_gaussian = False

    def made(self, selection: Selection) -> bool:
        """It has its own event."""
        return isinstance(selection, OptimalSelection)

    def apart(self, max_groups: int, min_owners: int, epsilon: Fraction, delta: Fraction) -> SelectionApart:
        """The event is all there is."""
        selection = OptimalSelection(epsilon, delta, max_groups, min_owners)
        return SelectionApart(selection, (selection,), epsilon)

    def draw(
        self,
        selection: OptimalSelection,
        owners: npt.NDArray[np.int64],
        entropy: Entropy,
        weights: npt.NDArray[np.int64] | None = None,  # noqa: ARG002 - one signature for all rules
    ) -> SelectionDraw:
        """One Bernoulli draw per group, with exact chances."""
        table = keep_tables.keep_probabilities(selection)
        counted = np.clip(owners - (selection.min_owners - 1), 0, min(table.sure_from, MOST_OWNERS))
        distinct, which = np.unique(counted, return_inverse=True)
        chances = [Fraction(table.numerator(int(n)), 1 << table.bits) for n in distinct]
        return SelectionDraw(bernoulli(chances, which, entropy), None)

    def keep_probability(self, selection: OptimalSelection, counted: int, weight: float | None = None) -> float:  # noqa: ARG002
        """π(n)."""
        table = keep_tables.keep_probabilities(selection)
        return float(Fraction(table.numerator(counted), 1 << table.bits))

    def half_point(self, selection: OptimalSelection) -> int:
        """The first n with π(n) ≥ 1/2."""
        return _half_point(selection)

    def typical_owners(self, selection: OptimalSelection) -> float:
        """The same, whatever other groups they are in."""
        return float(self.half_point(selection) + selection.min_owners - 1)

    def threshold(self, selection: OptimalSelection) -> None:  # noqa: ARG002 - one signature for all rules
        """No count is compared with anything."""
        return

    def loss(self, selection: OptimalSelection) -> SelectionLoss:
        """(ε, δ), and δ-approximately ε·tanh(ε/2κ)-zCDP: a response of ε₁ is Laplace noise of scale 1/ε₁ on a count, clamped."""
        groups, epsilon = selection.max_groups_per_owner, selection.epsilon
        rho = groups * laplace_rho(1, groups / epsilon) if epsilon else Fraction(0)
        return SelectionLoss(selection.epsilon, selection.delta, rho, selection.delta)

    def responses(self, selection: OptimalSelection) -> tuple[Fraction, int] | None:
        """κ responses of ε/κ."""
        return selection.epsilon / selection.max_groups_per_owner, selection.max_groups_per_owner
