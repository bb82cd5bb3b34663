"""Aggregates of one owner's rows: exact and independent of the order of rows.

Used where rows are grouped by the owner, and as windows partitioned by the owner. Reals are put on a fixed grid of
2⁻³⁰ row by row, saturated at ±2⁹⁰ steps, and summed in 128-bit integers; the sum of any number of rows below 2³⁶
fits. The result is brought back to a double by one fixed computation, so it is a function of the multiset of values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from shoal.errors import ShoalError
from shoal.frozen import dataclass
from shoal.plan.measures import SATURATION_BITS
from shoal.plan.types import BOOLEAN, DOUBLE, INTEGER, Kind, Type
from shoal.sql.functions import forms
from shoal.sql.functions.coerce import named, unsupported
from shoal.sql.functions.forms import builtin, let, number, try_cast, when

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from shoal.plan.expressions import Position

    Placed = Callable[[exp.Expr], exp.Expr]

GRID_BITS = 30


@dataclass(frozen=True, slots=True)
class OwnerAggregate:
    """An aggregate over one owner's rows; its form passes each engine aggregate in it through `placed`."""

    name: str
    usage: str
    meaning: str
    result: Callable[[Sequence[Type]], Type | None]
    form: Callable[[list[exp.Expr], Sequence[Type], Placed, bool], exp.Expr]


def _aggregate(name: str, *arguments: exp.Expr, distinct: bool) -> exp.Expr:
    return builtin(name, exp.Distinct(expressions=list(arguments))) if distinct else builtin(name, *arguments)


def grid_steps(value: exp.Expr) -> exp.Expr:
    """A double as a whole number of grid steps: ⌊v·2³⁰ + ½⌋, saturated at ±2⁹⁰, as a HUGEINT."""
    limit = float(1 << SATURATION_BITS)
    scaled = builtin("floor", builtin("+", builtin("*", value, number(float(1 << GRID_BITS))), number(0.5)))

    def saturated(v: exp.Expr) -> exp.Expr:
        top, bottom = (forms.huge(forms.text(str(sign * (1 << SATURATION_BITS)))) for sign in (1, -1))
        above = exp.If(this=forms.compare(exp.GTE, v, number(limit)), true=top)
        below = exp.If(this=forms.compare(exp.LTE, v.copy(), number(-limit)), true=bottom)
        return exp.Case(ifs=[above, below], default=try_cast(v.copy(), "HUGEINT"))

    return let(scaled, saturated)


def _steps(value: exp.Expr, type_: Type) -> exp.Expr:
    """The summand: integers as they are, reals as grid steps."""
    if type_.kind is Kind.DOUBLE:
        return grid_steps(value)
    if type_.kind is Kind.DECIMAL:
        return grid_steps(forms.cast(value, "DOUBLE"))
    return forms.cast(value, "BIGINT")


def _unit(type_: Type) -> float:
    return 1.0 if type_.kind in {Kind.INTEGER, Kind.BOOLEAN, Kind.NULL} else 1.0 / (1 << GRID_BITS)


def _sum(arguments: list[exp.Expr], types: Sequence[Type], placed: Placed, distinct: bool) -> exp.Expr:
    total = placed(_aggregate("sum", _steps(arguments[0], types[0]), distinct=distinct))
    if _unit(types[0]) == 1.0:
        return try_cast(total, "BIGINT")
    return builtin("*", forms.cast(total, "DOUBLE"), number(_unit(types[0])))


def _mean(arguments: list[exp.Expr], types: Sequence[Type], placed: Placed, distinct: bool) -> exp.Expr:
    steps = _steps(arguments[0], types[0])
    total = forms.cast(placed(_aggregate("sum", steps, distinct=distinct)), "DOUBLE")
    counted = steps.copy() if distinct else arguments[0].copy()
    count = forms.cast(placed(_aggregate("count", counted, distinct=distinct)), "DOUBLE")
    quotient = builtin("/", total, forms.not_zero(count))
    return forms.positive_zero(builtin("*", quotient, number(_unit(types[0]))))


def _plain(name: str) -> Callable[..., exp.Expr]:
    def form(arguments: list[exp.Expr], _: Sequence[Type], placed: Placed, distinct: bool) -> exp.Expr:
        return placed(_aggregate(name, *arguments, distinct=distinct))

    return form


