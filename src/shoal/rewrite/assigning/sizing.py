"""From a noise scale to a grid: the step size is public, chosen from the unrounded scale alone."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from shoal.accounting.events import LaplaceNoise, QuantileChoice, RankTarget, Shift
from shoal.errors import InternalError
from shoal.exact import power_of_two_below
from shoal.frozen import dataclass
from shoal.mechanisms.calibrate import laplace_scale
from shoal.mechanisms.certified import round_scale_up
from shoal.mechanisms.quantile_choice import outer_margin
from shoal.params import Bounds
from shoal.plan.measures import Steps
from shoal.plan.releases import Inferred
from shoal.plan.totals import row_grid_of
from shoal.rewrite.draft import Part

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shoal.plan.measures import Measure
    from shoal.plan.releases import SelectPlan

FINENESS = Fraction(1, 2**32)
"""A step as a fraction of the noise, so that rounding ten million equal values stays far below the noise."""
COARSEST = Fraction(1, 2**20)
"""A step as a fraction of what one owner adds, however large the noise: found bounds must not round to nothing."""
FAR_TAIL = Fraction(1, 10)
"""Ranks this close to either end of the data may have too few rows beyond them: without a margin, any value would qualify."""
ENDS = frozenset({Fraction(0), Fraction(1)})
"""MIN and MAX."""
SHARE_AROUND, SHARE_AROUND_ENDS, SHARE_AROUND_TAILS = Fraction(1, 4), Fraction(1, 5), Fraction(1, 8)
"""The share of the ε of chosen quantiles spent on their intervals: in general, for MIN and MAX, and for other far tails. Errors
grow by a third, a quarter, a seventh. At the ends rows are far apart: an error costs more, and many intervals end at the bound
whatever is spent on them."""
LEAN_OF_ENDS, LEAN_OF_TAILS = Fraction(1, 2), Fraction(3, 20)
"""How much more than 1 a row beyond the rank counts, and how much less one inside: for MIN and MAX, and for other far tails."""
ONE_UNIT = Bounds(Fraction(-1), Fraction(1))
"""Bounds that are not known yet count as one unit; the grid is stretched to them once they are found."""


@dataclass(frozen=True, slots=True)
class Sized:
    """A measure on its grid: how far one owner moves it, in steps."""

    shift: Shift
    grid: Fraction


def planned_bounds(part: Part) -> Bounds | None:
    """The bounds a plan is sized with."""
    return ONE_UNIT if isinstance(part.bounds, Inferred) else part.bounds


def counts_whole_numbers(part: Part) -> bool:
    """Whether the grid is 1: whole numbers with known bounds."""
    return (part.measure.is_integer and not isinstance(part.bounds, Inferred)) or part.measure.is_tree


def reach(part: Part) -> Fraction:
    """Δ for one group in the analyst's units, before any rounding to a grid."""
    bounds, measure = planned_bounds(part), part.measure
    if counts_whole_numbers(part) or bounds is None:
        return Fraction(measure.delta(_whole_steps(part)))
    magnitude = max(abs(bounds.lower), abs(bounds.upper))
    radius = (bounds.upper - bounds.lower) / 2
    return measure.unit_reach(magnitude, radius)


def _whole_steps(part: Part) -> Steps | None:
    bounds = planned_bounds(part)
    if bounds is None or part.measure.is_tree:
        return None
    return Steps.outward(bounds, Fraction(1))


def sized(part: Part, scale: Fraction) -> Sized:
    """The grid for noise of about this scale (in the analyst's units), and the shift in its steps."""
    furthest = reach(part)
    if counts_whole_numbers(part) or planned_bounds(part) is None or furthest == 0:
        steps = part.measure.delta(_whole_steps(part)) if furthest else 0
        return Sized(Shift(steps, part.coordinates, part.entries), Fraction(1))
    grid = power_of_two_below(min(scale * FINENESS, furthest * COARSEST))
    if part.measure.power == 2:
        grid = _square_below(grid)
    bounds = planned_bounds(part)
    assert bounds is not None  # noqa: S101 - reals have bounds
    steps_of = Steps.outward(bounds, row_grid_of_real(part.measure, grid))
    return Sized(Shift(part.measure.delta(steps_of), part.coordinates, part.entries), grid)


