"""How much work one private row may cause: bounded by public facts alone, before any data is read.

If a join multiplies rows without bound, a query that ends in a second or never ends reveals whether the victim's row is there.
So for every relation of a plan, including those inside conditions, this pass bounds the rows that one combination of private
rows can become, the pairs examined to find them, and the bytes of strings computed from them (`checks/extents`). Sizes, repeats
and strings of public tables are known (`PublicFacts`).

How many rows an earlier SELECT will have released is not known, unless its groups are public. So a size is assumed, the largest for
which the query is still cheap, and held where the rows are read (`most_rows` and `longest_text` of stored rows): a query
that has released more ends there. What was released decides about that, and nothing else does.

The time for the expressions of all these rows is bounded too (`checks/row_work`), including those of public relations: an
engine may skip those when no private row needs them.

The length of a stored string is known only from its row. So strings are read up to a length that keeps the bytes within the same
bound: the more rows a private row may become, the shorter (`longest_text` of scans); longer ones count as missing.

An owner has more than one row, and private tables multiply each other too, by private numbers. The cost allowed per row determines
how many rows an owner may have (`owner_share` of scans); the engine leaves out owners who have more
(`engines/statements/crowded_owners`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from shoal.errors import ShoalError
from shoal.params import many
from shoal.plan import nodes
from shoal.plan.aggregates.quantiles import MOST_QUANTILES
from shoal.plan.traverse import all_nodes, rebuilt, relations_in, with_relations
from shoal.rewrite.check_windows import read_values
from shoal.rewrite.checks.extents import MOST_STORED_ROWS, Assumed, Extents, Released, TooMuchError
from shoal.rewrite.checks.row_work import STORED_TEXT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from shoal.plan.nodes import Node, OwnerShare
    from shoal.plan.public_facts import PublicFacts
    from shoal.plan.releases import AggregateCall, PrivateSelect

WORTH_A_NOTE = 10_000
"""An owner seldom has this many rows."""
LONG_KEY = 4096
ASSUMED = (
    Assumed(MOST_STORED_ROWS, LONG_KEY),
    Assumed(10_000, LONG_KEY),
    Assumed(10_000, STORED_TEXT),
    Assumed(1_000, LONG_KEY),
    Assumed(1_000, STORED_TEXT),
)
"""What may be assumed of released rows, from much to little; the last one has to do."""


def check_fanout(selects: Sequence[PrivateSelect], facts: PublicFacts) -> list[PrivateSelect]:
    """The SELECTs, with scans that say how long a string may be.

    Refuses a statement in which one private row could become too many rows, pairs or bytes.
    """
    released: list[Released] = []
    checked = []
    for select in selects:  # each reads only released rows of those before it
        found, extents = _checked(select, facts, released, len(selects))
        checked.append(found)
        released.append(extents.released(select))
        _check_quantiles(select, released[-1].rows)
    return checked


def _check_quantiles(select: PrivateSelect, groups: int | None) -> None:
    """How many quantiles listed groups have; of groups that are not listed it is known when they were released."""
    asked = sum(len(call.aggregate.ranks) for call in select.aggregates)
    if (groups or 0) * asked > MOST_QUANTILES:
        raise ShoalError(
            "E_LIMITS",
            f"{many(groups or 0, 'listed group')} with {many(asked, 'quantile')} each are more than {MOST_QUANTILES:,} quantiles.",
            hint="Ask for fewer quantiles, or for fewer groups at once.",
            position=select.position,
        )


def _checked(
    select: PrivateSelect, facts: PublicFacts, released: Sequence[Released], selects: int
) -> tuple[PrivateSelect, Extents]:
    try:
        assumed, extents = _affordable(select, facts, released, selects)
        share = extents.owner_share(select, selects)
    except TooMuchError as found:
        raise ShoalError(
            "E_LIMITS",
            f"Joining public tables would multiply every private row into too many {found.what}.",
            hint="Join on a column whose values are unique in the public table, or reduce that table in a subquery first.",
            position=select.position,
        ) from None
    notes = (*select.notes, *_notes_of(share))
    stored = [_limits_of(each, assumed) for each in released]
    return replace(_with_limits(select, extents.longest_text, share, stored), notes=notes), extents


def _limits_of(released: Released, assumed: Assumed) -> Assumed:
    """What is known of released rows where it is, else what is assumed."""
    rows = assumed.rows if released.rows is None else released.rows
    return Assumed(rows, max(assumed.text, *released.keys.values(), 0))


def _affordable(
    select: PrivateSelect, facts: PublicFacts, released: Sequence[Released], selects: int
) -> tuple[Assumed, Extents]:
    """The most that can be assumed of released rows so that owners keep a share nobody notices, and what the query costs then."""
    roots = [select.input, *(relation for value in read_values(select) for relation in relations_in(value))]
    reads_released = any(isinstance(part, nodes.StoredRows) for root in roots for part in all_nodes(root))
    *others, last = ASSUMED
    for assumed in others if reads_released else ():
        try:
            extents = _extents(select, facts, released, assumed, selects)
        except TooMuchError:
            continue
        if extents.owner_share(select, selects).rows >= WORTH_A_NOTE:
            return assumed, extents
    return last, _extents(select, facts, released, last, selects)


def _extents(
    select: PrivateSelect, facts: PublicFacts, released: Sequence[Released], assumed: Assumed, selects: int
) -> Extents:
    """What a SELECT costs, with public strings as long as they are read; how long that is depends on the rows alone."""
    rows_alone = Extents(facts, released, assumed)
    rows_alone.check_keys(select)
    extents = Extents(facts, released, assumed, rows_alone.longest_text)
    extents.check_keys(select)
    extents.check_time(select, selects)
    return extents


def _notes_of(share: OwnerShare) -> Iterator[str]:
    if share.rows < WORTH_A_NOTE:
        yield (
            f"Owners with more than {many(share.rows, 'row')} are left out: each of their rows joins too many public ones or takes "
            "too long, so they could keep the query busy."
        )


def _with_limits(select: PrivateSelect, longest: int, share: OwnerShare, stored: Sequence[Assumed]) -> PrivateSelect:
    """The SELECT with strings of at most this many bytes, limits on released rows, and only owners who have at most their share."""
    known: dict[int, Node] = {}

    def change(part: Node) -> Node:
        if id(part) not in known:  # what several parts share stays one
            known[id(part)] = limited(part)
        return known[id(part)]

    def limited(part: Node) -> Node:
        match part:
            case nodes.Scan():
                return replace(part, longest_text=longest, owner_share=share)
            case nodes.StoredRows():
                most = stored[part.select]
                return replace(part, most_rows=most.rows, longest_text=most.text)
            case _:
                return rebuilt(part, change)

    return replace(
        select,
        input=change(select.input),
        keys=tuple((f, with_relations(value, change)) for f, value in select.keys),
        aggregates=tuple(_with_argument(call, change) for call in select.aggregates),
    )


def _with_argument(call: AggregateCall, change: Callable[[Node], Node]) -> AggregateCall:
    aggregate: Any = call.aggregate
    argument = getattr(aggregate, "argument", None)
    if argument is None or not relations_in(argument):
        return call
    return replace(call, aggregate=replace(aggregate, argument=with_relations(argument, change)))
