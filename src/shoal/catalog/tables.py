"""The catalog: what a custodian says about the data. Tables that are not in it do not exist for queries.

>>> catalog = Catalog.from_dict({"tables": {"visits": {"owner": "uid", "columns": {"spend": {"bounds": [0, 500]}}}}})
>>> catalog.table("VISITS").owner
'uid'
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import re
import string
import tomllib
from dataclasses import field, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal.catalog.defaults import MAX_GROUPS_PER_OWNER, Defaults, known_keys, read_defaults, wrong
from shoal.errors import ShoalError
from shoal.exact import as_fraction
from shoal.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shoal.policies.policy import Policy

MAX_DOMAIN_VALUES = 100_000
EACH_ROW = "each row"
"""What a catalog writes for the owner where one row is one person."""
CARRIED_OWNER = "(owner)"
"""The column that carries the owner of a row whose own columns do not name it. No query can speak of it."""
_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def fold(name: str) -> str:
    """Names are compared without case, in ASCII only: other letters have too many spellings."""
    return name.translate(_LOWER)


def quoted(name: str) -> str:
    """A name as a query can write it.

    >>> quoted("order_id"), quoted("Order Details"), quoted("group")
    ('order_id', '"Order Details"', '"group"')
    """
    plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) and name.upper() not in {
        "GROUP",
        "ORDER",
        "SELECT",
        "FROM",
        "WHERE",
        "TABLE",
        "USER",
    }
    return name if plain else '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """Public knowledge about one column; using it costs nothing."""

    bounds: tuple[Fraction, Fraction] | None = None
    values: tuple[Any, ...] | None = None
    type: str | None = None
    period: tuple[dt.date, dt.date] | None = None
    """The first and the last day, where the bounds are days."""


@dataclass(frozen=True, slots=True)
class CsvOptions:
    """How the values of a CSV file are written, where that is not as usual."""

    delimiter: str | None = None
    null: tuple[str, ...] = ()
    date_format: str | None = None
    timestamp_format: str | None = None
    decimal: str = "."
    thousands: str | None = None
    """What separates groups of three digits, as in 1,234,567."""


@dataclass(frozen=True, slots=True)
class TablePolicy:
    """A policy that queries may name, and how many rows of an owner it lets in."""

    rule: Policy
    max_rows_per_owner: int = 1


@dataclass(frozen=True, slots=True)
class Reference:
    """A column whose values are those of a key of another table."""

    column: str
    to: str
    key: str


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the catalog: private with an owner, or public.

    `owner` is the column that holds the owner. Where the owner is in another table (`through`), or is the row itself
    (`each_row`), it is a column that the engine adds.
    """

    name: str
    owner: str | None
    owner_kind: str | None
    view: str | None = None
    max_rows_per_owner_and_group: int | None = None
    columns: Mapping[str, ColumnFacts] = field(default_factory=dict)
    policies: Mapping[str, TablePolicy] = field(default_factory=dict)
    trusted_view: bool = False
    through: Reference | None = None
    each_row: bool = False
    references: tuple[Reference, ...] = ()
    source: str | None = None
    one_row_per_owner: bool = False
    """Whether an owner counts with one row alone: so it is with `each_row`, elsewhere the custodian says so."""
    csv: CsvOptions | None = None
    lookups: tuple[Reference, ...] = ()
    """Columns that hold keys of public tables: how many different values they can have is public."""

    @property
    def carries_owner(self) -> bool:
        """Whether the owner is in a column that the engine adds."""
        return self.through is not None or self.each_row

    @property
    def owner_in_words(self) -> str | None:
        """Whose a row is, as people say it."""
        if self.through is not None:
            return f"through {self.through.column} to {self.through.to}"
        return EACH_ROW if self.each_row else self.owner

    @property
    def public(self) -> bool:
        """Whether nobody owns its rows."""
        return self.owner is None

    def facts(self, column: str) -> ColumnFacts:
        """What is known about a column, or nothing."""
        return self.columns.get(fold(column), ColumnFacts())


