"""A plain SELECT over private rows when no defaults are set: refused, but only after all its other errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.errors import ShoalError
from shoal.plan.aggregates.spellings import NAMES
from shoal.plan.expressions import Column, Expression
from shoal.plan.types import DOUBLE
from shoal.sql import functions
from shoal.sql.binding.row_select import RowsBinder

if TYPE_CHECKING:
    from shoal.sql.parse import FunctionCall


def no_clause(position: tuple[int, int] | None) -> ShoalError:
    """The refusal of a plain query over private rows."""
    return ShoalError(
        "E_NO_DP_CLAUSE",
        "This query reads a private table without a privacy clause.",
        hint="Write SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) … or set defaults in the catalog.",
        position=position,
    )


class RowsWithoutClause(RowsBinder):
    """Binds what the clause would make private, to find any other errors first (a name, a function)."""

    def _aggregate(self, call: FunctionCall) -> Expression:
        """Aggregates that only the clause has (MEDIAN) are numbers here: they are fine, the clause is what is missing."""
        if call.name not in NAMES or (functions.is_owner_aggregate(call.name) and not _has_private_parts(call)):
            return super()._aggregate(call)
        for argument in call.arguments[:1]:
            if not call.star:
                self._rows.bind(argument)
        found = self._binder.context.symbols.field("", DOUBLE)
        return Column(found.symbol, found.type, call.position)


def _has_private_parts(call: FunctionCall) -> bool:
    return bool(call.named or call.clamped or call.within_group)
