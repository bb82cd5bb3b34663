"""Private aggregates as the analyst writes them, in either clause → one class each, with bounds and where they come from."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from shoal import params
from shoal.errors import ShoalError
from shoal.frozen import dataclass
from shoal.params import Bounds
from shoal.plan.aggregates import CountOwners
from shoal.plan.aggregates.spellings import DISTINCT, ROWS, SPELLINGS, STRATEGY, Argument, Extra, Written, spelling_of
from shoal.plan.expressions import Case, Expression, Literal
from shoal.plan.types import INTEGER, Kind
from shoal.sql import functions
from shoal.sql.grammar.constants import ConstantKind
from shoal.sql.parse import Constant, constant

if TYPE_CHECKING:
    from collections.abc import Callable

    from shoal.plan.aggregates import Aggregate
    from shoal.plan.aggregates.spellings import Spelling
    from shoal.plan.known_bounds import KnownBounds
    from shoal.plan.types import Type
    from shoal.sql.binding.expressions import ExpressionBinder
    from shoal.sql.parse import FunctionCall

LARGEST = 2**63 - 1
MOST_FRACTIONS = 100
_SUPPORTED = ", ".join(spelling.name for spelling in SPELLINGS)


@dataclass(frozen=True, slots=True)
class BoundAggregate:
    """An aggregate with its bounds, where they come from, and its own ε."""

    aggregate: Aggregate
    bounds: Bounds | None
    bounds_source: str
    epsilon: Fraction | None
    report: str | None
    rows_left_open: bool = False
    gives: Type | None = None
    """The type of the answer, if the aggregate is over numbers that represent something else."""


class AggregateBinder:
    """Binds the private aggregates of one SELECT."""

    def __init__(
        self,
        rows: ExpressionBinder,
        known_bounds: KnownBounds,
        is_owner: Callable[[Expression], bool],
        max_rows_per_owner_and_group: int | None,
        max_rows_per_owner: int | None,
        *,
        anonymization: bool,
        finds_limits: bool = False,
    ) -> None:
        self._rows = rows
        self._known_bounds = known_bounds
        self._is_owner = is_owner
        self._most_rows = max_rows_per_owner_and_group
        self._row_limit = max_rows_per_owner
        self._anonymization = anonymization
        self._finds_limits = finds_limits
        self._as_written: dict[Expression, Expression] = {}
        self._times: dict[Aggregate, Type] = {}
        self.notes: list[str] = []

    def bind(self, call: FunctionCall) -> BoundAggregate:
        """One aggregate; anything it does not accept is refused, never dropped."""
        spelling = self._spelling(call)
        if call.order_by is not None:
            raise _unsupported(
                call, "ORDER BY inside an aggregate is not supported.", "The answer does not depend on order."
            )
        if call.nulls is not None:
            raise _unsupported(call, f"{call.nulls} NULLS is not supported.", "Aggregates skip NULL.")
        named = _named(call, spelling)
        value, extras = self._split(call, spelling)
        bounds = self._bounds(call, spelling, named, extras)
        epsilon = _checked(named.get("epsilon"), params.epsilon, "epsilon")
        report = _report(named.get("report_format"))
        rows = _checked(named.get(ROWS), params.max_groups_per_owner, ROWS) or 1
        _check_strategy(named.get(STRATEGY))
        aggregate = self._aggregate(call, spelling, value, extras, self._row_limit or rows)
        if self._finds_limits and bounds is None:
            aggregate = aggregate.as_count() or aggregate
        if spelling.argument in {Argument.ROWS, Argument.CONDITION}:
            self._check_count_bounds(call, bounds)
        if spelling.argument is Argument.VALUE and bounds is not None and value is not None:
            self._check_bounds_of_distinct(call, value, bounds)
        idle = [argument for argument in (ROWS, STRATEGY) if argument in named]
        if aggregate.counts_owners and idle:
            change = "change" if len(idle) > 1 else "changes"
            self.notes.append(f"{aggregate.name}: each owner counts once; {' and '.join(idle)} {change} nothing.")
        bounds, source = self._bounds_or_catalog(aggregate, bounds)
        open_rows = (
            spelling.takes_rows and ROWS not in named and self._row_limit is None and not aggregate.counts_owners
        )
        return BoundAggregate(aggregate, bounds, source, epsilon, report, open_rows, self._times.get(aggregate))

    def of_share(self, aggregate: Aggregate) -> BoundAggregate:
        """The average over rows that a quotient of counts is; how many rows of an owner it reads is left open."""
        bounds, source = self._bounds_or_catalog(aggregate, None)
        return BoundAggregate(aggregate, bounds, source, None, None, rows_left_open=True)

    # ---- the name ------------------------------------------------------------------------------------------------

    def _spelling(self, call: FunctionCall) -> Spelling:
        anon = call.name.startswith("ANON_")
        found = spelling_of(call.name.removeprefix("ANON_"), anon=anon)
        if (anon and not self._anonymization) or (self._anonymization and not anon and found is None):
            written = "ANON_COUNT, ANON_SUM, …" if self._anonymization else "COUNT, SUM, …"
            raise ShoalError(
                "E_AGG_NOT_DP",
                f"{call.name} is not available in this clause.",
                hint=f"Here aggregates are written {written}",
                position=call.position,
            )
        if found is None:
            raise ShoalError(
                "E_AGG_NOT_DP",
                f"{call.name} has no private form.",
                hint=_instead_of(call) or f"Private aggregates: {_SUPPORTED}.",
                position=call.position,
            )
        return DISTINCT if found.argument is Argument.ROWS and call.distinct else found

    # ---- arguments -----------------------------------------------------------------------------------------------

    def _split(self, call: FunctionCall, spelling: Spelling) -> tuple[exp.Expr | None, list[Constant]]:
        """The aggregated expression, and the constants after it."""
        arguments = list(call.arguments)
        if call.within_group is not None:
            if spelling.extra is None or len(arguments) != 1 or len(call.within_group.expressions) != 1:
                raise _unsupported(call, f"{call.name} takes no WITHIN GROUP.", "Write PERCENTILE_CONT(x, 0.5).")
            item = call.within_group.expressions[0]
            return item.this, [_from_above(constant(arguments[0])) if item.args.get("desc") else constant(arguments[0])]
        if call.star:
            if spelling.argument is not Argument.ROWS or call.distinct:
                raise _unsupported(call, f"{call.name}(*) has no meaning.", "Only COUNT takes a star.")
            return None, [constant(a) for a in arguments[1:]]
        if not arguments:
            raise _unsupported(call, f"{call.name} needs an argument.", None)
        extras = [constant(a) for a in arguments[1:]]
        if call.distinct and (spelling.argument is not Argument.VALUE or (extras and not self._anonymization)):
            raise _unsupported(
                call, "DISTINCT is supported in COUNT(DISTINCT x) of one value only.", "Group by the value instead."
            )
        return arguments[0], extras

    def _bounds(
        self, call: FunctionCall, spelling: Spelling, named: dict[str, Constant], extras: list[Constant]
    ) -> Bounds | None:
        """CLAMPED BETWEEN, a named argument, or the older clause's positional bounds: at most one of them."""
        own = 0 if spelling.extra is None else 1
        positional = extras[own:]
        del extras[own:]
        given = [b for b in (call.clamped, named.get(spelling.bounds or ""), positional or None) if b is not None]
        if not given:
            return None
        if len(given) > 1:
            raise ShoalError(
                "E_BOUNDS_INVALID", "Bounds are given twice.", hint="Give them once.", position=call.position
            )
        if positional and not self._anonymization:
            raise ShoalError(
                "E_BOUNDS_INVALID",
                f"{call.name} has too many arguments.",
                hint=f"Write bounds as {spelling.bounds} => (lower, upper)." if spelling.bounds else None,
                position=call.position,
            )
        if spelling.bounds is None and not (self._anonymization and call.distinct):
            raise ShoalError("E_BOUNDS_INVALID", f"{call.name} takes no bounds.", position=call.position)
        return _pair(call, given[0])

    def _check_bounds_of_distinct(self, call: FunctionCall, value: exp.Expr, bounds: Bounds) -> None:
        """ANON_COUNT(DISTINCT owner, hi): each owner counts once, which bounds around 1 do not change."""
        if not self._is_owner(self._rows.bind(value)):
            raise ShoalError(
                "E_BOUNDS_INVALID",
                f"{call.name}(DISTINCT x) takes bounds where x is the owner column only.",
                hint="Leave the bounds out.",
                position=call.position,
            )
        if not bounds.lower <= 1 <= bounds.upper:
            raise ShoalError(
                "E_BOUNDS_INVALID",
                "Each owner counts once here, and these bounds leave out 1.",
                hint="Leave the bounds out, or write an upper bound of at least 1.",
                position=call.position,
            )

    def _argument(self, call: FunctionCall, node: exp.Expr) -> Expression:
        """The aggregated expression; FILTER turns excluded values into NULL."""
        value = self._rows.bind(node)
        return self._filtered(call, value)

    def _filtered(self, call: FunctionCall, value: Expression) -> Expression:
        if call.filter is None:
            return value
        condition = self._rows.condition(call.filter)
        return functions.case([(condition, value)], Literal(None, value.type.plain()), call.position)

    def _aggregate(
        self, call: FunctionCall, spelling: Spelling, node: exp.Expr | None, extras: list[Constant], rows: int
    ) -> Aggregate:
        value = self._value(call, spelling, node)
        if spelling.argument is Argument.VALUE and value is not None and call.filter is None and self._is_owner(value):
            return CountOwners(value)
        extra = None if spelling.extra is None else _EXTRAS[spelling.extra](call, extras)
        if value is not None and value.type.kind in _TIMES and spelling.of_times and not isinstance(extra, tuple):
            number = _numbered(value)
            aggregate = spelling.make(Written(number, extra, rows, self._row_limit))
            self._times[aggregate] = value.type.plain()
            if self._known_bounds.of(number) is None:
                note = _far_apart(value.type)
                if note not in self.notes:
                    self.notes.append(note)
            return aggregate
        return spelling.make(Written(value, extra, rows, self._row_limit))

    def _value(self, call: FunctionCall, spelling: Spelling, node: exp.Expr | None) -> Expression | None:
        """The aggregated value, of a type the aggregate accepts."""
        argument = spelling.argument
        if argument in {Argument.ROWS, Argument.CONDITION}:
            return self._counted(call, argument, node)
        assert node is not None  # noqa: S101 - only COUNT takes a star
        value = self._argument(call, node)
        if argument is Argument.VALUE:
            if value.type.kind in {Kind.UNSUPPORTED, Kind.NULL, Kind.INTERVAL}:
                raise _unsupported(call, f"COUNT(DISTINCT) of a value of type {value.type} is not supported.", None)
            return value
        if value.type.kind is Kind.BOOLEAN:
            return functions.resolve_cast(value, INTEGER, call.position)
        if value.type.kind not in {Kind.INTEGER, Kind.DOUBLE, Kind.DECIMAL, *(_TIMES if spelling.of_times else ())}:
            raise _unsupported(
                call, f"{call.name} takes numbers, and this is of type {value.type}.", _as_number(call, value.type)
            )
        return self._whole(value) if argument is Argument.SUMMAND else value

    def _whole(self, value: Expression) -> Expression:
        """A decimal with scale 0 as a 64-bit integer, so that sums of whole numbers are whole; larger values are saturated."""
        if value.type.kind is not Kind.DECIMAL or value.type.scale:
            return value
        ends = ((Literal(LARGEST, INTEGER), "greater"), (Literal(-LARGEST - 1, INTEGER), "less"))
        branches = tuple((functions.resolve(side, [value, end], value.position), end) for end, side in ends)
        inside = functions.resolve_cast(value, INTEGER, value.position)
        whole = Case(branches, inside, INTEGER, value.position)
        self._as_written[whole] = value
        return whole

    def _counted(self, call: FunctionCall, argument: Argument, node: exp.Expr | None) -> Expression | None:
        """The expression whose NULLs a count skips; None if it counts every row."""
        if node is None:
            value = None if call.filter is None else self._filtered(call, Literal(1, INTEGER))
        else:
            value = self._argument(call, node)
        if argument is Argument.CONDITION:
            assert value is not None  # noqa: S101 - COUNTIF has an argument
            value = functions.case([(value, Literal(1, INTEGER))], None, call.position)
        return None if isinstance(value, Literal) and value.value is not None else value

    def _check_count_bounds(self, call: FunctionCall, bounds: Bounds | None) -> None:
        """Bounds that a count cannot obey are refused, never dropped."""
        if bounds is None:
            return
        if self._row_limit is not None:
            raise ShoalError(
                "E_BOUNDS_INVALID",
                "With max_rows_contributed rows are counted one by one, and a count takes no bounds.",
                hint="Drop the bounds, or use max_groups_contributed.",
                position=call.position,
            )
        if bounds.upper < 0:
            raise ShoalError(
                "E_BOUNDS_INVALID",
                "A count is never negative.",
                hint="Write bounds such as (0, 10).",
                position=call.position,
            )

    def _bounds_or_catalog(self, aggregate: Aggregate, bounds: Bounds | None) -> tuple[Bounds | None, str]:
        """Bounds from the analyst, else public ones from the catalog (free), else found with a share of the budget."""
        if aggregate.feed is not None:
            return None, "inferred"
        if not any(measure.needs_bounds for measure in aggregate.measures):
            return None, "none"
        if bounds is not None:
            return bounds, "query"
        written = self._as_written.get(aggregate.argument, aggregate.argument) if aggregate.argument else None
        known = self._known_bounds.of(written) if written is not None else None
        of_owner = aggregate.bounds_from(known, self._most_rows)
        of_one_row = self._most_rows is None and aggregate.catalog_bounds_note is not None
        if of_one_row and self._finds_limits and known is not None and known.lower < known.upper:
            return Bounds(known.lower, known.upper), "one row"
        if of_owner is None:
            return None, "inferred"
        if of_owner.from_catalog and of_one_row and aggregate.catalog_bounds_note is not None:
            self.notes.append(aggregate.catalog_bounds_note)
        said = "listed" if of_owner.listed else "catalog" if of_owner.from_catalog else "expression"
        return Bounds(of_owner.lower, of_owner.upper), said


