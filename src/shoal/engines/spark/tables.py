"""The tables of a Spark session: which ones there are, and what of them is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shoal.catalog import CARRIED_OWNER, fold
from shoal.engines.reading import Need, is_private
from shoal.engines.spark.decoding import SparkDecoding, ticked
from shoal.engines.spark.plans import fragile_part, is_made_of_rows
from shoal.engines.spark.task import Columns
from shoal.engines.spark.types import compared, is_collated, is_read, named, narrowing, sound_number, sound_text
from shoal.errors import ShoalError
from shoal.plan import nodes
from shoal.plan.traverse import all_nodes
from shoal.plan.types import Kind
from shoal.sql.functions.forms import LONGEST_TEXT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shoal.catalog import Catalog, Table
    from shoal.plan.totals import TotalsQuery
    from shoal.plan.types import Type

KEY = "(key)"
WHOLE_NUMBERS = frozenset({"TINYINT", "SMALLINT", "INTEGER", "BIGINT"})


class SparkTables(SparkDecoding):
    """What a catalog names, as frames of a session."""

    _catalog: Catalog | None
    _frames: dict[str, Any]
    _fragile: dict[str, str | None]
    _made_of_rows: dict[str, bool]
    _named_rows: dict[str, tuple[tuple[str, Type], ...]]

    def _named(self, catalog: Catalog | None) -> dict[str, str]:
        if catalog is not None:
            return {key: t.source or t.name for key, t in catalog.tables.items() if t.view is None}
        found = self._quietly(self._spark.catalog.listTables) or []
        return {fold(table.name): table.name for table in found}

    def _keep(self, key: str, frame: Any) -> None:
        if self._quietly(lambda: frame.schema) is None:
            return
        self._frames[key] = frame
        plan = self._quietly(lambda: explained(frame)) or ""
        self._fragile[key] = fragile_part(plan)
        self._made_of_rows[key] = is_made_of_rows(plan)

    def _refuse_alike(self, table: str, code: str) -> None:
        """Two columns of one name: no query could say which one it means."""
        frame = self._frames.get(fold(table))
        names = [fold(field.name) for field in frame.schema.fields] if frame is not None else []
        for name in names:
            if names.count(name) > 1:
                raise ShoalError(
                    code,
                    f"The table {table!r} has several columns called {name!r} (names are compared without case).",
                    hint="Give each a name of its own in the table's view: SELECT a AS first, b AS second FROM …",
                )

    def _refuse_loose_owner(self, table: Table) -> None:
        frame = self._frames.get(fold(table.name))
        for field in frame.schema.fields if frame is not None and table.owner is not None else ():
            if fold(field.name) == fold(table.owner or "") and is_collated(field.dataType):
                raise ShoalError(
                    "E_SOURCE",
                    f"The owner column of {table.name!r} has a collation under which different strings are equal.",
                    hint="Cast it to a plain string in the table's view.",
                )

    def tables(self) -> dict[str, list[tuple[str, str]]]:
        """The catalog's tables."""
        found = {key: [(f.name, named(f.dataType)) for f in frame.schema.fields] for key, frame in self._frames.items()}
        for table in self._named_rows:
            found[table].append((CARRIED_OWNER, "VARCHAR"))
        return found

    def add_view(self, view: str, sql: str, *, trusted: bool = True) -> list[tuple[str, str]]:
        """The custodian's Spark SQL."""
        frame = self._quietly(lambda: self._spark.sql(sql))
        schema = None if frame is None else self._quietly(lambda: frame.schema)
        if schema is None:
            raise ShoalError(
                "E_CATALOG", f"The view of table {view!r} in the catalog is not a query this Spark session can run."
            )
        self._keep(fold(view), frame)
        self._refuse_alike(view, "E_CATALOG")
        if not trusted:
            self.refuse_fragile_view(view)
        return self.tables()[fold(view)]

    def refuse_fragile_view(self, name: str) -> None:
        """E_CATALOG for what computes or converts anything: Spark says of no expression that it cannot fail.

        E_SOURCE for private tables whose stored values cannot all be read.
        """
        key = fold(name)
        found = self._fragile[key]
        if found is None:
            if is_private(self._catalog, key):
                self._decode(key, self._frames[key], whole=self._made_of_rows[key])
            return
        raise ShoalError(
            "E_CATALOG",
            f"Reading {name!r} can fail on single rows: {found}.",
            hint="Store it as parquet, or keep it to columns of such tables. If no row can fail, say trusted_view = true.",
        )

    def carry_owner(self, table: str, through: tuple[str, Type], to: str, key: tuple[str, Type], owner: str) -> None:
        """Spark joins the owner in, where values are sure to be compared as queries compare them."""
        frames = self._frames[fold(table)], self._frames[fold(to)]
        pairs = zip(frames, (through, key), strict=True)
        mine, other = (
            compared(self._f, frame.schema[name].dataType, ticked(name), type_) for frame, (name, type_) in pairs
        )
        if mine is None or other is None or through[1].kind is not key[1].kind or fold(to) in self._named_rows:
            raise ShoalError(
                "E_CATALOG",
                f"The owner of {table!r} cannot be carried over on Spark, except by whole numbers, dates or strings.",
                hint="Join the owner in by the table's view, or write the table with it.",
            )
        known = frames[1].select(other.alias(KEY), self._f.col(ticked(owner)).alias(CARRIED_OWNER))
        self._frames[fold(table)] = frames[0].join(known, mine == self._f.col(ticked(KEY)), "inner").drop(KEY)
        self._fragile[fold(table)] = self._fragile[fold(table)] or self._fragile[fold(to)]

    def name_rows(self, table: str, columns: Iterable[tuple[str, Type]]) -> None:
        """Rows are named where they are measured; equal ones come there together."""
        self._named_rows[fold(table)] = tuple(each for each in columns if each[1].kind is not Kind.UNSUPPORTED)

    # ---- what is read -------------------------------------------------------------------------------------------

    def _owner(self, query: TotalsQuery, need: Need) -> list[Any]:
        """The owner in a form that is the same in all tables; whole numbers that are stored as reals are read as such."""
        if need.table in self._named_rows:
            return self._content(need.table)
        type_ = self._owner_type(query, need)
        column = self._f.col(ticked(str(need.owner)))
        forms = {"integer": "bigint", "date": "date", "boolean": "boolean"}
        target = str(type_) if type_.kind.value == "decimal" else forms.get(type_.kind.value)
        if type_.kind.value == "timestamp":
            return [self._f.lit(0)]  # instants with and without a zone have no common text
        return [column.try_cast(target) if target else column.cast("string")]

    def _are_cut_by_tasks(self, query: TotalsQuery, owned: Iterable[Need]) -> bool:
        """Whether owners are stored as whole numbers, or as strings: they need no other form to be the same in all tables."""
        kinds = {self._stored_kind(query, need) for need in owned}
        return len(kinds) == 1 and None not in kinds

    def _stored_kind(self, query: TotalsQuery, need: Need) -> Kind | None:
        if need.table in self._named_rows:
            return None
        stored, kind = dict(self.tables()[need.table])[str(need.owner)], self._owner_type(query, need).kind
        plain = {Kind.INTEGER: WHOLE_NUMBERS, Kind.TEXT: frozenset({"VARCHAR"})}
        return kind if stored in plain.get(kind, frozenset()) else None

    def _owner_type(self, query: TotalsQuery, need: Need) -> Type:
        scan = next(
            n
            for n in all_nodes(query.input)
            if isinstance(n, nodes.Scan) and n.table == need.table and n.owner is not None
        )
        return nodes.field_of(scan, scan.owner or "").type

    def _content(self, table: str) -> list[Any]:
        """Something that is equal for rows that queries cannot tell apart."""
        schema = self._frames[table].schema
        forms = [
            compared(self._f, schema[name].dataType, ticked(name), type_) for name, type_ in self._named_rows[table]
        ]
        return [form for form in forms if form is not None] or [self._f.lit(0)]

    def _read(self, need: Need) -> list[str]:
        """The needed columns; of a view all of them, so that no query decides what is computed."""
        if need.table in self._named_rows:
            return [name for name, _ in self._named_rows[need.table]]
        if self._fragile[need.table] is None:
            return list(need.columns)
        return [name for name, type_ in self.tables()[need.table] if is_read(type_)]

    def _columns(self, need: Need) -> Columns:
        types = dict(self.tables()[need.table])
        return Columns(need.table, tuple((name, types[name]) for name in self._read(need)))

    def _scanned(self, need: Need) -> Any:
        frame = self._frames[need.table]
        if need.owner is not None and need.table not in self._named_rows:
            frame = frame.where(self._f.col(ticked(need.owner)).isNotNull())
        if self._fragile[need.table] is None:
            for conjunct in need.conjuncts:
                stored = frame.schema[conjunct.column].dataType
                condition = narrowing(self._f, stored, ticked(conjunct.column), conjunct)
                frame = frame if condition is None else frame.where(condition)
        return frame.select(*(self._handed_over(frame, need.table, column) for column in self._read(need)))

    def _handed_over(self, frame: Any, table: str, name: str) -> Any:
        """A column; strings of private rows that no query would read stay where they are: tasks get rows in blocks of 2 GiB."""
        stored = frame.schema[name].dataType
        if named(stored) != "VARCHAR":
            return sound_number(self._f, ticked(name), stored).alias(name)
        longest = LONGEST_TEXT if is_private(self._catalog, table) else None
        return sound_text(self._f, ticked(name), longest).alias(name)


def explained(frame: Any) -> str:
    """The plans of a frame, as Spark prints them."""
    if hasattr(frame, "_jdf"):
        return str(frame._jdf.queryExecution().toString())  # noqa: SLF001 - the classic frame has no other way
    return str(frame._explain_string(extended=True))  # noqa: SLF001 - nor has that of Connect


def planned(frame: Any) -> str:
    """How Spark runs a frame, with all details."""
    if hasattr(frame, "_jdf"):
        context = frame.sparkSession.sparkContext
        return str(context._jvm.PythonSQLUtils.explainString(frame._jdf.queryExecution(), "formatted"))  # noqa: SLF001 - the classic frame only prints it
    return str(frame._explain_string(mode="formatted"))  # noqa: SLF001 - so does that of Connect
