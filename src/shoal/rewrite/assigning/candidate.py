"""One complete assignment, and how good it is."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING

from shoal.accounting.events import (
    GaussianNoise,
    LaplaceNoise,
    QuantileChoice,
)
from shoal.errors import InternalError
from shoal.frozen import dataclass
from shoal.mechanisms import group_selection
from shoal.rewrite.assigning.spread import Spread
from shoal.rewrite.assigning.weights import GAUSSIAN_MEDIAN, LAPLACE_MEDIAN

if TYPE_CHECKING:
    from shoal.accounting.events import AdditiveNoise, Event, Randomised, Selection
    from shoal.rewrite.assigning.spread import Complement, SelectingMean
    from shoal.rewrite.draft import Draft


LAPLACE_95, GAUSSIAN_95 = math.log(20), 1.96
RANKS_OF_A_TREE = 1.8
"""Roughly the error of a rank read off a tree, in multiples of the error of one node (measured: docs/theory/quantiles.md)."""


@dataclass(frozen=True)
class Candidate:
    """One complete assignment: noise of every part and histogram, the selection, what it costs and how good it is."""

    parts: tuple[Randomised, ...]
    histograms: tuple[AdditiveNoise, ...]
    selection: Selection | None
    shared: bool
    events: tuple[Event, ...]
    why: str
    complement: Complement | None = None
    """If a number is released from both its bounds: what the owner count is read from."""
    mean: SelectingMean | None = None
    """If the two sums of an average select groups: which parts they stand for."""

    def widths(self) -> tuple[float, ...]:
        """The approximate 95% half-width of every released number, in the analyst's units."""
        return tuple(spread.width for spread in self.spreads)

    def medians(self) -> tuple[float, ...]:
        """The approximate median error of every released number, in the analyst's units."""
        return tuple(spread.median for spread in self.spreads)

    def errors(self) -> tuple[float, ...]:
        """The same, in units of the most that one owner adds."""
        return tuple(spread.median / spread.unit for spread in self.spreads)

    @cached_property
    def spreads(self) -> tuple[Spread, ...]:
        """The error of every number that one owner can move; needed whenever two candidates are compared."""
        return tuple(self._spread(index, noise) for index, noise in enumerate(self.parts) if noise.shift.l1)

    def _spread(self, index: int, noise: Randomised) -> Spread:
        found = self.complement or self.mean
        if found is not None and index in {found.carrier, found.counter} and not isinstance(noise, QuantileChoice):
            return found.spread_of(index, noise)
        width = _width(noise)
        return Spread(width, width * _median_in_widths(noise), float(noise.shift.per_coordinate * noise.grid))

    def half_point(self) -> float:
        """The number of owners at which a group is as likely to be kept as not; 1 without selection."""
        return max(1.0, float(group_selection.half_point(self.selection))) if self.selection is not None else 1.0

    def score(self) -> float:
        """The mean logarithm of the quantities to minimise."""
        logs = [math.log(max(w, 1e-300)) for w in self.widths()]
        return sum(logs, math.log(self.typical_owners())) / (len(logs) + 1)

    def typical_owners(self) -> float:
        """About the same for owners in 1 to κ groups: where group sizes go by their logarithm, the fewer, the more groups."""
        return max(1.0, group_selection.typical_owners(self.selection)) if self.selection is not None else 1.0


@dataclass(frozen=True, slots=True)
class Errors:
    """The quantities to minimise: half-widths of the released numbers, and the owners that a group needs."""

    widths: tuple[float, ...]
    owners: float


def _width(noise: Randomised) -> float:
    if isinstance(noise, QuantileChoice):
        return LAPLACE_95 * _rank_in_scales(noise) * float(noise.scale) / RANKS_OF_A_TREE
    if isinstance(noise, LaplaceNoise):
        return LAPLACE_95 * float(noise.scale) * float(noise.grid)
    return GAUSSIAN_95 * float(noise.sigma) * float(noise.grid)


def _rank_in_scales(choice: QuantileChoice) -> float:
    """Roughly how far a chosen leaf is from its rank; parts are cut near their middle, and inherit the errors of their cuts."""
    if not choice.nested:
        return float(max(target.reach for target in choice.targets))
    reach = 1.0 if any(target.margin for target in choice.targets) else 0.5
    return reach * math.sqrt(choice.draws / 2)


def _median_in_widths(noise: Randomised) -> float:
    return GAUSSIAN_MEDIAN / GAUSSIAN_95 if isinstance(noise, GaussianNoise) else LAPLACE_MEDIAN / LAPLACE_95


def kind_of_noise(candidate: Candidate) -> str:
    """The value of the option `noise` that requests it."""
    return "GAUSSIAN" if any(isinstance(noise, GaussianNoise) for noise in candidate.parts) else "LAPLACE"


def asked_by(candidate: Candidate) -> str:
    """The option that requests the same selection."""
    if candidate.selection is None:
        raise InternalError("a rule is named where groups are selected")
    return f"group_selection_strategy = {group_selection.rule_of(candidate.selection).name}"


def spare_of(draft: Draft) -> float:
    """A count that also selects saves the share of ε that the even split keeps for the selection."""
    return (len(draft.units) + 1) / len(draft.units) if draft.shared_unit is not None else 1.0