_TIMES = frozenset({Kind.DATE, Kind.TIMESTAMP})


def _far_apart(of: Type) -> str:
    """What to expect of a time whose period nobody knows."""
    unit = "days" if of.kind is Kind.DATE else "seconds"
    return (
        f"Times are looked for in {unit} since 1970, between bounds that may be decades apart: with a few hundred "
        "owners they can be years off. Whoever knows the period writes it into the catalog: "
        'bounds = ["2020-01-01", "2024-12-31"] of the column.'
    )


def _numbered(value: Expression) -> Expression:
    """A date as days since 1970, a timestamp as seconds."""
    return functions.resolve("unix_date" if value.type.kind is Kind.DATE else "epoch", [value], value.position)


def as_time(number: Expression, gives: Type) -> Expression:
    """The date or timestamp that a released number of days or seconds represents."""
    rounded = functions.resolve_cast(functions.resolve("round", [number]), INTEGER, number.position)
    if gives.kind is Kind.DATE:
        return functions.resolve("add_days", [Literal(dt.date(1970, 1, 1), gives), rounded], number.position)
    return functions.resolve("timestamp_seconds", [rounded], number.position)


def _from_above(fraction: Constant) -> Constant:
    """The fraction counted from the largest value, for ORDER BY x DESC."""
    return replace(fraction, value=1 - fraction.value) if fraction.is_number else fraction  # type: ignore[operator]


