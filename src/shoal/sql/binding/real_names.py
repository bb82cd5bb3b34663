"""Hints in the reader's own names: the examples use uid and visits, the query uses other columns and tables."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from sqlglot import exp

from shoal.catalog import fold
from shoal.catalog.owner_names import tells_people_apart
from shoal.catalog.tables import quoted
from shoal.frozen import dataclass
from shoal.plan.types import Kind
from shoal.sql.parse import function_call, position_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from shoal.catalog import Catalog, Table
    from shoal.errors import ShoalError
    from shoal.plan.types import Type

    Schemas = Mapping[str, tuple[tuple[str, Type], ...]]


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
        """Some other column of one of these kinds: the first that has a list of values, else that many may share by its name."""
        names = [n for n, t in self.columns if t.kind in kinds and fold(n) != fold(str(self.table.owner))]
        found = min(names, key=lambda n: (not self.table.facts(n).values, tells_people_apart(n)), default=None)
        return None if found is None else quoted(found)


def in_real_names(error: ShoalError, tree: exp.Expr, catalog: Catalog, schemas: Schemas) -> ShoalError:
    """The same error with its hint about the tables the query names; unchanged if there is nothing better to say."""
    private = _private(tree, catalog, schemas)
    advise, advise_at = _ADVICE.get(error.code), _ADVICE_AT.get(error.code)
    if not private or not error.hint:
        return error
    there = [part for part in tree.walk() if position_of(part) == error.position] if advise_at is not None else []
    found = advise_at(error.hint, there, private) if advise_at is not None else None
    if found is None and advise is not None:
        found = advise(error.hint, private)
    error.hint = found or error.hint
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


def _raw(_: str, there: list[exp.Expr], private: list[Named]) -> str | None:
    """Rows as they are, or a column beside groups."""
    if any(isinstance(part, exp.Star) for part in there):
        return _groups_instead("Rows cannot be shown, groups of them can: ", private[0])
    column = next((part for part in there if isinstance(part, exp.Column)), None)
    select = column.find_ancestor(exp.Select) if column is not None else None
    if column is None or select is None:
        return None
    if tells_people_apart(column.name) and not select.args.get("group"):
        return _groups_instead(f"{column.sql()} would tell people apart; groups of them can be shown: ", private[0])
    name = column.sql()
    aggregate = f"AVG({name})" if _kind_of(column, private) in _NUMBERS else f"COUNT(DISTINCT {name})"
    if select.args.get("group"):
        return f"Add {name} to GROUP BY, or write {aggregate}."
    if any(function_call(part) is not None for item in select.expressions for part in item.walk()):
        return f"Add GROUP BY {name}, or write {aggregate}."
    return f"Write {aggregate}, or SELECT {name}, COUNT(*) FROM {quoted(private[0].table.name)} GROUP BY {name}."


def _groups_instead(words: str, named: Named) -> str | None:
    key = named.column(Kind.TEXT, Kind.BOOLEAN) or named.column(Kind.INTEGER)
    table = quoted(named.table.name)
    if key is None:
        return f"{words}SELECT COUNT(*) FROM {table}. DESCRIBE {table} shows the columns."
    return f"{words}SELECT {key}, COUNT(*) FROM {table} GROUP BY {key}. DESCRIBE {table} shows the columns."


def _kind_of(column: exp.Column, private: list[Named]) -> Kind | None:
    return next((t.kind for each in private for n, t in each.columns if fold(n) == fold(column.name)), None)


def _ranked(_: str, there: list[exp.Expr], private: list[Named]) -> str | None:
    """A window over the rows of all owners: what can be asked instead depends on its function."""
    window = next((part for part in there if isinstance(part, exp.Window)), None)
    call = function_call(window) if window is not None else None
    if window is None or call is None:
        return None
    table = quoted(private[0].table.name)
    by = [part.this for part in (window.args.get("order") or exp.Order()).expressions]
    if call.name in _RANKS_OF_ROWS and len(by) == 1 and isinstance(by[0], exp.Column):
        parts = call.arguments[0].sql() if call.name == "NTILE" and call.arguments else "10"
        return (
            f"Ask for the limits first: SELECT APPROX_QUANTILES({by[0].sql()}, {parts}) FROM {table}. "
            f"A second query groups by CASE WHEN {by[0].sql()} < … with what they are."
        )
    keys = [part.sql() for part in window.args.get("partition_by") or () if isinstance(part, exp.Column)]
    if keys and call.name in _OF_GROUPS and len(call.arguments) <= 1:
        asked = f"{call.name}({', '.join(part.sql() for part in call.arguments)})"
        listed = ", ".join(keys)
        return f"Ask by group: SELECT {listed}, {asked} FROM {table} GROUP BY {listed}."
    if private[0].table.one_row_per_owner and call.name in _PLACES:
        key = keys[0] if keys else private[0].column(Kind.TEXT, Kind.BOOLEAN)
        ranked = f"SELECT {key}, COUNT(*), {call.name}() OVER (ORDER BY COUNT(*) DESC) FROM {table} GROUP BY {key}"
        return f"It would show who comes first. Groups can be ranked: {ranked}." if key is not None else None
    return None


def _as_time(hint: str, there: list[exp.Expr], private: list[Named]) -> str | None:
    """The string that a function of times was given."""
    if "STRPTIME(x," not in hint:
        return None
    columns = (part for call in there for part in call.find_all(exp.Column) if _kind_of(part, private) is Kind.TEXT)
    column = next(columns, None)
    return None if column is None else hint.replace("STRPTIME(x,", f"STRPTIME({column.sql()},")


_NUMBERS = frozenset({Kind.INTEGER, Kind.DOUBLE, Kind.DECIMAL})
_RANKS_OF_ROWS = frozenset({"NTILE", "PERCENT_RANK", "CUME_DIST"})
_PLACES = frozenset({"ROW_NUMBER", "RANK", "DENSE_RANK"})
_OF_GROUPS = frozenset({"COUNT", "SUM", "AVG", "MIN", "MAX", "STDDEV", "MEDIAN"})
_ADVICE_AT: dict[str, Callable[[str, list[exp.Expr], list[Named]], str | None]] = {
    "E_RAW_OUTPUT": _raw,
    "E_CROSS_USER": _ranked,
    "E_UNSUPPORTED": _as_time,
}
_ADVICE: dict[str, Callable[[str, list[Named]], str | None]] = {
    "E_UID_EXPOSED": _exposed,
    "E_JOIN_NOT_ON_UID": _not_on_owner,
    "E_EXPR_SUBQUERY": _subquery,
    "E_CROSS_USER": _across,
    "E_SETOP_UID": _set_operation,
}