def _count(arguments: list[exp.Expr], _: Sequence[Type], placed: Placed, distinct: bool) -> exp.Expr:
    return placed(_aggregate("count", *arguments, distinct=distinct) if arguments else builtin("count_star"))


def _condition(value: exp.Expr, type_: Type) -> exp.Expr:
    """An expression with only NULL's type gets one here; the engine would assume an integer."""
    return forms.cast(exp.Null(), "BOOLEAN") if type_.kind is Kind.NULL else value


def _count_if(arguments: list[exp.Expr], types: Sequence[Type], placed: Placed, distinct: bool) -> exp.Expr:
    condition = _condition(arguments[0], types[0])
    return placed(_aggregate("count", when(condition, number(1)), distinct=distinct))


def _of_truths(name: str) -> Callable[..., exp.Expr]:
    def form(arguments: list[exp.Expr], types: Sequence[Type], placed: Placed, distinct: bool) -> exp.Expr:
        return placed(_aggregate(name, _condition(arguments[0], types[0]), distinct=distinct))

    return form


def _median(arguments: list[exp.Expr], _: Sequence[Type], placed: Placed, distinct: bool) -> exp.Expr:
    doubled = forms.cast(arguments[0], "DOUBLE")
    return forms.canonical_double(placed(_aggregate("median", doubled, distinct=distinct)))


def _spread(name: str) -> Callable[..., exp.Expr]:
    """Variances and deviations add up squares one by one: over the sorted list of values, held within ±2⁶⁰."""

    def form(arguments: list[exp.Expr], _: Sequence[Type], placed: Placed, distinct: bool) -> exp.Expr:
        held = _held(forms.cast(arguments[0], "DOUBLE"))
        ordered = builtin("list_sort", placed(_aggregate("list", held, distinct=distinct)))
        return forms.canonical_double(builtin("list_aggregate", ordered, forms.text(name)))

    return form


def _held(value: exp.Expr) -> exp.Expr:
    limit = float(1 << (SATURATION_BITS - GRID_BITS))

    def inside(v: exp.Expr) -> exp.Expr:
        above = exp.If(this=forms.compare(exp.GT, v, number(limit)), true=number(limit))
        below = exp.If(this=forms.compare(exp.LT, v.copy(), number(-limit)), true=number(-limit))
        return exp.Case(ifs=[above, below], default=v.copy())

    return let(value, inside)


def _numeric(gives: Callable[[Type], Type]) -> Callable[[Sequence[Type]], Type | None]:
    return lambda types: gives(types[0]) if len(types) == 1 and types[0].is_numeric else None


def _of_sum(type_: Type) -> Type:
    return INTEGER if type_.kind in {Kind.INTEGER, Kind.NULL} else DOUBLE


def _same_type(types: Sequence[Type]) -> Type | None:
    refused = {Kind.UNSUPPORTED, Kind.INTERVAL}
    return types[0].plain() if len(types) == 1 and types[0].kind not in refused else None


def _of_count(types: Sequence[Type]) -> Type | None:
    return INTEGER if not types or _same_type(types) is not None else None


def _of_condition(gives: Type) -> Callable[[Sequence[Type]], Type | None]:
    return lambda types: gives if [t.kind for t in types] in ([Kind.BOOLEAN], [Kind.NULL]) else None


def _integer_only(types: Sequence[Type]) -> Type | None:
    return INTEGER if [t.kind for t in types] == [Kind.INTEGER] else None


