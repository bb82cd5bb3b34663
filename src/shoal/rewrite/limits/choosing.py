"""From the noisy counts of step one to limits, and to the plan of step two that has them as constants.

Nothing here reads data: the counts were released and paid for. Nothing is refused either: if the plan with the found limits
is not one that was charged for, a choice that was verified beforehand runs instead.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from shoal.accounting.events import GaussianNoise, LaplaceNoise, QuantileChoice
from shoal.errors import InternalError, ShoalError
from shoal.frozen import dataclass
from shoal.mechanisms import group_selection, limit_choice
from shoal.mechanisms.calibrate import noise_standard_deviation
from shoal.mechanisms.quantile_choice import rank_spread
from shoal.plan.limits.sought import GROUP_EDGES, IN_ALL, ROW_EDGES, SUMS, Limits
from shoal.rewrite.limits.open_limits import (
    PRIOR_ROWS_OF_ALL,
    positions_in_all,
    prior_groups,
    prior_of,
    with_limits,
)
from shoal.rewrite.limits.search import STAND_IN, is_count_of_all
from shoal.rewrite.verify.searches import verify_found

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from shoal.mechanisms.limit_choice import Choice, HistogramReading
    from shoal.plan.limits.sought import Search, Sought
    from shoal.plan.releases import PrivateSelect, SelectPlan

SLOW = {"groups": 0.6}
SLOW_OCTAVES = 0.5
FEWEST_OWNERS, FEWEST_TO_BELIEVE = 20, 15
"""Owners times the ε of a histogram, below which what it says about the cut of given limits, or of found ones, is not believed."""
SELDOM_BY_CHANCE = -math.log(2_000)
"""Sums spread over forty bins, so that noise fills one of them more often: what it may fill more than once in so many histograms is
not believed either."""
FEWEST_FOR_SUMS_IN_ALL = 200
"""Owners, whatever the ε: in a small shop, a few customers have much of all sums."""
PUBLIC_SIZE = 5.0
LARGE_GROUPS = 4
"""With one limit for all listed groups: the largest one that is reckoned with has this part of everything, the smallest a
quarter of that."""
FEARED_OF_A_SUM = 0.3
"""Without groups, the weight of what is feared beyond the limit of a sum. Noise is small beside one total, and what is cut is not:
a limit that is too large costs a few hundredths of it, one that is too small a fifth where a few owners have much."""
MOST_AGAINST = 0.25
"""For a sum of both signs: if the smaller one has more than this, both ends move together."""


@dataclass(frozen=True, slots=True)
class Kept:
    """Which share of an aggregate's rows the limits keep, about: believed and pessimistic. Not `measured`: a guess."""

    share: float
    pessimistic: float
    measured: bool
    exponent: float = 1.25
    """Groups differ from the whole: the share to this power."""
    binds: bool = False
    """Whether something is cut for certain."""
    heaviness: float = 0.0
    """The minimum weight of the pessimistic share: 1 if a few owners have most of the total, and nothing says how much."""
    against: Against | None = None
    """For a sum of both signs: what the minority sign has."""


@dataclass(frozen=True, slots=True)
class Against:
    """The smaller of both signs of a sum: which part of everything it is, and which share of it the limits keep."""

    part: float
    kept: Kept
    below: bool
    """Whether it is the negative one."""


HALF = Kept(0.5, 0.5, measured=False, exponent=1.5)
"""What is assumed if nothing is known."""
QUARTER = Kept(0.25, 0.25, measured=False, exponent=1.5)
"""The same of different values: 59 customers of a record shop have 38 tracks each, where eight are guessed."""


def at_most_half(share: float, pessimistic: float) -> Kept:
    """What is assumed if too few owners show how much is kept: half, or less if even they show less."""
    if share >= HALF.share and pessimistic >= HALF.pessimistic:
        return HALF
    return Kept(min(HALF.share, share), min(HALF.pessimistic, pessimistic), measured=False, exponent=HALF.exponent)