@dataclass(frozen=True, slots=True)
class Catalog:
    """All tables a query may name, and the defaults."""

    tables: Mapping[str, Table]
    defaults: Defaults = field(default_factory=Defaults)
    version: str = ""

    def __post_init__(self) -> None:
        if not all(isinstance(table, Table) for table in self.tables.values()):
            raise wrong("A catalog is made by Catalog.from_dict(data) or Catalog.from_toml(path).")

    @classmethod
    def load(cls, source: Catalog | Mapping[str, Any] | str | Path) -> Catalog:
        """A catalog from a dict, a TOML path or itself."""
        if isinstance(source, Catalog):
            return source
        if isinstance(source, (str, Path)):
            return cls.from_toml(source)
        if isinstance(source, dict):
            return cls.from_dict(source)
        raise wrong("A catalog is a dict, the path of a TOML file, or a shoal.Catalog.")

    @classmethod
    def from_toml(cls, path: str | Path) -> Catalog:
        """Reads a TOML file."""
        try:
            with Path(path).open("rb") as file:
                return cls.from_dict(tomllib.load(file, parse_float=Fraction))
        except OSError:
            raise wrong(f"The catalog file {str(path)!r} cannot be read.", "shoal init writes a first one.") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise wrong(f"The catalog file {str(path)!r} is not valid TOML: {error}.") from None
        except ValueError:
            raise wrong(
                f"The catalog file {str(path)!r} cannot be read: it contains an invalid name or number."
            ) from None

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Catalog:
        """Reads the same structure from a dict."""
        known_keys("The catalog", data, {"tables", "defaults", "service"})
        raw_tables = data.get("tables", {})
        if not isinstance(raw_tables, dict) or not raw_tables:
            raise wrong("The catalog names no tables.", 'Add a section such as [tables.visits] with owner = "uid".')
        tables: dict[str, Table] = {}
        for name, raw in raw_tables.items():
            if fold(name) in tables:
                raise wrong(f"The catalog names the table {name!r} twice (names are case-insensitive).")
            tables[fold(name)] = _read_table(name, raw)
        resolve_owners(tables)
        canonical = json.dumps(data, sort_keys=True, default=str)
        version = hashlib.sha256(canonical.encode()).hexdigest()[:16]
        return cls(tables, read_defaults(data.get("defaults", {})), version)

    def table(self, name: str) -> Table | None:
        """The table of that name, or None."""
        return self.tables.get(fold(name))


_OF_TABLES = frozenset(
    {
        "owner",
        "owner_kind",
        "public",
        "view",
        "trusted_view",
        "source",
        "columns",
        "references",
        "max_rows_per_owner_and_group",
        "one_row_per_owner",
        "csv",
        "policies",
    }
)


def _read_table(name: str, raw: Any) -> Table:
    where = f"table {name!r}"
    known_keys(f"In the catalog, {where}", raw, _OF_TABLES)
    owner, through, each_row = _read_owner(where, raw)
    view, kind, rows, source = _read_place(where, raw)
    described = raw.get("columns", {})
    if not isinstance(described, dict):
        raise wrong(f"In the catalog, the columns of {where} must be a section with keys.")
    columns = {fold(one): _read_column(f"column {one!r} of {where}", facts) for one, facts in described.items()}
    policies = _read_policies(where, raw.get("policies", {}), owner)
    if each_row:
        if kind is not None or rows not in {None, 1}:
            raise wrong(
                f'In the catalog, {where}: with owner = "each row", leave out owner_kind and max_rows_per_owner_and_group.'
            )
        kind, rows = f"{EACH_ROW} of {fold(name)}", 1
    single = _read_one_row(where, raw, rows, each_row=each_row, private=owner is not None)
    references = _read_references(where, raw.get("references", {}), through)
    kind = kind or (fold(owner) if owner and through is None else None)
    rows = 1 if single else rows
    trusted, csv = raw.get("trusted_view", False), _read_csv(where, raw.get("csv"))
    return Table(
        name, owner, kind, view, rows, columns, policies, trusted, through, each_row, references, source, single, csv
    )


