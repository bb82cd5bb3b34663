"""Window functions over one owner's rows: the binder ensures PARTITION BY the owner and a total order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.errors import ShoalError
from shoal.frozen import dataclass
from shoal.plan.types import DOUBLE, INTEGER, Kind
from shoal.sql.functions import aggregates, forms
from shoal.sql.functions.aggregate_names import AGGREGATE_NAMES
from shoal.sql.functions.coerce import coerced, constant, named, unsupported

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlglot import exp

    from shoal.plan.expressions import Expression, Position
    from shoal.plan.types import Type
    from shoal.sql.functions.aggregates import Placed

FARTHEST = 1_000_000
"""The largest offset of LAG and LEAD, and the most parts of NTILE."""


@dataclass(frozen=True, slots=True)
class WindowFunction:
    """A function of a row's place among its owner's rows; all of them need ORDER BY."""

    name: str
    usage: str
    meaning: str
    values: int = 0  # how many leading arguments are values of rows
    constants: int = 0  # how many constant integers may follow
    least: int = 0
    gives: Type | None = INTEGER  # None: the type of the value


_ALL = (
    WindowFunction("row_number", "ROW_NUMBER()", "1, 2, 3, … in order."),
    WindowFunction("rank", "RANK()", "The place, ties share one and leave a gap."),
    WindowFunction("dense_rank", "DENSE_RANK()", "The place, ties share one and leave no gap."),
    WindowFunction("percent_rank", "PERCENT_RANK()", "(rank - 1) / (rows - 1).", gives=DOUBLE),
    WindowFunction("cume_dist", "CUME_DIST()", "The share of rows up to this one.", gives=DOUBLE),
    WindowFunction("ntile", "NTILE(n)", "Which of n nearly equal parts.", constants=1, least=1),
    WindowFunction("lag", "LAG(x [, n [, default]])", "x, n rows before.", 1, 1, 1, None),
    WindowFunction("lead", "LEAD(x [, n [, default]])", "x, n rows after.", 1, 1, 1, None),
    WindowFunction("first_value", "FIRST_VALUE(x)", "x in the first row of the frame.", 1, 0, 1, None),
    WindowFunction("last_value", "LAST_VALUE(x)", "x in the last row of the frame.", 1, 0, 1, None),
    WindowFunction("nth_value", "NTH_VALUE(x, n)", "x in the n-th row of the frame.", 1, 1, 2, None),
)
WINDOW_FUNCTIONS = {function.name: function for function in _ALL}


def needs_order(name: str) -> bool:
    """Whether the window must have an ORDER BY; aggregates over a whole partition need none."""
    return name.lower() in WINDOW_FUNCTIONS


def window_result(
    name: str, arguments: Sequence[Expression], position: Position
) -> tuple[str, tuple[Expression, ...], Type]:
    """The function's own name, its converted arguments, and its result type."""
    function = WINDOW_FUNCTIONS.get(name.lower())
    if function is None:
        return _aggregate_result(name, arguments, position)
    value = arguments[0].type if function.values and arguments else INTEGER
    default = _default_of(function, arguments, value)
    counted = arguments[: function.values + function.constants]
    if (
        len(arguments) < function.least
        or len(arguments) > len(counted) + (default is not None)
        or value.kind in {Kind.UNSUPPORTED, Kind.INTERVAL}
        or not all(_is_count(a, zero=function.name in {"lag", "lead"}) for a in counted[function.values :])
    ):
        found = ", ".join(named(a.type) for a in arguments) or "nothing"
        raise unsupported(f"{function.usage} does not take ({found}).", position, hint=_constants_hint(function))
    extra = () if default is None else (default,)
    return function.name, (*counted, *extra), function.gives or value.plain()


def _aggregate_result(
    name: str, arguments: Sequence[Expression], position: Position
) -> tuple[str, tuple[Expression, ...], Type]:
    lowered = name.lower()
    if lowered not in AGGREGATE_NAMES:
        raise ShoalError(
            "E_FUNCTION_NOT_ALLOWED",
            f"{name.upper()} is not a window function.",
            hint=f"Window functions are {', '.join(sorted(WINDOW_FUNCTIONS)).upper()} and aggregates.",
            position=position,
        )
    known, result = aggregates.owner_aggregate(lowered, [a.type for a in arguments], position)
    return known, tuple(arguments), result


def _default_of(function: WindowFunction, arguments: Sequence[Expression], value: Type) -> Expression | None:
    """The third argument of LAG and LEAD, as a value of the first one's type."""
    if function.name not in {"lag", "lead"} or len(arguments) != 3:
        return None
    return coerced(arguments[2], value)


def _is_count(argument: Expression, *, zero: bool) -> bool:
    value = constant(argument)
    return argument.type.kind is Kind.INTEGER and value is not None and (0 if zero else 1) <= value <= FARTHEST


def _constants_hint(function: WindowFunction) -> str:
    return f"{function.meaning} Counts are constant integers up to {FARTHEST:,}."


def window_form(name: str, arguments: list[exp.Expr], types: Sequence[Type], over: Placed) -> exp.Expr:
    """A window function or an owner aggregate as a window; `over` adds the OVER clause to an engine call."""
    if name not in WINDOW_FUNCTIONS:
        return aggregates.owner_aggregate_form(name, arguments, types, over=over)
    if name in {"lag", "lead"} and types[0].kind is Kind.INTEGER:
        # The engine casts the default to the value's type, which is narrow if the value is a small constant.
        arguments = [forms.cast(a, "BIGINT") if i != 1 else a for i, a in enumerate(arguments)]
    return over(forms.builtin(name, *arguments))
