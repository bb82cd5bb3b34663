"""Step one of a query that finds its limits: histograms are released, limits chosen, and step two is ready to run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from shoal.accounting.events import LaplaceNoise
from shoal.release.cuts.clamped import beyond_in_words, what_is_beyond, without_outside
from shoal.release.cuts.measured import both, what_is_kept
from shoal.rewrite.limits.choosing import FEWEST_OWNERS, HALF, QUARTER, Found, find, scale_of
from shoal.rewrite.limits.cuts import SAID
from shoal.rewrite.limits.shared import found_total
from shoal.rewrite.pipeline import remembered_plan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from shoal.plan.limits.sought import Search, TotalOf
    from shoal.plan.releases import Column, SelectPlan
    from shoal.release.cuts.clamped import Clamped
    from shoal.release.stored_rows import StoredRows
    from shoal.rewrite.limits.choosing import Kept
    from shoal.sql.grammar.source_text import CallsAsWritten

    Result = tuple[Found | None, tuple[Clamped | None, ...]]

NOBODY_KNOWS = "nobody knows how much more"
THINGS = {
    "groups": "groups per owner",
    "rows": "rows per owner and group",
    "all": "rows per owner",
    "rows in all": "rows per owner",
    "sum in all": "sizes of owners' sums in all groups",
    "values": "values per owner and group",
    "sum": "sizes of owners' sums",
    "cut": "what the given limits leave out",
    "value": "what lies beyond the given bounds",
}


class Searches:
    """What the searches of a statement find, each run once: a total needs those of its groups, which may come after it."""

    def __init__(self, plans: Sequence[SelectPlan], released: Callable[[SelectPlan], StoredRows]) -> None:
        self._plans = plans
        self._released = released
        self._found: dict[int, Result] = {}

    def found(self, number: int) -> tuple[Found | None, tuple[Clamped | None, ...]]:
        """Step two of a SELECT, if it has two, and what bounds clamp."""
        if number not in self._found:
            self._found[number] = self._search(number)
        return self._found[number]

    def _search(self, number: int) -> Result:
        plan = self._plans[number]
        if plan.total_of is not None:
            return self._of_total(plan, plan.total_of), ()
        return found_limits(plan, self._released) if plan.search is not None else (None, ())

    def _of_total(self, plan: SelectPlan, of: TotalOf) -> Found | None:
        """A total has the limits of its groups, and loses what they lose."""
        found, _ = self.found(of.select)
        if found is None:
            return None
        total = _named(found_total(plan, found.plan, remembered_plan), plan)
        return Found(total, found.limits, (found.kept[of.position],), ())


def found_limits(
    plan: SelectPlan, released: Callable[[SelectPlan], StoredRows]
) -> tuple[Found, tuple[Clamped | None, ...]]:
    """Runs the histograms of a plan by `released`: step two under the names of the plan's columns, and what bounds clamp."""
    search = plan.search
    assert search is not None  # noqa: S101 - asked of searches only
    counts = [_counts(histogram, released(histogram)) for histogram in search.histograms]
    found = find(plan, counts, remembered_plan)
    found = replace(found, kept=_with_measured(search, counts, found.kept))
    return replace(found, plan=_named(found.plan, plan)), _beyond(plan, search, counts)


def _named(found: SelectPlan, plan: SelectPlan) -> SelectPlan:
    """The plan that runs, under the names of the one that was explained."""
    columns = tuple(
        replace(column, call=replace(column.call, field=named.call.field))
        for column, named in zip(found.columns, plan.columns, strict=True)
    )
    return replace(found, columns=columns, total_of=plan.total_of)


def _beyond(plan: SelectPlan, search: Search, counts: list[list[float]]) -> tuple[Clamped | None, ...]:
    """For every aggregate with given and measured bounds, what lies beyond them; nothing if too few are seen."""
    found: list[Clamped | None] = [None] * len(plan.columns)
    for sought, histogram, owners in zip(search.sought, search.histograms, counts, strict=True):
        noise = histogram.releases[0].noise
        seen = sum(max(each, 0.0) for each in owners) * float(histogram.select.options.epsilon)
        if sought.kind != "value" or seen < FEWEST_OWNERS or not isinstance(noise, LaplaceNoise):
            continue
        for position in sought.calls:
            call = plan.select.aggregates[position]
            if call.bounds is not None:
                clamped = what_is_beyond(sought.edges, noise, owners, call.bounds)
                found[position] = clamped if call.bounds_source in SAID else without_outside(clamped)
    return tuple(found)


def _with_measured(search: Search, counts: list[list[float]], kept: tuple[Kept | None, ...]) -> tuple[Kept | None, ...]:
    """What is kept of every aggregate, under the given and measured limits."""
    known = list(kept)
    for sought, histogram, owners in zip(search.sought, search.histograms, counts, strict=True):
        if sought.kind == "cut":
            measured = what_is_kept(sought, owners, scale_of(histogram), float(histogram.select.options.epsilon))
            for position in sought.calls:
                known[position] = both(known[position], measured)
    return tuple(known)