_SHOWS_VALUES = frozenset({"STRING_AGG", "LISTAGG", "GROUP_CONCAT", "ARRAY_AGG", "LIST", "ANY_VALUE", "FIRST", "LAST"})

_ASKS_OF_EACH = frozenset({"BOOL_OR", "BOOL_AND", "LOGICAL_OR", "LOGICAL_AND", "EVERY", "SOME"})


def _instead_of(call: FunctionCall) -> str | None:
    """What to write instead of an aggregate that has no private form, with the same columns."""
    columns = [argument.sql() for argument in call.arguments if isinstance(argument, exp.Column)]
    if call.name == "MODE" and len(columns) == 1:
        return f"Write GROUP BY {columns[0]} ORDER BY COUNT(*) DESC LIMIT 1: it shows the value that most rows have."
    if call.name in _SHOWS_VALUES and len(columns) >= 1:
        return f"It would show values of single rows. GROUP BY {columns[0]} shows those that enough owners share."
    if call.name in _ASKS_OF_EACH and len(call.arguments) == 1:
        return f"One row would decide. Write COUNTIF({call.arguments[0].sql()}), and compare it with COUNT(*)."
    return None


def _named(call: FunctionCall, spelling: Spelling) -> dict[str, Constant]:
    known = spelling.arguments
    found: dict[str, Constant] = {}
    for name, value, position in call.named:
        if name not in known:
            raise ShoalError(
                "E_OPTION_UNKNOWN",
                f"{call.name} takes no argument {name!r}.",
                hint=f"It takes {', '.join(sorted(known))}.",
                position=position,
            )
        if name in found:
            raise ShoalError("E_OPTION_INVALID", f"The argument {name} is given twice.", position=position)
        if not isinstance(value, Constant):
            code = "E_BOUNDS_INVALID" if name == spelling.bounds else "E_OPTION_INVALID"
            raise ShoalError(code, f"The argument {name} takes a constant.", position=position)
        found[name] = value
    return found


