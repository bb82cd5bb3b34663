"""Hints in the reader's own names: the examples use uid and visits, the query uses other columns and tables."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from sqlglot import exp

from shoal.catalog import fold
from shoal.frozen import dataclass
from shoal.plan.types import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from shoal.catalog import Catalog, Table
    from shoal.errors import ShoalError
    from shoal.plan.types import Type

    Schemas = Mapping[str, tuple[tuple[str, Type], ...]]

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def quoted(name: str) -> str:
    """A name as a query can write it.

    >>> quoted("order_id"), quoted("Order Details"), quoted("group")
    ('order_id', '"Order Details"', '"group"')
    """
    plain = _WORD.fullmatch(name) and name.upper() not in {"GROUP", "ORDER", "SELECT", "FROM", "WHERE", "TABLE", "USER"}
    return name if plain else '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True, slots=True)
class Named:
    """A private table of the query: its name there, and its owner column as a query writes it."""

    table: Table
    alias: str
    columns: tuple[tuple[str, Type], ...]

    @property
    def owner(self) -> str | None:
        """None where no column of the table is the owner."""
        return None if self.table.carries_owner else quoted(str(self.table.owner))

    @property
    def owner_type(self) -> Kind | None:
        """The kind of the owner values."""
        return next((t.kind for n, t in self.columns if fold(n) == fold(str(self.table.owner))), None)

    def column(self, *kinds: Kind) -> str | None:
        """Some other column of one of these kinds."""
        names = (n for n, t in self.columns if t.kind in kinds and fold(n) != fold(str(self.table.owner)))
        return next((quoted(n) for n in names), None)


def in_real_names(error: ShoalError, tree: exp.Expr, catalog: Catalog, schemas: Schemas) -> ShoalError:
    """The same error with its hint about the tables the query names; unchanged if there is nothing better to say."""
    private = _private(tree, catalog, schemas)
    advise = _ADVICE.get(error.code)
    if advise is not None and private and error.hint:
        error.hint = advise(error.hint, private) or error.hint
    return error


def _private(tree: exp.Expr, catalog: Catalog, schemas: Schemas) -> list[Named]:
    found = []
    # Breadth first: tables of the outer query come before those of subqueries, wherever they appear.
    for part in tree.find_all(exp.Table):
        table = catalog.table(part.name)
        if table is not None and not table.public:
            found.append(Named(table, quoted(part.alias or table.name), schemas.get(fold(table.name), ())))
    return found


def _exposed(_: str, private: list[Named]) -> str | None:
    first = next((each for each in private if each.owner is not None), None)
    if first is None:
        return None
    number = f"{first.owner} % 10" if first.owner_type is Kind.INTEGER else None
    ways = [way for way in (number, first.column(Kind.TEXT, Kind.BOOLEAN)) if way is not None]
    return f"Group by something many owners share, such as {' or '.join(ways)}." if ways else None


def _not_on_owner(_: str, private: list[Named]) -> str | None:
    alone = next((each for each in private if each.table.each_row), None)
    if alone is not None and len(private) > 1:
        name = quoted(alone.table.name)
        return (
            f"Each row of {name} is its own owner, so it can be joined with public tables only. If {name} is nobody's data, "
            "its custodian writes public = true in the catalog."
        )
    one, other = _of_two_kinds(private)
    if one is not None and other is not None:
        name = quoted(other.table.name)
        return (
            f"{quoted(one.table.name)} is about each {one.owner or one.table.owner_kind}, {name} about each "
            f"{other.owner or other.table.owner_kind}: a joined row would have two owners. If {name} needs no protection, its "
            "custodian writes public = true in the catalog."
        )
    for a, b in pairwise(private):
        if a.owner is not None and b.owner is not None and a.table.owner_kind == b.table.owner_kind:
            return f"Write ON {a.alias}.{a.owner} = {b.alias}.{b.owner}; more conditions may follow with AND, but not with OR."
    return None


def _of_two_kinds(private: list[Named]) -> tuple[Named | None, Named | None]:
    """Two tables with different owners; the second has the rarer kind of owner, and is preferably a list of people."""
    kinds = [each.table.owner_kind for each in private]
    if len(set(kinds)) < 2:
        return None, None
    lists = {each.table.owner_kind for each in private if each.table.one_row_per_owner}
    rare = min(set(kinds), key=lambda kind: (kinds.count(kind), kind not in lists, -kinds.index(kind)))
    others = next(each for each in private if each.table.owner_kind != rare)
    return others, next(each for each in private if each.table.owner_kind == rare)


def _subquery(hint: str, private: list[Named]) -> str | None:
    outer, inner = private[0], private[-1]
    if outer.owner is None or inner.owner is None or "uid" not in hint:
        return None
    name = quoted(inner.table.name)
    if "EXISTS" in hint:
        return f"Use EXISTS in WHERE: WHERE EXISTS (SELECT 1 FROM {name} v WHERE v.{inner.owner} = {outer.alias}.{outer.owner})"
    counted = f"(SELECT {inner.owner}, COUNT(*) AS n FROM {name} GROUP BY {inner.owner})"
    return f"Compute it per owner and join: JOIN {counted} v ON v.{inner.owner} = {outer.alias}.{outer.owner}"


def _across(hint: str, private: list[Named]) -> str | None:
    first = private[0]
    if first.owner is None or "PARTITION BY" not in hint:
        return _subquery(hint, private)
    by = first.column(Kind.DATE, Kind.TIMESTAMP)
    rows = f"OVER (PARTITION BY {first.alias}.{first.owner}{f' ORDER BY {by}' if by else ''})"
    return f"Write {rows}: a window may look at one owner's rows. To sort or limit groups, do that with the private result."


def _set_operation(_: str, private: list[Named]) -> str | None:
    sides = [each for each in private if each.owner is not None][:2]
    if len(sides) < 2:
        return None
    return " UNION ALL ".join(f"SELECT {each.owner}, … FROM {quoted(each.table.name)}" for each in sides)


_ADVICE: dict[str, Callable[[str, list[Named]], str | None]] = {
    "E_UID_EXPOSED": _exposed,
    "E_JOIN_NOT_ON_UID": _not_on_owner,
    "E_EXPR_SUBQUERY": _subquery,
    "E_CROSS_USER": _across,
    "E_SETOP_UID": _set_operation,
}
