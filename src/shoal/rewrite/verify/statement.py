"""`verify`: the last step of planning. It trusts nothing in a finished plan that can be derived again from the plan's own data.

Derived here: the owner of every row, what every relation may read, how far one owner moves every release, that unknown groups
are selected and how, what is drawn, what it costs, and what will be charged. Trusted: the SELECT as requested, the catalog, and
the accountants. Nothing is shared with the passes that made the plan (a test checks the imports).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from shoal.errors import InternalError
from shoal.plan.expressions import WindowCall
from shoal.plan.nodes import StoredRows
from shoal.rewrite.verify.asked import check_asked
from shoal.rewrite.verify.charges import check_events, check_noises, loss_of, total_of
from shoal.rewrite.verify.ownership import Ownership, shows_owner
from shoal.rewrite.verify.requirement import require
from shoal.rewrite.verify.searches import check_search, loss_of_search
from shoal.rewrite.verify.trees import (
    check_names,
    check_symbols,
    parts_below,
    relations_in,
    symbols_of,
    values_below,
    values_in,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shoal.catalog import Catalog
    from shoal.plan.expressions import Expression
    from shoal.plan.releases import PrivateSelect, SelectPlan, StatementPlan
    from shoal.rewrite.verify.trees import Part


def verify(plan: StatementPlan, catalog: Catalog) -> StatementPlan:
    """The plan, if everything that privacy depends on is derived again; otherwise an internal error, before anything is read."""
    try:
        return _verified(plan, catalog)
    except (AttributeError, TypeError, LookupError, ValueError, AssertionError) as error:
        raise InternalError("a plan with a part that is none") from error


def _verified(plan: StatementPlan, catalog: Catalog) -> StatementPlan:
    require(plan.catalog_version == catalog.version, "a plan for another catalog")
    steps = [(number, step) for number, select in enumerate(plan.selects) for step in _steps_of(select)]
    read = [values_below(_values_read(step.select)) for _, step in steps]
    parts: dict[int, Part] = {}
    for (number, step), values in zip(steps, read, strict=True):
        below = _parts_of(step.select, values)
        _check_offers(below, plan.selects[:number])
        parts |= {id(part.node): part for part in below}
    root = list(parts_below(plan.root))
    _check_offers(root, plan.selects)
    parts |= {id(part.node): part for part in root}
    ownership = Ownership(catalog, parts)
    ownership.check_public([plan.root])
    for (_, step), values in zip(steps, read, strict=True):
        keys = [field.symbol for field, _ in step.select.keys]
        require(len(keys) == len(set(keys)), "a key that stands twice")
        _check_rows(step.select, values, ownership)
        if step.search is not None:
            check_search(step)
            continue
        require(not step.select.options.find_limits, "limits that were to be found are not sought")
        require(not step.select.options.measure_cut, "what limits cut was to be measured, and is not")
        check_asked(step)
        check_noises(step)
        check_events(step)
    for number, select in enumerate(plan.selects):
        _check_total(number, select, plan.selects)
    epsilon, delta, loss = total_of(
        [(select, loss_of(select) if select.search is None else loss_of_search(select)) for select in plan.selects]
    )
    require((plan.epsilon, plan.delta) == (epsilon, delta), "what will be charged is not what was asked")
    require(plan.loss == loss, "what will be charged is not what the releases cost")
    return plan


def _check_total(number: int, total: SelectPlan, selects: tuple[SelectPlan, ...]) -> None:
    """A total has the limits of a SELECT with groups, which is searched first: it may not read what the total releases."""
    if total.total_of is None:
        return
    other, position = total.total_of.select, total.total_of.position
    require(other != number and 0 <= other < len(selects), "a total of groups that are not there")
    groups = selects[other]
    require(bool(groups.select.keys) and groups.total_of is None, "a total of what has no groups")
    require(0 <= position < len(groups.columns), "a total of nothing")
    read = _parts_of(groups.select, values_below(_values_read(groups.select)))
    released = (part.node.select for part in read if isinstance(part.node, StoredRows))
    require(number not in released, "groups that wait for their total")
    if total.search is not None and groups.search is not None and total.total_of.in_pieces:
        found = {choice.contribution.groups for choice in groups.search.choices}
        planned = Counter(choice.contribution.max_rows for choice in total.search.choices)
        same = found == set(planned) and len(set(planned.values())) == 1
        require(same, "limits that groups may have, and their total has no plan for")


def _steps_of(select: SelectPlan) -> tuple[SelectPlan, ...]:
    """A SELECT, and the histograms that it begins with; what step two may be reads the same rows as the SELECT itself."""
    return (select, *(select.search.histograms if select.search is not None else ()))


def _values_read(select: PrivateSelect) -> list[Expression]:
    """The keys of a private SELECT, and what its aggregates are taken of."""
    arguments = [value for call in select.aggregates for value in values_in(call.aggregate)]
    return [*(value for _, value in select.keys), *arguments]


def _parts_of(select: PrivateSelect, values: list[Expression]) -> list[Part]:
    """All relations that a private SELECT reads."""
    listed = [] if select.public_groups is None else [select.public_groups]
    parts = [part for tree in (select.input, *listed) for part in parts_below(tree)]
    in_sight = symbols_of([select.input])
    return [*parts, *(part for tree in relations_in(values) for part in parts_below(tree, in_sight))]


def _check_offers(parts: Iterable[Part], earlier: tuple[SelectPlan, ...]) -> None:
    """Nothing is read that is not offered; released rows are those of a SELECT that has run, its keys and noisy aggregates."""
    for part in parts:
        check_symbols(part)
        check_names(part.values, part.in_sight)
    for node in (part.node for part in parts if isinstance(part.node, StoredRows)):
        require(0 <= node.select < len(earlier), "rows that are not released yet")
        select = earlier[node.select].select
        keys, aggregates = (field for field, _ in select.keys), (call.field for call in select.aggregates)
        offered = {(field.symbol, field.type) for field in (*keys, *aggregates)}
        require({(f.symbol, f.type) for f in node.fields} <= offered, "a column that no release offers")


def _check_rows(select: PrivateSelect, values: list[Expression], ownership: Ownership) -> None:
    """Rows with owners, read by keys and arguments that look at one row at a time."""
    owned = ownership.of(select.input)
    require(owned is not None, "a private SELECT over rows that belong to nobody")
    assert owned is not None  # noqa: S101 - just required
    ownership.check_public(relations_in(values))
    if select.public_groups is not None:
        ownership.check_public([select.public_groups])
    check_names(values, symbols_of([select.input]))
    require(not any(isinstance(value, WindowCall) for value in values), "a key or an argument that looks at other rows")
    require(not any(shows_owner(value, owned) for _, value in select.keys), "a group for every owner")