@dataclass(frozen=True, slots=True)
class Found:
    """Step two: its plan, the limits it has, and for every aggregate what they keep (None where nothing is cut)."""

    plan: SelectPlan
    limits: Limits
    kept: tuple[Kept | None, ...]
    missing: tuple[str, ...]
    """Kinds of limits that were sought and not found."""


def find(plan: SelectPlan, counts: Sequence[Sequence[float]], replan: Callable[[PrivateSelect], SelectPlan]) -> Found:
    """Limits from the noisy counts of all histograms, and the plan that has them."""
    search = plan.search
    if search is None:
        raise InternalError("limits that nobody sought")
    if not search.finds:
        nothing = (None,) * len(plan.select.aggregates)
        return Found(search.choices[0], Limits(search.choices[0].contribution.groups, nothing), nothing, ())
    grouped = bool(plan.select.keys)
    readings = [reading_of(s, h, c, grouped=grouped) for (s, h), c in zip(_searched(search), counts, strict=False)]
    limits = _chosen(plan, search, readings)
    kept = tuple(_kept(search, readings, limits, position) for position in range(len(plan.select.aggregates)))
    missing = tuple(s.kind for (s, _), r in zip(_searched(search), readings, strict=True) if not r.found)
    return Found(_planned(plan, limits, replan), limits, kept, missing)


def _searched(search: Search) -> list[tuple[Sought, SelectPlan]]:
    """Limits to find, with their histograms; those to measure come after them."""
    pairs = zip(search.sought, search.histograms, strict=True)
    return [(sought, histogram) for sought, histogram in pairs if not sought.measures]


def scale_of(histogram: SelectPlan) -> float:
    """The scale of a histogram's noise."""
    noise = histogram.releases[0].noise
    if not isinstance(noise, LaplaceNoise):
        raise InternalError("a histogram of limits has Laplace noise")
    return float(noise.scale)


def reading_of(sought: Sought, histogram: SelectPlan, counts: Sequence[float], *, grouped: bool) -> HistogramReading:
    """What a histogram says. Owners' sums spread far: if no bin stands out, or one that may be noise, many are read together."""
    reading = _read(sought, histogram, counts, grouped=grouped)
    if sought.kind not in SUMS or _is_read_well(reading, counts, scale_of(histogram)):
        return reading
    together = _read(sought, histogram, counts, grouped=grouped, wide=True)
    if _is_read_well(together, counts, scale_of(histogram)):
        return together
    return limit_choice.nothing_found(reading.middles)


def _read(
    sought: Sought, histogram: SelectPlan, counts: Sequence[float], *, grouped: bool, wide: bool = False
) -> HistogramReading:
    one_total = sought.kind == "sum" and not grouped
    middles = limit_choice.middles_of([float(edge) for edge in sought.edges], whole=sought.kind not in SUMS)
    slow = SLOW.get(sought.kind, SLOW_OCTAVES)
    unseen = limit_choice.UNSEEN if sought.kind == "groups" else 0.0
    beyond = limit_choice.OCTAVES_BEYOND if _is_open_ended(sought) else 0

    def read(owners: Sequence[float], scale: float, whole: Sequence[float] | None = None) -> HistogramReading:
        return limit_choice.read_histogram(
            owners, scale, middles, slow=slow, unseen=unseen, beyond=beyond, whole=whole, one_total=one_total, wide=wide
        )

    if not sought.signed:
        return read(counts, scale_of(histogram))
    half = len(counts) // 2
    both = [up + down for up, down in zip(counts[:half], counts[half:], strict=True)]
    sides = read(counts[:half], scale_of(histogram), both), read(counts[half:], scale_of(histogram), both)
    if sides[0].found != sides[1].found:
        return replace(sides[0] if sides[0].found else sides[1], sides=sides)
    return replace(read(both, math.sqrt(2) * scale_of(histogram)), sides=sides)