def _as_number(call: FunctionCall, type_: Type) -> str:
    """What to write instead of a value that is not a number."""
    if type_.kind in {Kind.DATE, Kind.TIMESTAMP}:
        return "Count days: DATE_DIFF('day', DATE '2025-01-01', x)."
    of = call.arguments[0] if len(call.arguments) == 1 else None
    if type_.kind is Kind.TEXT and isinstance(of, exp.Column):
        return f"Write {call.name}(CAST({of.sql()} AS DOUBLE)): strings that are not numbers become NULL."
    return "Cast it, or use CASE."


def _check_strategy(strategy: Constant | None) -> None:
    word = str(strategy.value).upper() if strategy is not None else "AUTO"
    if strategy is None or word in {"AUTO", "SAMPLING"}:
        return
    if word == "GREEDY":
        raise ShoalError(
            "E_UNSUPPORTED",
            "The bounding strategy GREEDY is not offered.",
            hint="Write AUTO or SAMPLING, or leave it out.",
            position=strategy.position,
        )
    raise ShoalError("E_OPTION_INVALID", f"{STRATEGY} is AUTO or SAMPLING.", position=strategy.position)


def _unsupported(call: FunctionCall, message: str, hint: str | None) -> ShoalError:
    return ShoalError("E_UNSUPPORTED", message, hint=hint, position=call.position)