def row_grid_of_real(measure: Measure, grid: Fraction) -> Fraction:
    """The rows' grid when whole numbers are also counted in fractions (bounds not known yet)."""
    return grid if measure.power == 1 else row_grid_of(measure, grid)


def _square_below(grid: Fraction) -> Fraction:
    """The largest even power of two that is not above the grid, so that rows have their own grid."""
    exponent = grid.numerator.bit_length() - grid.denominator.bit_length()
    return Fraction(2) ** (exponent - exponent % 2)


def partitioned(plan: SelectPlan) -> SelectPlan:
    """The plan with the numbers of each AVG and VAR read from sums that one owner moves by one whole in total, for the ε of all.

    The sums of x − L and of U − x get noise of the same scale (U − L)·κ/ε, and one event charges them: their moves in one group
    add up to U − L. Half their difference is as exact as a centred sum with 70% of ε, and their sum a better count than with 30%.
    The three sums of VAR likewise: what one row adds to them makes (U − L)². Where bounds are found first, noise is planned for
    [−1, 1] and shrinks with the whole.
    """
    for index, column in enumerate(plan.columns):
        parts = column.call.aggregate.partition
        reading = {c.releases for c in plan.columns if set(c.releases) & set(column.releases)}
        if parts and reading == {column.releases}:
            plan = _with_whole(plan, index, parts)
    return plan


def _with_whole(plan: SelectPlan, index: int, parts: tuple[Measure, ...]) -> SelectPlan:
    positions = plan.columns[index].releases
    drawn = [plan.releases[position].noise for position in positions]
    first = plan.releases[positions[0]]
    noises = [noise for noise in drawn if isinstance(noise, LaplaceNoise) and noise.shift.l1]
    if first.bounds is None or first.measure.origin != "middle" or len(noises) < len(positions):
        return plan
    epsilon = sum((noise.epsilon for noise in noises), Fraction(0))
    groups = noises[0].shift.coordinates
    part = Part(parts[0], first.bounds, groups, len(parts) * noises[0].shift.touched)
    on_grid = sized(part, groups * reach(part) / epsilon)
    whole = LaplaceNoise(on_grid.shift, laplace_scale(on_grid.shift, epsilon), on_grid.grid)
    releases, events = list(plan.releases), list(plan.events)
    for position, measure in zip(positions, parts, strict=True):
        releases[position] = replace(first, measure=measure, noise=whole)
    events[events.index(noises[0])] = whole
    for noise in noises[1:]:
        events.remove(noise)
    return replace(plan, releases=tuple(releases), events=tuple(events))


def choice_of(part: Part, epsilon: Fraction) -> QuantileChoice:
    """The choice that spends ε; ranks near the ends of the data keep the distance from them that the scale requires."""
    if not part.measure.is_tree:
        raise InternalError("only leaves can be chosen among")
    shift = Shift(part.measure.cells, part.coordinates, part.entries)
    nested = len(part.targets) > 1
    draws = len(part.targets).bit_length() if nested else 1
    fractions = [target.fraction for target in part.targets]
    share = share_around(fractions)
    scale = round_scale_up(2 * draws * shift.l1 / (epsilon * (1 - share)))
    around = round_scale_up(shift.l1 / (epsilon * share))
    targets = tuple(target_of(fraction, scale, part.measure.leaf_count) for fraction in fractions)
    return QuantileChoice(shift, scale, targets, around, nested)


def share_around(fractions: Sequence[Fraction]) -> Fraction:
    """The part of these quantiles' ε that pays for their intervals."""
    if not all(_is_far(fraction) for fraction in fractions):
        return SHARE_AROUND
    return SHARE_AROUND_ENDS if ENDS & set(fractions) else SHARE_AROUND_TAILS


def target_of(fraction: Fraction, scale: Fraction, leaves: int) -> RankTarget:
    """Where a quantile is looked for: near the ends of the data it keeps away from them, and leans outwards."""
    if not _is_far(fraction):
        return RankTarget(fraction)
    lean = LEAN_OF_ENDS if fraction in ENDS else LEAN_OF_TAILS
    return RankTarget(fraction, outer_margin(scale, leaves, lean), lean if fraction > Fraction(1, 2) else -lean)


def _is_far(fraction: Fraction) -> bool:
    return fraction < FAR_TAIL or fraction > 1 - FAR_TAIL
