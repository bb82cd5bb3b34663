"""The aggregates of SELECT WITH POLICY: COUNT, SUM, AVG, and quantiles of a bare ordered attribute."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from shoal.errors import ShoalError
from shoal.plan.expressions import Column
from shoal.plan.policy_select import PolicyAggregate
from shoal.plan.types import DOUBLE, INTEGER, RELEASED_LIST, Kind
from shoal.sql.parse import constant

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shoal.plan.expressions import Expression
    from shoal.plan.types import Type
    from shoal.policies.domain import Domain
    from shoal.sql.binding.context import Symbols
    from shoal.sql.binding.expressions import ExpressionBinder
    from shoal.sql.parse import FunctionCall

NAMES = ("COUNT", "SUM", "AVG", "MEDIAN", "PERCENTILE_CONT", "PERCENTILE_DISC", "APPROX_QUANTILES")
MOST_QUANTILES = 1000
_NUMBERS = {Kind.INTEGER, Kind.DOUBLE, Kind.DECIMAL}


def _unsupported(message: str, call: FunctionCall, hint: str | None = None) -> ShoalError:
    return ShoalError("E_UNSUPPORTED", message, hint=hint, position=call.position)


class PolicyAggregates:
    """Binds aggregates; the same one twice is one draw."""

    def __init__(
        self, rows: ExpressionBinder, symbols: Symbols, attributes: Mapping[str, str], domain: Domain, *, grouped: bool
    ) -> None:
        self._rows = rows
        self._symbols = symbols
        self._attributes = attributes
        self._domain = domain
        self._grouped = grouped
        self.found: dict[tuple[object, ...], PolicyAggregate] = {}

    def bind(self, call: FunctionCall) -> Expression:
        """The released column of an aggregate."""
        self._refuse_extras(call)
        condition = self._rows.condition(call.filter) if call.filter is not None else None
        if call.name == "COUNT" and call.star:
            return self._known("count", call, None, condition, INTEGER)
        if call.name in {"COUNT", "SUM", "AVG"}:
            return self._plain(call, condition)
        if condition is not None or self._grouped:
            raise _unsupported(f"{call.name} under a policy takes neither GROUP BY nor FILTER.", call)
        return self._quantile(call)

    def _refuse_extras(self, call: FunctionCall) -> None:
        if call.name not in NAMES:
            raise ShoalError(
                "E_AGG_NOT_DP",
                f"{call.name} cannot be asked for under a policy.",
                hint=f"Aggregates under a policy: {', '.join(NAMES)}.",
                position=call.position,
            )
        extras = (
            ("DISTINCT", call.distinct),
            ("ORDER BY", call.order_by is not None),
            ("WITHIN GROUP", call.within_group is not None),
            ("CLAMPED BETWEEN", call.clamped is not None),
            ("IGNORE NULLS", call.nulls is not None),
            ("a named argument", bool(call.named)),
            ("a star", call.star and call.name != "COUNT"),
        )
        for what, there in extras:
            if there:
                raise _unsupported(f"{call.name} under a policy does not take {what}.", call)

    def _plain(self, call: FunctionCall, condition: Expression | None) -> Expression:
        if len(call.arguments) != 1:
            raise _unsupported(f"{call.name} takes one argument.", call)
        value = self._rows.bind(call.arguments[0])
        if call.name == "COUNT":
            return self._known("count", call, value, condition, INTEGER)
        if value.type.kind not in _NUMBERS:
            raise _unsupported(f"{call.name} takes numbers, and this is {value.type}.", call, "Cast it.")
        if call.name == "SUM":
            return self._known("sum", call, value, condition, INTEGER if value.type.kind is Kind.INTEGER else DOUBLE)
        return self._known("avg", call, value, condition, DOUBLE)

    def _quantile(self, call: FunctionCall) -> Expression:
        wanted = 1 if call.name == "MEDIAN" else 2
        if len(call.arguments) != wanted:
            raise _unsupported(f"{call.name} takes {wanted} argument{'s' if wanted > 1 else ''}.", call)
        value = self._rows.bind(call.arguments[0])
        attribute = self._attributes.get(value.symbol, "") if isinstance(value, Column) else ""
        if not attribute or not self._domain.attribute(attribute).ordered:
            raise _unsupported(
                f"{call.name} under a policy takes a bare ordered attribute.", call, "Name a column of whole numbers."
            )
        shares = self._shares(call)
        several = call.name == "APPROX_QUANTILES"
        return self._known(
            "quantiles" if several else "quantile",
            call,
            None,
            None,
            RELEASED_LIST if several else DOUBLE,
            attribute,
            shares,
            continuous=call.name in {"MEDIAN", "PERCENTILE_CONT"},
        )

    def _shares(self, call: FunctionCall) -> tuple[Fraction, ...]:
        if call.name == "MEDIAN":
            return (Fraction(1, 2),)
        number = constant(call.arguments[1]).value
        if isinstance(number, bool) or not isinstance(number, int | Fraction):
            raise _unsupported(f"The second argument of {call.name} is a constant number.", call)
        if call.name != "APPROX_QUANTILES":
            if not 0 <= number <= 1:
                raise _unsupported(f"{call.name} takes a share from 0 to 1.", call)
            return (Fraction(number),)
        if Fraction(number).denominator != 1 or not 1 <= number <= MOST_QUANTILES:
            raise _unsupported(f"APPROX_QUANTILES takes a whole number from 1 to {MOST_QUANTILES}.", call)
        return tuple(Fraction(i, int(number)) for i in range(int(number) + 1))

    def _known(
        self,
        kind: str,
        call: FunctionCall,
        argument: Expression | None,
        condition: Expression | None,
        type_: Type,
        attribute: str = "",
        shares: tuple[Fraction, ...] = (),
        *,
        continuous: bool = True,
    ) -> Expression:
        key = (kind, argument, condition, attribute, shares, continuous)
        if key not in self.found:
            self.found[key] = PolicyAggregate(
                self._symbols.field("", type_),
                kind,  # type: ignore[arg-type]
                argument,
                condition,
                attribute,
                shares,
                continuous,
                call.name,
                call.position,
            )
        field = self.found[key].field
        return Column(field.symbol, field.type, call.position)