def _read_owner(where: str, raw: Any) -> tuple[str | None, Reference | None, bool]:
    """The column of the owner (None in a public table), the reference it is carried through, and whether each row is one."""
    owner, public = raw.get("owner"), raw.get("public", False)
    through, each_row = None, owner == EACH_ROW
    if isinstance(owner, dict):
        through = _read_reference(f"{where}: owner", owner.get("through"), owner, {"through", "to", "key"})
    if through is not None or each_row:
        owner = CARRIED_OWNER
    if not isinstance(raw.get("trusted_view", False), bool):
        raise wrong(f"In the catalog, {where}: trusted_view must be true or false.")
    if not isinstance(public, bool) or (owner is not None and not (isinstance(owner, str) and owner)):
        raise wrong(
            f"In the catalog, {where}: owner must be the name of a column, and public true or false.",
            f'Or owner = "{EACH_ROW}", or owner = {{ through = "order_id", to = "orders" }}.',
        )
    if (owner is None) != public:
        raise wrong(
            f'In the catalog, {where} must say either owner = "column" or public = true.',
            "No table is public unless the catalog says so.",
        )
    return owner, through, each_row


def _read_place(where: str, raw: Any) -> tuple[str | None, str | None, int | None, str | None]:
    """View, kind of owner, rows of an owner in a group, and the table of the source."""
    view, kind, rows = raw.get("view"), raw.get("owner_kind"), raw.get("max_rows_per_owner_and_group")
    if (view is not None and not isinstance(view, str)) or (kind is not None and not isinstance(kind, str)):
        raise wrong(f"In the catalog, {where}: view and owner_kind must be strings.")
    source = raw.get("source")
    if source is not None and (not isinstance(source, str) or not source or view is not None):
        raise wrong(f'In the catalog, {where}: source must be "schema.table", and cannot be combined with view.')
    if rows is not None and (not isinstance(rows, int) or isinstance(rows, bool) or not 1 <= rows <= 2**40):
        raise wrong(f"In the catalog, {where}: max_rows_per_owner_and_group must be a whole number of at least 1.")
    return view, kind, rows, source


THOUSANDS = (",", ".", " ", "'")
"""What may separate groups of three digits."""
_SPELLINGS = re.compile(r"([^%]|%[dmYyHMSfIpbBj-])*")
"""Formats of dates whose every part is a number or the name of a month."""


def _read_csv(where: str, raw: Any) -> CsvOptions | None:
    if raw is None:
        return None
    keys = {"delimiter", "null", "date_format", "timestamp_format", "decimal", "thousands"}
    known_keys(f"In the catalog, csv of {where}", raw, keys)
    null = raw.get("null", [])
    null = [null] if isinstance(null, str) else null
    delimiter, decimal = raw.get("delimiter"), raw.get("decimal", ".")
    if not isinstance(null, list) or not all(isinstance(each, str) for each in null):
        raise wrong(f"In the catalog, csv of {where}: null is a string, or a list of strings, that means missing.")
    if decimal not in {".", ","} or (delimiter is not None and (not isinstance(delimiter, str) or len(delimiter) != 1)):
        raise wrong(f"In the catalog, csv of {where}: delimiter is one character, and decimal a point or a comma.")
    thousands = raw.get("thousands")
    if thousands is not None and (thousands not in THOUSANDS or thousands == decimal):
        raise wrong(
            f"In the catalog, csv of {where}: thousands is a comma, a point, a space or an apostrophe, "
            "and not what decimal is."
        )
    for key in ("date_format", "timestamp_format"):
        pattern = raw.get(key)
        if pattern is not None and not (isinstance(pattern, str) and "%" in pattern and _SPELLINGS.fullmatch(pattern)):
            raise wrong(
                f"In the catalog, csv of {where}: {key} is made of %d %m %Y %y %b %B %j %H %I %p %M %S %f.",
                'For example date_format = "%d/%m/%Y".',
            )
    return CsvOptions(delimiter, tuple(null), raw.get("date_format"), raw.get("timestamp_format"), decimal, thousands)