def _is_read_well(reading: HistogramReading, counts: Sequence[float], scale: float) -> bool:
    """Whether something was found, and no more owners lie beyond it, spread over many bins, than the noise explains.

    A sign of which nothing stands out is looked at as a whole: what stands out of the other one may be noise.
    """
    if not reading.found or reading.sides is None:
        return reading.found and not limit_choice.overlooks(counts, scale, reading, reading.top)
    half = len(counts) // 2
    of_one = reading.sides[0].found != reading.sides[1].found
    tops = (-1 if of_one and not side.found else reading.top for side in reading.sides)
    return not any(
        limit_choice.overlooks(signed, scale, reading, top)
        for signed, top in zip((counts[:half], counts[half:]), tops, strict=True)
    )


def _is_open_ended(sought: Sought) -> bool:
    """Whether owners may lie beyond the last edge: edges end at what is possible, where that is public."""
    if sought.kind in SUMS or sought.kind in IN_ALL:
        return True
    return bool(sought.edges[-1] == (ROW_EDGES if sought.kind in {"rows", "values"} else GROUP_EDGES)[-1])


# ---- the choice --------------------------------------------------------------------------------------------------


def _chosen(plan: SelectPlan, search: Search, readings: Sequence[HistogramReading]) -> Limits:
    of_groups, of_call = _by_purpose(search, readings)
    generic = _generic(search)
    cap = max(choice.contribution.groups for choice in generic)
    if of_groups is not None and not of_groups.found:
        wanted = prior_groups(plan.select, cap)
        generic = [min(generic, key=lambda choice: abs(choice.contribution.groups - wanted))]
        of_groups = None
    targets = [
        _target(plan.select, generic, search, of_call, position, of_groups)
        for position in range(len(plan.select.aggregates))
    ]
    options = [_option(choice, generic[0]) for choice in generic]
    owners = max((reading.total for reading in readings if reading.found), default=PUBLIC_SIZE)
    choice = limit_choice.choose(options, of_groups, targets, owners)
    if any(sought.kind == "all" for sought in search.sought):
        found = all(reading.found for reading in readings)
        rows = int(choice.limits[0]) if found else PRIOR_ROWS_OF_ALL
        return Limits(1, (None,) * len(plan.select.aggregates), rows)
    of_calls = _limits(plan.select, search, of_call, choice)
    return Limits(options[choice.option].groups, of_calls, in_all=positions_in_all(search.sought))


def _by_purpose(
    search: Search, readings: Sequence[HistogramReading]
) -> tuple[HistogramReading | None, dict[int, HistogramReading]]:
    """The reading of groups per owner, and that of every aggregate with its own limit."""
    groups: HistogramReading | None = None
    of_call: dict[int, HistogramReading] = {}
    for (sought, _), reading in zip(_searched(search), readings, strict=True):
        if sought.kind == "groups":
            groups = reading
        of_call |= dict.fromkeys(sought.calls, reading)
    return groups, of_call


def _generic(search: Search) -> list[SelectPlan]:
    """One choice for each κ, with the general stand-ins; the last of the ways in which a κ can be planned is the odd one."""
    found: dict[int, SelectPlan] = {}
    for choice in search.choices:
        found.setdefault(choice.contribution.groups, choice)
    return [found[groups] for groups in sorted(found)]


def _option(choice: SelectPlan, first: SelectPlan) -> limit_choice.GroupOption:
    selection = choice.selection
    if selection is None or first.selection is None:
        grouped = choice.contribution.grouped
        return limit_choice.GroupOption(
            choice.contribution.groups, lambda _: 1.0, PUBLIC_SIZE if grouped else 0.0, listed=grouped
        )
    rule = selection

    def keep(owners: float) -> float:
        return group_selection.keep_probability(rule, max(1, round(owners)))

    return limit_choice.GroupOption(
        choice.contribution.groups, keep, float(group_selection.half_point(first.selection))
    )