def _counts(histogram: SelectPlan, stored: StoredRows) -> list[float]:
    """The noisy owners of every bin, in order."""
    bins = stored.table.column(histogram.select.keys[0][0].symbol).to_pylist()
    owners = stored.table.column(histogram.columns[0].call.field.symbol).to_pylist()
    return [float(number) for _, number in sorted(zip(bins, owners, strict=True))]


def notes_of_limits(
    plan: SelectPlan, found: Found, beyond: Sequence[Clamped | None], written: CallsAsWritten
) -> Iterator[str]:
    """What was found, what it cost, and what it cut."""
    search = plan.search
    if plan.total_of is not None:
        return
    assert search is not None  # noqa: S101 - asked of searches only
    if search.finds:
        what = " and ".join(dict.fromkeys(THINGS[sought.kind] for sought in search.sought if not sought.measures))
        paid = _paid(search, measures=False)
        done = "looked for" if found.missing else "found"
        yield f"Limits on {what} were {done} privately for ε = {paid:.3g}; name them in the query to save it."
    if any(sought.measures for sought in search.sought):
        paid = _paid(search, measures=True)
        what = " and ".join(dict.fromkeys(THINGS[sought.kind] for sought in search.sought if sought.measures))
        yield f"{what[0].upper()}{what[1:]} was measured for ε = {paid:.3g}; measure_cut = 0 saves it."
    if found.missing:
        things = " and ".join(dict.fromkeys(THINGS[kind] for kind in found.missing))
        yield f"Too few owners to find {things}: public guesses are used instead."
    for position, kept in enumerate(found.kept):
        call = found.plan.columns[position].call
        if kept is not None and call.aggregate.loses is not None:
            yield f"{written.at(call.position) or call.aggregate.name}: {in_words(kept, call.aggregate.loses)}."
    yield from _notes_of_bounds(found, search, beyond, written)


def _notes_of_bounds(
    found: Found, search: Search, beyond: Sequence[Clamped | None], written: CallsAsWritten
) -> Iterator[str]:
    """What lies beyond given bounds; or that too few owners are seen to say."""
    measured = sorted({position for sought in search.sought if sought.kind == "value" for position in sought.calls})
    for position in measured:
        call, clamped = found.plan.columns[position].call, beyond[position]
        name = written.at(call.position) or call.aggregate.name
        if call.bounds_source not in SAID:
            continue  # nothing lies beyond the bounds of an expression over constants
        if clamped is None:
            yield f"{name}: too few owners to measure what lies beyond the bounds; its interval takes them for facts."
        else:
            beyond_them = beyond_in_words(clamped)
            yield f"{name}: owners' values beyond the bounds are clamped{beyond_them}."


def _paid(search: Search, *, measures: bool) -> float:
    pairs = zip(search.sought, search.histograms, strict=True)
    return float(sum(found.select.options.epsilon for sought, found in pairs if sought.measures == measures))


def kept_of_guesses(plan: SelectPlan) -> tuple[Kept | None, ...]:
    """Guessed limits are assumed to count about half, never all; of different values a quarter."""
    if not plan.guessed:
        return ()
    return tuple(_guessed(column) if position in plan.guessed else None for position, column in enumerate(plan.columns))


def _guessed(column: Column) -> Kept:
    """Owners' numbers of different values are further apart than those of rows, and no bound is known beyond them."""
    return QUARTER if column.call.aggregate.counts_values else HALF


def notes_of_guesses(plan: SelectPlan) -> tuple[str, ...]:
    """Says that what guesses cut is unknown."""
    kinds = {HALF: "counts and sums", QUARTER: "different values"}
    assumed = {_guessed(plan.columns[position]) for position in plan.guessed}
    return tuple(f"Intervals of {name}: {in_words(kept, '')}." for kept, name in kinds.items() if kept in assumed)


def in_words(kept: Kept, things: str) -> str:
    """How much lies beyond the limits."""
    if not kept.measured:
        counted = "half" if kept.share >= HALF.share else f"{kept.share:.0%}"
        least = f"{kept.share**kept.exponent:.0%}"
        return f"too few owners to measure the cut; the high end assumes that about {counted} was counted, in single groups {least}"
    lost, most = 1 - kept.share, 1 - kept.pessimistic
    if most < 0.005:
        return "next to nothing lies beyond the limits"
    feared = f" (up to {most:.0%})" if most > lost else ""
    verb = "lies" if things == "the sum" else "lie"
    surely = "; the limits certainly bind, so the true number is at least about what is shown" if kept.binds else ""
    heavy = f"; a few owners have much of it, so {NOBODY_KNOWS}" if kept.heaviness >= 1 / 2 else ""
    return f"about {lost:.0%}{feared} of {things} {verb} beyond the limits{heavy}{surely}"
