"""A count of some rows divided by the count of all of them is an average over rows: of 1 for those, and of 0 for the others.

As two counts, part and whole have limits and noise of their own, and the quotient has the errors of both. As an average, the
same rows of each owner count above and below the line: the part is never more than the whole, and the share at most 1.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from shoal.frozen import dataclass
from shoal.plan.aggregates import RowAverage
from shoal.plan.expressions import Call, Cast, Column, Literal, transform, walk
from shoal.plan.types import INTEGER, Kind
from shoal.sql import functions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from shoal.plan.expressions import Expression
    from shoal.plan.releases import AggregateCall

FLOATS = frozenset({Kind.DOUBLE, Kind.DECIMAL})


@dataclass(frozen=True, slots=True)
class Share:
    """A quotient of counts: what the part is multiplied by, and the symbols of part and whole."""

    quotient: Call
    factors: tuple[Expression, ...]
    part: str
    whole: str


def shares_of(
    outputs: Sequence[Expression], calls: Mapping[str, AggregateCall], *, alone: bool = False
) -> tuple[Share, ...]:
    """The quotients whose parts stand nowhere else: where a part is shown by itself, the numbers of an answer fit each other.

    `alone`: nor do their wholes. A count of rows selects groups for nothing, best beside another count.
    """
    parts = [part for output in outputs for part in walk(output)]
    found = {part: share for part in parts if isinstance(part, Call) and (share := _share(part, calls)) is not None}
    uses = Counter(part.symbol for part in parts if isinstance(part, Column))
    quotients = [found[part] for part in parts if isinstance(part, Call) and part in found]
    inside = Counter(symbol for share in quotients for symbol in (share.part, share.whole))

    def stands(share: Share) -> bool:
        return all(uses[each] == inside[each] for each in ((share.part, share.whole) if alone else (share.part,)))

    return tuple(share for share in found.values() if stands(share))


def _share(quotient: Call, calls: Mapping[str, AggregateCall]) -> Share | None:
    if quotient.function != "divide" or quotient.type.kind not in FLOATS:
        return None
    factors, part = without_factors(quotient.arguments[0])
    others, whole = without_factors(quotient.arguments[1], nullif=True)
    if not isinstance(part, Column) or not isinstance(whole, Column) or others:
        return None
    counted, of_all = calls.get(part.symbol), calls.get(whole.symbol)
    if counted is None or of_all is None or not (_is_open_count(counted) and _is_open_count(of_all)):
        return None
    if counted.aggregate.argument is None or of_all.aggregate.argument is not None:
        return None
    return Share(quotient, factors, part.symbol, whole.symbol)


def _is_open_count(call: AggregateCall) -> bool:
    """A count of rows about whose limits, ε and report the query says nothing."""
    said = call.epsilon is not None or call.report is not None or call.bounds_source == "query"
    return call.aggregate.counts_rows and call.aggregate.sought_limit(call) == "rows" and not said


def without_factors(expression: Expression, *, nullif: bool = False) -> tuple[tuple[Expression, ...], Expression]:
    """A product as its constants and the rest; what only changes the type is left out."""
    match expression:
        case Cast() if (
            expression.type.kind in FLOATS or expression.value.type.kind is Kind.INTEGER is expression.type.kind
        ):
            return without_factors(expression.value, nullif=nullif)
        case Call(function="nullif", arguments=(first, *_)) if nullif:
            return without_factors(first, nullif=True)
        case Call(function="multiply", arguments=(first, second)):
            for constant, rest in ((first, second), (second, first)):
                if _is_constant(constant):
                    factors, inner = without_factors(rest, nullif=nullif)
                    return (constant, *factors), inner
    return (), expression


def _is_constant(expression: Expression) -> bool:
    return all(isinstance(part, Literal | Cast) for part in walk(expression))


def averaged(share: Share, call: AggregateCall) -> RowAverage:
    """The average that a share is."""
    argument, position = call.aggregate.argument, share.quotient.position
    assert argument is not None  # noqa: S101 - shares are of counts of something
    absent = functions.resolve("is_null", [argument], position)
    value = functions.case([(absent, Literal(0, INTEGER))], Literal(1, INTEGER), position)
    return RowAverage(value, 1, is_share=True)


def times_factors(share: Share, average: Expression) -> Expression:
    """The average, multiplied by what the part was multiplied by; of the quotient's type."""
    for factor in share.factors:
        average = functions.resolve("multiply", [factor, average], share.quotient.position)
    same = average.type.plain() == share.quotient.type.plain()
    return average if same else functions.resolve_cast(average, share.quotient.type.plain(), share.quotient.position)


def with_averages(expression: Expression, averages: Mapping[Expression, Expression]) -> Expression:
    """The expression with averages for its quotients."""
    return transform(expression, lambda part: averages.get(part, part) if isinstance(part, Call) else part)