def _target(
    select: PrivateSelect,
    choices: Sequence[SelectPlan],
    search: Search,
    of_call: dict[int, HistogramReading],
    position: int,
    of_groups: HistogramReading | None,
) -> limit_choice.Target:
    """An aggregate as the choice sees it: its candidates, and the noise of step two per unit of its limit."""
    aggregate, reading = select.aggregates[position].aggregate, of_call.get(position)
    sought = next((s for s, _ in _searched(search) if position in s.calls), None)
    known = reading if reading is not None and reading.found else None
    sigmas = tuple(_noise_per_unit(choice, position, limited=sought is not None) for choice in choices)
    additive = aggregate.adds_up
    if sought is None or known is None:
        return limit_choice.Target((1.0,), None, sigmas, additive=additive)
    candidates = tuple(float(edge) for edge in sought.edges)
    return limit_choice.Target(
        candidates,
        known,
        sigmas,
        additive=additive,
        distinct=aggregate.counts_values,
        domain=sought.domain if sought.kind == "values" else None,
        row_weight=limit_choice.SHARE_WEIGHT if aggregate.is_share else limit_choice.ROW_WEIGHT,
        groups=_groups_of_owner(sought, choices, of_groups),
        all_groups=sought.kind == "all" or (sought.kind in IN_ALL and of_groups is None),
        feared=FEARED_OF_A_SUM if sought.kind in SUMS and not select.keys else 0.0,
    )


def _groups_of_owner(sought: Sought, choices: Sequence[SelectPlan], of_groups: HistogramReading | None) -> float:
    """Over about how many groups all owners' contributions are spread, if the limit applies to all of them together.

    The keys may have many more values than groups that matter: a few of them hold most of everything, and people look at those.
    """
    if sought.kind != "all" and sought.kind not in IN_ALL:
        return 1.0
    if of_groups is not None:
        return max(1.0, min(of_groups.mean, LARGE_GROUPS))
    possible = sought.domain if sought.kind == "all" else max(choice.contribution.groups for choice in choices)
    return float(min(max(possible or 1, 1), LARGE_GROUPS))


def _noise_per_unit(choice: SelectPlan, position: int, *, limited: bool) -> float:
    """The standard deviation of the column's first number, for a limit of one."""
    column = choice.columns[position]
    if not column.releases:
        return 1.0
    release = choice.releases[column.releases[0]]
    if isinstance(release.noise, QuantileChoice):
        spread = rank_spread(release.noise, release.measure.leaf_count)
    elif isinstance(release.noise, LaplaceNoise | GaussianNoise):
        spread = noise_standard_deviation(release.noise) * float(release.noise.grid) if release.noise.shift.l1 else 0.0
        spread *= math.sqrt(release.measure.levels)
    else:
        return 1.0
    if limited:
        return spread / float(STAND_IN)
    reach = release.noise.shift.per_coordinate * float(release.noise.grid)
    return spread / reach if reach else 0.0


def _limits(
    select: PrivateSelect, search: Search, of_call: dict[int, HistogramReading], choice: Choice
) -> tuple[Fraction | None, ...]:
    """The limits of all aggregates; if one sum has none, all sums look for their bounds in step two."""
    kinds = {position: sought.kind for sought, _ in _searched(search) for position in sought.calls}
    found: list[Fraction | None] = [None] * len(select.aggregates)
    for position, kind in kinds.items():
        found[position] = (
            Fraction(choice.limits[position])
            if of_call[position].found
            else prior_of(kind, select.aggregates[position], grouped=bool(select.keys))
        )
    sums = [position for position, kind in kinds.items() if kind in SUMS and select.aggregates[position].bounds is None]
    if any(found[position] is None for position in sums):
        for position in sums:
            found[position] = None
    return tuple(_no_more_than_all(select, kinds, found))


def _no_more_than_all(
    select: PrivateSelect, kinds: dict[int, str], found: Sequence[Fraction | None]
) -> list[Fraction | None]:
    """Some of an owner's rows are never more than all of them: the limit that COUNT(*) found is enough for COUNT(x)."""
    of_all = {kind: found[position] for position, kind in kinds.items() if is_count_of_all(select, position)}

    def least(position: int, limit: Fraction | None) -> Fraction | None:
        most = of_all.get(kinds.get(position, "")) if select.aggregates[position].aggregate.counts_rows else None
        return limit if limit is None or most is None else min(limit, most)

    return [least(position, limit) for position, limit in enumerate(found)]