_PLAIN = (
    OwnerAggregate("count", "COUNT(*) or COUNT(x)", "Rows, or rows with a value.", _of_count, _count),
    OwnerAggregate("count_if", "COUNT_IF(p)", "Rows where p is true.", _of_condition(INTEGER), _count_if),
    OwnerAggregate("sum", "SUM(x)", "The sum; NULL when an integer sum does not fit.", _numeric(_of_sum), _sum),
    OwnerAggregate("avg", "AVG(x)", "The mean.", _numeric(lambda _: DOUBLE), _mean),
    OwnerAggregate("min", "MIN(x)", "The smallest value.", _same_type, _plain("min")),
    OwnerAggregate("max", "MAX(x)", "The largest value.", _same_type, _plain("max")),
    OwnerAggregate("median", "MEDIAN(x)", "The middle value.", _numeric(lambda _: DOUBLE), _median),
    OwnerAggregate(
        "bool_and", "BOOL_AND(p)", "Whether p holds in every row.", _of_condition(BOOLEAN), _of_truths("bool_and")
    ),
    OwnerAggregate(
        "bool_or", "BOOL_OR(p)", "Whether p holds in some row.", _of_condition(BOOLEAN), _of_truths("bool_or")
    ),
    OwnerAggregate("bit_and", "BIT_AND(x)", "All bits set in every row.", _integer_only, _plain("bit_and")),
    OwnerAggregate("bit_or", "BIT_OR(x)", "All bits set in some row.", _integer_only, _plain("bit_or")),
    OwnerAggregate("bit_xor", "BIT_XOR(x)", "Bits set in an odd number of rows.", _integer_only, _plain("bit_xor")),
)

_SPREADS = (
    ("var_pop", "The variance of the rows."),
    ("var_samp", "The variance estimated from the rows as a sample; also VARIANCE."),
    ("stddev_pop", "The standard deviation of the rows."),
    ("stddev_samp", "The standard deviation estimated from the rows as a sample; also STDDEV."),
)
NO_WINDOWS = frozenset(name for name, _ in _SPREADS)
"""Aggregates that list all values: as windows they would do so for every row, which is quadratic in an owner's rows."""
OWNER_AGGREGATES = {aggregate.name: aggregate for aggregate in _PLAIN} | {
    name: OwnerAggregate(name, f"{name.upper()}(x)", meaning, _numeric(lambda _: DOUBLE), _spread(name))
    for name, meaning in _SPREADS
}
_ALIASES = {
    "countif": "count_if",
    "mean": "avg",
    "variance": "var_samp",
    "var": "var_samp",
    "varp": "var_pop",
    "stddev": "stddev_samp",
    "stdev": "stddev_samp",
    "stdevp": "stddev_pop",
    "std": "stddev_pop",
    "every": "bool_and",
    "logical_and": "bool_and",
    "logical_or": "bool_or",
}


def owner_aggregate(name: str, types: Sequence[Type], position: Position) -> tuple[str, Type]:
    """The aggregate's own name and its result type over one owner's rows.

    `first`, `last`, `any_value`, `list`, `string_agg`, `arg_max`, `mode` and the like depend on the order of rows:
    refused.
    """
    check_owner_aggregate(name, position)
    known = _ALIASES.get(name.lower(), name.lower())
    aggregate = OWNER_AGGREGATES[known]
    result = aggregate.result(types)
    if result is None:
        found = ", ".join(named(t) for t in types) or "nothing"
        raise unsupported(f"{aggregate.usage} does not take ({found}).", position, hint=aggregate.meaning)
    return known, result


def is_owner_aggregate(name: str) -> bool:
    """Whether an aggregate can be computed exactly over one owner's rows."""
    return _ALIASES.get(name.lower(), name.lower()) in OWNER_AGGREGATES


def check_owner_aggregate(name: str, position: Position) -> None:
    """Refuse an aggregate that is not on the list."""
    if not is_owner_aggregate(name):
        raise ShoalError(
            "E_FUNCTION_NOT_ALLOWED",
            f"{name.upper()} is not among the exact aggregates.",
            hint=f"Use one of {', '.join(sorted(OWNER_AGGREGATES)).upper()}: they do not depend on the order of rows.",
            position=position,
        )


def owner_aggregate_form(
    name: str,
    arguments: list[exp.Expr],
    types: Sequence[Type],
    distinct: bool = False,
    condition: exp.Expr | None = None,
    over: Placed | None = None,
) -> exp.Expr:
    """The aggregate for the engine; `condition` is its FILTER, `over` makes a window of each engine aggregate in it.

    >>> owner_aggregate_form("sum", [exp.column("a")], [INTEGER]).sql("duckdb", normalize_functions=False)
    'TRY_CAST(system.main.sum(CAST(a AS BIGINT)) AS BIGINT)'
    """

    def placed(call: exp.Expr) -> exp.Expr:
        if condition is not None:
            call = exp.Filter(this=call, expression=exp.Where(this=condition.copy()))
        return over(call) if over is not None else call

    return OWNER_AGGREGATES[name].form(arguments, types, placed, distinct)