def _checked(value: Constant | None, check: Callable[..., Any], option: str) -> Any:
    if value is None:
        return None
    if not value.is_number:
        raise ShoalError("E_OPTION_INVALID", f"{option} must be a number.", position=value.position)
    try:
        return check(value.value, option=option)
    except ShoalError as error:
        error.position = value.position
        raise


def _report(value: Constant | None) -> str | None:
    if value is None:
        return None
    if not isinstance(value.value, str) or value.value.upper() != "JSON":
        raise ShoalError("E_OPTION_INVALID", "report_format is 'JSON'.", position=value.position)
    return "JSON"


def _pair(call: FunctionCall, given: object) -> Bounds:
    """Two finite numbers, in order; COUNT in the older clause may give the upper one alone."""
    parts = list(given.value) if isinstance(given, Constant) and isinstance(given.value, tuple) else given
    if isinstance(parts, Constant):
        parts = [parts]
    values = list(parts)  # type: ignore[call-overload]
    if len(values) == 1 and call.name == "ANON_COUNT":
        values = [None, values[0]]
    if len(values) != 2 or any(v is not None and not v.is_number for v in values):
        raise ShoalError(
            "E_BOUNDS_INVALID",
            "Bounds are two constant, finite numbers.",
            hint="Write (0, 100), or CLAMPED BETWEEN 0 AND 100 in the older clause.",
            position=call.position,
        )
    lower, upper = (0 if v is None else v.value for v in values)
    try:
        return params.bounds(lower, upper)
    except ShoalError as error:
        error.position = call.position
        raise


def _fraction(call: FunctionCall, extras: list[Constant]) -> Fraction | tuple[Fraction, ...]:
    if len(extras) == 1 and extras[0].kind is ConstantKind.LIST:
        return _fractions(call, extras[0])
    if len(extras) != 1 or not extras[0].is_number or not 0 <= extras[0].value <= 1:  # type: ignore[operator]
        raise _unsupported(call, f"{call.name} takes a constant fraction from 0 to 1.", f"Write {call.name}(x, 0.5).")
    return Fraction(extras[0].value)  # type: ignore[arg-type]


def _fractions(call: FunctionCall, listed: Constant) -> tuple[Fraction, ...]:
    """As in [0.25, 0.5, 0.75]: the answer is a list of as many numbers."""
    parts = listed.value if isinstance(listed.value, tuple) else ()
    numbers = [part.value for part in parts if part.is_number and 0 <= part.value <= 1]  # type: ignore[operator]
    rising = all(a < b for a, b in pairwise(numbers))  # type: ignore[operator]
    if len(numbers) != len(parts) or not 1 <= len(parts) <= MOST_FRACTIONS or not rising:
        raise _unsupported(
            call,
            f"{call.name} takes up to {MOST_FRACTIONS} constant fractions from 0 to 1, rising.",
            f"Write {call.name}(x, [0.25, 0.5, 0.75]).",
        )
    return tuple(Fraction(number) for number in numbers)  # type: ignore[arg-type]


def _buckets(call: FunctionCall, extras: list[Constant]) -> int:
    if len(extras) != 1 or not extras[0].is_integer or not 1 <= extras[0].value <= 1000:  # type: ignore[operator]
        raise _unsupported(
            call, f"{call.name} takes a constant number of parts from 1 to 1000.", f"Write {call.name}(x, 4)."
        )
    return int(extras[0].value)  # type: ignore[arg-type]


_EXTRAS: dict[Extra, Callable[[FunctionCall, list[Constant]], Fraction | int | tuple[Fraction, ...]]] = {
    Extra.FRACTION: _fraction,
    Extra.PARTS: _buckets,
}
