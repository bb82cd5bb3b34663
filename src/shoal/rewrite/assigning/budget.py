"""The even split of ε over the aggregates of a SELECT and its selection."""

from __future__ import annotations

from copy import copy
from fractions import Fraction
from typing import TYPE_CHECKING

from shoal.errors import ShoalError
from shoal.rewrite.assigning.sizing import reach
from shoal.rewrite.select_groups import delta_of

if TYPE_CHECKING:
    from shoal.rewrite.draft import Draft, Part, Unit


class Budget:
    """The even split, with what the analyst fixed taken out first."""

    def __init__(self, draft: Draft, factor: Fraction = Fraction(1)) -> None:
        """`factor` stretches every share: numerical composition determines how far (and keeps half of δ for itself)."""
        options = draft.select.options
        self.epsilon = options.epsilon
        self.delta = delta_of(options) if factor == 1 else delta_of(options) / 2
        own_selection = draft.needs_selection and draft.shared_unit is None
        fixed = [u.epsilon for u in draft.units if u.epsilon is not None]
        if own_selection and options.selection_epsilon is not None:
            fixed.append(options.selection_epsilon)
        left = options.epsilon - sum(fixed, Fraction(0))
        open_units = sum(u.epsilon is None and unit_moves(draft, u) for u in draft.units)
        takers = open_units + int(own_selection and options.selection_epsilon is None)
        if left < 0 or (takers and left == 0):
            raise ShoalError(
                "E_OPTION_INVALID",
                "The aggregates' own epsilons leave nothing of the query's epsilon for the rest.",
                hint="Their sum must stay below the option epsilon; which groups appear also needs a part of it.",
                position=draft.select.position,
            )
        even = left / takers if takers else Fraction(0)
        self.units = [factor * (u.epsilon if u.epsilon is not None else even) for u in draft.units]
        self.selection = factor * (options.selection_epsilon or even) if own_selection else Fraction(0)
        self.is_even, self.factor = not fixed, factor

    def leaning(self, selection: Fraction) -> Budget:
        """The same with this much for the selection; the rest is stretched evenly."""
        other = copy(self)
        stretch = (self.epsilon - selection) / (self.epsilon - self.selection)
        other.units, other.selection = [stretch * unit for unit in self.units], selection
        return other


def part_moves(part: Part) -> bool:
    """Whether one owner can change it at all."""
    return reach(part) > 0


def unit_moves(draft: Draft, unit: Unit) -> bool:
    """Whether an aggregate needs any of ε: one owner can change what it reads."""
    return unit.histogram is not None or any(part_moves(draft.parts[index]) for index in unit.parts)