def _read_one_row(where: str, raw: Mapping[str, Any], rows: int | None, *, each_row: bool, private: bool) -> bool:
    single = raw.get("one_row_per_owner", each_row)
    if not isinstance(single, bool) or (single and not private) or (each_row and not single):
        raise wrong(f"In the catalog, {where}: one_row_per_owner is true or false, and about a table with an owner.")
    if single and rows not in {None, 1}:
        raise wrong(f"In the catalog, {where}: with one_row_per_owner, leave out max_rows_per_owner_and_group.")
    return single


def _read_references(where: str, raw: Any, through: Reference | None) -> tuple[Reference, ...]:
    """As in { order_id = "orders", shipment = { to = "shipments", key = "id" } }; the owner's own is one of them."""
    if not isinstance(raw, dict):
        raise wrong(f"In the catalog, the references of {where} must be a section with keys.")
    found = [
        _read_reference(f"{where}: references", column, {"to": to} if isinstance(to, str) else to, {"to", "key"})
        for column, to in raw.items()
    ]
    return (*((through,) if through is not None else ()), *found)


def _read_reference(where: str, column: Any, raw: Any, known: set[str]) -> Reference:
    known_keys(f"In the catalog, {where}", raw, known)
    to, key = raw.get("to"), raw.get("key", column)
    if not all(isinstance(part, str) and part for part in (column, to, key)):
        raise wrong(
            f"In the catalog, {where} must name a column and the table that it leads to.",
            'For example owner = { through = "order_id", to = "orders" }; key = "id" where the column has another name there.',
        )
    return Reference(column, to, key)


def resolve_owners(tables: dict[str, Table]) -> None:
    """References lead to tables of the catalog; owners that are reached through some are of the same kind."""
    for name, known in tables.items():
        for reference in known.references:
            target = tables.get(fold(reference.to))
            if target is None or known.public or (target.public and reference == known.through):
                raise wrong(
                    f"In the catalog, {reference.column!r} of table {known.name!r} refers to {reference.to!r}: "
                    "references lead from a private table to another one, or to a public list.",
                    "The owner is in a private table.",
                )
        table = _with_lookups(tables, known)
        kind = root_of(tables, table).owner_kind
        if table.owner_kind not in {None, kind}:
            raise wrong(f"In the catalog, table {table.name!r} has the owner_kind of the table that its owner is in.")
        tables[name] = replace(table, owner_kind=kind)


def _with_lookups(tables: Mapping[str, Table], table: Table) -> Table:
    """The table with its references to public lists apart: they say what values there can be, and nothing about owners."""
    public = tuple(r for r in table.references if tables[fold(r.to)].public)
    return replace(table, references=tuple(r for r in table.references if r not in public), lookups=public)


def root_of(tables: Mapping[str, Table], table: Table) -> Table:
    """The table in which the owner of a table's rows is a column, however many references lead there."""
    seen = {fold(table.name)}
    while table.through is not None:
        table = tables[fold(table.through.to)]
        if fold(table.name) in seen:
            raise wrong(f"In the catalog, the owner of table {table.name!r} is reached through itself.")
        seen.add(fold(table.name))
    return table


