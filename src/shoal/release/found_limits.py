"""Step one of a query that finds its limits: histograms are released, limits chosen, and step two is ready to run."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from shoal.plan import aggregates
from shoal.rewrite.limits.choosing import HALF, find
from shoal.rewrite.pipeline import remembered_plan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from shoal.plan.releases import SelectPlan
    from shoal.release.stored_rows import StoredRows
    from shoal.rewrite.limits.choosing import Found, Kept
    from shoal.sql.grammar.source_text import CallsAsWritten

THINGS = {
    "groups": "groups per owner",
    "rows": "rows per owner and group",
    "values": "values per owner and group",
    "sum": "sizes of owners' sums",
}


def found_limits(plan: SelectPlan, released: Callable[[SelectPlan], StoredRows]) -> Found:
    """Runs the histograms of a plan by `released`, and gives step two under the names that the plan's columns have."""
    search = plan.search
    assert search is not None  # noqa: S101 - asked of searches only
    counts = [_counts(histogram, released(histogram)) for histogram in search.histograms]
    found = find(plan, counts, partial(remembered_plan, composition=plan.composition))
    columns = tuple(
        replace(column, call=replace(column.call, field=named.call.field))
        for column, named in zip(found.plan.columns, plan.columns, strict=True)
    )
    return replace(found, plan=replace(found.plan, columns=columns))


def _counts(histogram: SelectPlan, stored: StoredRows) -> list[float]:
    """The noisy owners of every bin, in order."""
    bins = stored.table.column(histogram.select.keys[0][0].symbol).to_pylist()
    owners = stored.table.column(histogram.columns[0].call.field.symbol).to_pylist()
    return [float(number) for _, number in sorted(zip(bins, owners, strict=True))]


def notes_of_limits(plan: SelectPlan, found: Found, written: CallsAsWritten) -> Iterator[str]:
    """What was found, what it cost, and what it cut."""
    search = plan.search
    assert search is not None  # noqa: S101 - asked of searches only
    paid = float(sum(histogram.select.options.epsilon for histogram in search.histograms))
    what = " and ".join(dict.fromkeys(THINGS[sought.kind] for sought in search.sought))
    yield f"Limits on {what} were found privately for ε = {paid:.3g}; name them in the query to save it."
    if found.missing:
        things = " and ".join(dict.fromkeys(THINGS[kind] for kind in found.missing))
        yield f"Too few owners to find {things}: public guesses stand in."
    for place, kept in enumerate(found.kept):
        call = found.plan.columns[place].call
        if kept is not None and isinstance(
            call.aggregate, aggregates.CountRows | aggregates.CountOwners | aggregates.Sum | aggregates.CountDistinct
        ):
            yield f"{written.at(call.position) or call.aggregate.name}: {in_words(kept)}."


def kept_of_guesses(plan: SelectPlan) -> tuple[Kept | None, ...]:
    """Of limits that were guessed about half is assumed to be counted, never all."""
    if not plan.guessed:
        return ()
    return tuple(HALF if place in plan.guessed else None for place in range(len(plan.columns)))


def notes_of_guesses(plan: SelectPlan) -> tuple[str, ...]:
    """That nobody knows what guesses cut."""
    return (f"Intervals of counts and sums: {in_words(HALF)}.",) if plan.guessed else ()


def in_words(kept: Kept) -> str:
    """How much lies beyond the limits."""
    if not kept.measured:
        return "too few owners to measure the cut; the high end assumes that about half was counted"
    lost, most = 1 - kept.share, 1 - kept.pessimistic
    if most < 0.005:
        return "next to nothing lies beyond the limits"
    return f"about {lost:.0%} (up to {most:.0%}) lies beyond the limits"