# ---- what is kept, and the plan ----------------------------------------------------------------------------------


def _kept(search: Search, readings: Sequence[HistogramReading], limits: Limits, position: int) -> Kept | None:
    """The share that κ and the aggregate's own limit keep; about half if there are too few owners to tell."""
    share, pessimistic, heaviness = 1.0, 1.0, 0.0
    seen, binds, measured = False, False, True
    against: Against | None = None
    for (sought, histogram), reading in zip(_searched(search), readings, strict=True):
        limit = Fraction(limits.groups) if sought.kind == "groups" else limits.of_call[position]
        if sought.kind == "all" and limits.rows is not None:
            limit = Fraction(limits.rows)
        if (sought.kind != "groups" and position not in sought.calls) or limit is None:
            continue
        seen = True
        measured &= reading.found and reading.total * float(histogram.select.options.epsilon) >= FEWEST_TO_BELIEVE
        measured &= sought.kind not in SUMS or reading.chance <= SELDOM_BY_CHANCE
        measured &= sought.kind != "sum in all" or reading.total >= FEWEST_FOR_SUMS_IN_ALL
        of_most = reading
        if reading.sides is not None:
            of_most, against = _signs(reading.sides, float(limit), scale_of(histogram))
        share *= of_most.kept(float(limit), with_tail=True)
        pessimistic *= of_most.kept(float(limit), pessimistic=True)
        heaviness = max(heaviness, reading.heaviness)
        binds |= reading.certain > limit
    if not seen:
        return None
    if not measured:
        return replace(at_most_half(share, min(share, pessimistic)), against=against)
    return Kept(share, min(share, pessimistic), measured=True, binds=binds, heaviness=heaviness, against=against)


def _signs(
    sides: tuple[HistogramReading, HistogramReading], limit: float, scale: float
) -> tuple[HistogramReading, Against | None]:
    """The owners of the sign that has most, and what the others have; nothing where both have about as much.

    If the others do not stand out, assume as many as one scale of the noise hides, as large as the rest.
    """
    below = sides[0].mass >= sides[1].mass
    most, rest = sides if below else sides[::-1]
    mass = rest.mass if rest.found else scale * most.mean
    part = mass / max(mass + most.mass, 1e-300)
    if part > MOST_AGAINST or not most.found:
        return (most if most.found else sides[0]), None
    source = rest if rest.found else most
    share, feared = source.kept(limit, with_tail=True), source.kept(limit, pessimistic=True)
    return most, Against(part, Kept(share, min(share, feared), measured=True, heaviness=source.heaviness), below)


def _planned(plan: SelectPlan, limits: Limits, replan: Callable[[PrivateSelect], SelectPlan]) -> SelectPlan:
    """The plan with these limits if it is one that was charged for; else the choice that is nearest to it."""
    search = plan.search
    if search is None:
        raise InternalError("limits that nobody sought")
    try:
        return verify_found(plan, replan(with_limits(plan.select, limits, search.epsilon)))
    except (ShoalError, InternalError):
        stand_in = _stand_in(plan, limits)
        return next(
            choice for choice in search.choices if choice.select == with_limits(plan.select, stand_in, search.epsilon)
        )


def _stand_in(plan: SelectPlan, limits: Limits) -> Limits:
    if limits.rows is not None:
        return replace(limits, rows=int(STAND_IN))

    sought = () if plan.search is None else plan.search.sought
    in_each = {position for each in sought if each.kind == "rows" for position in each.calls}

    def small(position: int, limit: Fraction | None) -> Fraction | None:
        if limit is None:
            return None
        once = limit == 1 and is_count_of_all(plan.select, position) and position in in_each
        return Fraction(1) if once else STAND_IN

    return replace(limits, of_call=tuple(small(position, limit) for position, limit in enumerate(limits.of_call)))
