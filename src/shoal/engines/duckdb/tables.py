"""The tables of one database: their columns, the views that a custodian adds, whose rows they are, and how long they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import sqlglot
from sqlglot import exp

from shoal.catalog import CARRIED_OWNER, fold
from shoal.engines.base import EngineFailure
from shoal.engines.duckdb.checking.reading import UnwrittenError
from shoal.engines.duckdb.checking.string_bounds import LONG, Statistics, Strings
from shoal.engines.duckdb.connection import BATCH_ROWS, Connected
from shoal.engines.duckdb.settings import LOCKDOWN
from shoal.engines.duckdb.views import Stored, fragile, read_in_copy, read_in_place, refuse_many_pairs
from shoal.engines.statements.bound_owners import N
from shoal.engines.statements.carried_owners import named_rows, through_reference
from shoal.engines.statements.relations import aliased, call, column, name, select
from shoal.errors import InternalError, ShoalError
from shoal.plan.types import Kind
from shoal.sql import functions
from shoal.sql.functions import type_of

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable
    from pathlib import Path

    import pyarrow as pa

    from shoal.engines.duckdb.sound_files import Stamp
    from shoal.plan.types import Type


class KnownTables(Connected):
    """A connection that knows its tables. `_sources` says what is read for each, `_places` which database and schema has it."""

    _frames: dict[str, pa.Table]
    _files: dict[Path, Stamp]
    _holds_frames_alone: bool
    _sources: dict[str, exp.Expr]
    _schemas: dict[str, list[tuple[str, str]]]
    _places: dict[str, tuple[str, str]]

    def _refresh(self, tables: Iterable[str] | None) -> None:
        """Names and types of all tables and views, read once; `tables` are those of a database of ours, where they are known."""
        if tables is not None:
            rows = self._columns_of(tables, "memory")
        elif self._holds_frames_alone:
            rows = self._columns_of(sorted(self._frames), "temp")
        else:
            rows = self._stored_columns()
        current = self._connection.sql(
            "SELECT system.main.current_database(), system.main.current_schema()"
        ).fetchall()[0]
        ranked = sorted(rows, key=lambda row: 0 if row[:2] == current else 1 if row[0] == "temp" else 2)
        for database, schema, table, stored, data_type in ranked:
            place = self._places.setdefault(fold(table), (database, schema))
            if place == (database, schema):
                self._schemas.setdefault(fold(table), []).append((stored, data_type))
                self._sources[fold(table)] = exp.Table(this=name(table), db=name(schema), catalog=name(database))

    def _stored_columns(self) -> list[tuple[str, ...]]:
        return self._connection.sql(
            "SELECT database_name, schema_name, table_name, column_name, data_type FROM system.main.duckdb_columns() "
            "WHERE NOT internal ORDER BY database_name, schema_name, table_name, column_index"
        ).fetchall()

    def _columns_of(self, tables: Iterable[str], database: str) -> list[tuple[str, ...]]:
        """The same of some tables of ours: to list what there is, the engine writes its whole catalogue out first."""
        found: list[tuple[str, ...]] = []
        for table in tables:
            place = exp.Table(this=name(table), db=name("main"), catalog=name(database))
            described = self._connection.sql(select([exp.Star()], place).sql(dialect="duckdb"))
            found += [
                (database, "main", table, *each)
                for each in zip(described.columns, map(str, described.types), strict=True)
            ]
        return found

    def tables(self) -> dict[str, list[tuple[str, str]]]:
        """Every table and view of the connection."""
        return dict(self._schemas)

    def add_view(self, view: str, sql: str, *, trusted: bool = True) -> list[tuple[str, str]]:
        """The custodian's SQL as a subquery: trusted text, parsed so that it stays one relation."""
        try:
            tree = sqlglot.parse_one(sql, dialect="duckdb")
            with self._lock:
                described = self._connection.sql(tree.sql(dialect="duckdb"))
                columns = list(zip(described.columns, map(str, described.types), strict=True))
        except (sqlglot.errors.SqlglotError, duckdb.Error):
            raise ShoalError(
                "E_CATALOG", f"The view of table {view!r} in the catalog is not a query this database can run."
            ) from None
        if not trusted:
            self._refuse_fragile(view, tree)
        self._sources[fold(view)] = exp.Subquery(this=tree, alias=exp.TableAlias(this=name(view)))
        self._schemas[fold(view)] = columns
        return columns

    def refuse_fragile_view(self, view: str) -> None:
        """E_CATALOG where reading a table of the source computes something that could fail on single rows."""
        if not self._is_ours:
            self._refuse_fragile(view, select([exp.Star()], self._sources[fold(view)].copy()))

    @property
    def _is_ours(self) -> bool:
        """Whether the tables are files and frames that we opened: reading them computes what we wrote, which is total."""
        return bool(self._files or self._frames)

    def _refuse_fragile(self, view: str, tree: exp.Expr) -> None:
        try:
            if self._is_ours:
                read_in_copy(tree, self._schemas, Stored(), LOCKDOWN, Statistics(self._most_alike, self._strings))
            else:
                self._read_in_place(tree)
        except InternalError as found:
            raise fragile(view, found) from None
        except EngineFailure:
            raise ShoalError("E_SOURCE", f"The tables below the view of {view!r} cannot be counted.") from None

    def _read_in_place(self, tree: exp.Expr) -> None:
        with self._lock:
            try:
                plan = read_in_place(self._connection, tree)
            except UnwrittenError:
                plan, stored = None, Stored.of(self._connection, self._places)
        if plan is not None:
            return refuse_many_pairs(plan, Statistics(self._most_alike_in_place, self._strings_in_place))
        read_in_copy(tree, self._schemas, stored, LOCKDOWN, Statistics(self._most_alike, self._strings))
        for frame in sorted(stored.frames_under(tree)):
            self._refuse_unreadable_frame(frame)
        return None

    def _most_alike(self, place: tuple[str, ...], columns: tuple[str, ...], nulls: bool) -> int:
        """The rows of the most frequent values of some columns, in a table that we know by its name; of none, all rows."""
        return self._rows_alike(self._sources[fold(place[-1])].copy(), columns, nulls=nulls)

    def _most_alike_in_place(self, place: tuple[str, ...], columns: tuple[str, ...], nulls: bool) -> int:
        """The same of a table of the connection; one that is declared a key needs no counting, and stays one."""
        if columns and self._has_key(place, columns, nulls=nulls):
            return 1
        database, schema, table = map(name, place)
        return self._rows_alike(exp.Table(this=table, db=schema, catalog=database), columns, nulls=nulls)

    def _strings(self, place: tuple[str, ...], columns: tuple[str, ...]) -> Strings:
        """How long strings are in a table that we know by its name."""
        return self._measured(self._sources[fold(place[-1])].copy(), columns)

    def _strings_in_place(self, place: tuple[str, ...], columns: tuple[str, ...]) -> Strings:
        """The same of a table of the connection."""
        database, schema, table = map(name, place)
        return self._measured(exp.Table(this=table, db=schema, catalog=database), columns)

    def _measured(self, source: exp.Expr, columns: tuple[str, ...]) -> Strings:
        size = column(N)
        rows = exp.Subquery(this=select([aliased(_bytes_of(columns), N)], source), alias=exp.TableAlias(this=name("t")))
        many = exp.Case().when(exp.GT(this=size.copy(), expression=exp.Literal.number(LONG)), size.copy())
        asked = [call("max", size), call("sum", size.copy()), call("sum", many)]
        found = self._table(select([aliased(each, f"n{i}") for i, each in enumerate(asked)], rows))
        longest, whole, long = (int(found.column(i)[0].as_py() or 0) for i in range(len(asked)))
        return Strings(longest, whole, long, min(longest, LONG))

    def _has_key(self, place: tuple[str, ...], columns: tuple[str, ...], *, nulls: bool) -> bool:
        with self._lock:
            keys = self._connection.execute(
                "SELECT constraint_type, constraint_column_names FROM system.main.duckdb_constraints() "
                "WHERE database_name = ? AND schema_name = ? AND table_name = ?",
                list(place),
            ).fetchall()
        wanted = {"PRIMARY KEY"} if nulls else {"PRIMARY KEY", "UNIQUE"}
        return any(kind in wanted and set(key) <= set(columns) for kind, key in keys)

    def _rows_alike(self, source: exp.Expr, columns: tuple[str, ...], *, nulls: bool) -> int:
        counts = select([aliased(call("count_star"), N)], source)
        if columns:
            values = [column(each) for each in columns]
            counts.set("group", exp.Group(expressions=values))
            if not nulls:
                present = [exp.Not(this=exp.Is(this=each.copy(), expression=exp.Null())) for each in values]
                counts = counts.where(*present)
        most = select([call("max", column(N))], exp.Subquery(this=counts, alias=exp.TableAlias(this=name("t"))))
        return int(self._table(most).column(0)[0].as_py() or 0)

    def _refuse_unreadable_frame(self, frame: str) -> None:
        """E_SOURCE for a registered data frame with a value of another type than the rest: its scan fails on that one."""
        known = [stored for stored, type_ in self._schemas[frame] if type_of(type_).kind is not Kind.UNSUPPORTED]
        try:
            for _ in self.columns(frame, known):
                pass
        except EngineFailure:
            pass
        else:
            return
        raise ShoalError(
            "E_SOURCE",
            f"The data frame {frame!r} that was registered holds values that cannot be read as its columns' types.",
            hint="Give every column one type, or pass the frame in as {name: frame}.",
        )

    def carry_owner(self, table: str, through: tuple[str, Type], to: str, key: tuple[str, Type], owner: str) -> None:
        """The table joined with the one that knows its owners."""
        stored = [each for each, _ in self._schemas[fold(table)]]
        source, target = self._sources[fold(table)], self._sources[fold(to)]
        tree = through_reference(source, stored, through, target, key, owner)
        type_ = next(type_ for each, type_ in self._schemas[fold(to)] if fold(each) == fold(owner))
        self._add_owner(table, tree, type_)

    def name_rows(self, table: str, columns: Iterable[tuple[str, Type]]) -> None:
        """The table with a name for each row."""
        usable = [(each, type_) for each, type_ in columns if type_.kind is not Kind.UNSUPPORTED]
        stored = [each for each, _ in self._schemas[fold(table)]]
        self._add_owner(table, named_rows(self._sources[fold(table)], stored, usable), "VARCHAR")

    def _add_owner(self, table: str, tree: exp.Select, type_: str) -> None:
        self._sources[fold(table)] = exp.Subquery(this=tree, alias=exp.TableAlias(this=name(table)))
        self._schemas[fold(table)] = [*self._schemas[fold(table)], (CARRIED_OWNER, type_)]

    def row_counts(self, names: list[str]) -> dict[str, int]:
        """Sizes of public tables."""
        counts = {}
        for table in names:
            query = select([call("count_star")], self._sources[fold(table)].copy())
            counts[fold(table)] = int(self._table(query).column(0)[0].as_py())
        return counts

    def repeats(self, table: str, columns: Iterable[tuple[str, Type]]) -> dict[str, int]:
        """The rows of the most frequent value of each column, values compared as queries compare them."""
        found: dict[str, int] = {}
        for column_, type_ in columns:
            if type_.kind is Kind.UNSUPPORTED:
                continue
            value = functions.key_form(functions.scan_form(column(column_), type_), type_)
            values = select([aliased(value, "v"), aliased(call("count_star"), "n")], self._sources[fold(table)].copy())
            values.set("group", exp.Group(expressions=[exp.Literal.number(1)]))
            most = select([call("max", column("n"))], exp.Subquery(this=values, alias=exp.TableAlias(this=name("t"))))
            found[column_] = int(self._table(most).column(0)[0].as_py() or 0)
        return found

    def longest_texts(self, table: str, columns: Iterable[tuple[str, Type]]) -> dict[str, int]:
        """The bytes of the longest string of each column, as queries over private rows see them."""
        texts = [(column_, type_) for column_, type_ in columns if type_.kind is Kind.TEXT]
        if not texts:
            return {}
        values = (functions.scan_form(column(column_), type_) for column_, type_ in texts)
        query = select([call("max", call("strlen", value)) for value in values], self._sources[fold(table)].copy())
        found = self._table(query).columns
        return {column_: int(most[0].as_py() or 0) for (column_, _), most in zip(texts, found, strict=True)}

    def combinations(self, table: str, columns: list[str]) -> Generator[pa.RecordBatch]:
        """Every combination of some columns' values with its number of rows, for side tools that count."""
        types = dict(self._schemas[fold(table)])
        keys = [_as_bytes(exp.Column(this=name(each)), types[each]) for each in columns]
        named = [aliased(key, f"k{position}") for position, key in enumerate(keys)]
        query = select([*named, aliased(call("count_star"), N)], self._sources[fold(table)].copy())
        query.set("group", exp.Group(expressions=[key.copy() for key in keys]))
        yield from self._batches(query)

    def columns(self, table: str, columns: list[str], longest_text: int | None = None) -> Generator[pa.RecordBatch]:
        """The rows of some columns, in no order that means anything; strings beyond a length are NULL, where one is given."""
        types = dict(self._schemas[fold(table)])
        is_text = [longest_text is not None and types[each] == "VARCHAR" for each in columns]
        values: list[exp.Expr] = [exp.Column(this=name(each)) for each in columns]
        if longest_text is not None:
            pairs = zip(values, is_text, strict=True)
            values = [_if_short(value, longest_text) if text else value for value, text in pairs]
        named = [aliased(value, f"k{position}") for position, value in enumerate(values)]
        rows = TEXT_ROWS if any(is_text) else BATCH_ROWS
        yield from self._batches(select(named, self._sources[fold(table)].copy()), rows)


TEXT_ROWS = 1 << 12
"""Rows at a time where they have strings of private rows: together these may be as long as their limit says."""


def _if_short(value: exp.Expr, longest: int) -> exp.Expr:
    short = exp.LTE(this=call("strlen", value), expression=exp.Literal.number(longest))
    return exp.Case(ifs=[exp.If(this=short, true=value.copy())])


def _as_bytes(value: exp.Expr, data_type: str) -> exp.Expr:
    """A text column compared by its bytes, whatever collation it was declared with."""
    return exp.Collate(this=exp.Paren(this=value), expression=name("binary")) if data_type == "VARCHAR" else value


def _bytes_of(columns: tuple[str, ...]) -> exp.Expr:
    """How many bytes some values of a row take as text."""
    found: exp.Expr = exp.Literal.number(0)
    for each in columns:
        text = exp.TryCast(this=column(each), to=exp.DataType.build("VARCHAR", dialect="duckdb"))
        size = exp.Coalesce(this=call("strlen", text), expressions=[exp.Literal.number(0)])
        found = exp.Add(this=found, expression=size)
    return found