def _read_policies(where: str, raw: Any, owner: str | None) -> dict[str, TablePolicy]:
    """[tables.people.policies.nearby_age]: a domain, a secret, known counts, rows per owner."""
    if not isinstance(raw, dict):
        raise wrong(f"In the catalog, the policies of {where} must be a section with keys.")
    found: dict[str, TablePolicy] = {}
    for name, written in raw.items():
        here = f"In the catalog, policy {name!r} of {where}"
        known_keys(here, written, {"domain", "secret", "known", "max_rows_per_owner"})
        if owner is None:
            raise wrong(f"{here}: a public table has nobody to protect.")
        if fold(name) in found:
            raise wrong(f"{here} is named twice (names are case-insensitive).")
        found[fold(name)] = _read_policy(here, name, written, owner)
    return found


def _read_policy(here: str, name: str, written: Mapping[str, Any], owner: str) -> TablePolicy:
    from shoal.policies.policy import Policy

    rows = written.get("max_rows_per_owner", 1)
    if isinstance(rows, bool) or not isinstance(rows, int) or not 1 <= rows <= MAX_GROUPS_PER_OWNER:
        raise wrong(f"{here}: max_rows_per_owner must be a whole number of at least 1.")
    domain, secret, known = written.get("domain"), written.get("secret"), written.get("known", [])
    if not isinstance(domain, dict) or secret is None or not isinstance(known, list):
        raise wrong(f"{here} needs domain = {{ … }} and secret = …; known is a list.")
    if fold(owner) in {fold(attribute) for attribute in domain}:
        raise wrong(f"{here}: the owner column cannot be an attribute.", "Owners are never shown.")
    try:
        rule = Policy.from_dict(
            {"name": name, "attributes": list(domain), "domain": domain, "secret": secret, "known": known}
        )
    except ShoalError as error:
        raise wrong(f"{here}: {error.message}", error.hint) from None
    return TablePolicy(rule, rows)


def _read_column(where: str, raw: Any) -> ColumnFacts:
    known_keys(f"In the catalog, {where}", raw, {"bounds", "values", "type"})
    bounds, values = raw.get("bounds"), raw.get("values")
    if values is not None and (not isinstance(values, list) or len(values) > MAX_DOMAIN_VALUES):
        raise wrong(f"In the catalog, {where}: values must be a list of at most {MAX_DOMAIN_VALUES} entries.")
    listed = tuple(values) if values is not None else None
    period = _read_period(where, bounds)
    return ColumnFacts(None if period else _read_bounds(where, bounds), listed, raw.get("type"), period)


def _read_period(where: str, raw: Any) -> tuple[dt.date, dt.date] | None:
    """Bounds that are days: dates of TOML, or the same as strings; None if they are something else."""
    if not isinstance(raw, (list, tuple)) or not any(_is_day(end) for end in raw):
        return None
    try:
        first, last = (end if isinstance(end, dt.date) else dt.date.fromisoformat(end) for end in raw)
    except (TypeError, ValueError):
        raise wrong(
            f"In the catalog, {where}: bounds must be two numbers, or two days.",
            'bounds = ["2020-01-01", "2024-12-31"]',
        ) from None
    if any(isinstance(day, dt.datetime) for day in (first, last)) or first > last:
        raise wrong(f"In the catalog, {where}: bounds that are days must be [first day, last day].")
    return first, last


def _is_day(end: object) -> bool:
    return isinstance(end, dt.date) or (isinstance(end, str) and re.fullmatch(r"\d{4}-\d{2}-\d{2}", end) is not None)


def _read_bounds(where: str, raw: Any) -> tuple[Fraction, Fraction] | None:
    if raw is None:
        return None
    try:
        lower, upper = (as_fraction(value) for value in raw)
    except (TypeError, ValueError):
        raise wrong(f"In the catalog, {where}: bounds must be two finite numbers, [lower, upper].") from None
    if lower > upper or max(abs(lower), abs(upper)) > 10**30:
        raise wrong(f"In the catalog, {where}: bounds must be [lower, upper] with lower ≤ upper.")
    return lower, upper
