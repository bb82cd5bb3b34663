"""`shoal init`: a first catalog from schemas alone; what is guessed is marked, what is unknown stays private."""

from __future__ import annotations

import datetime as dt
import re
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.catalog import fold
from shoal.catalog.owner_names import is_contact, is_staff, owner_candidates
from shoal.catalog.tables import quoted
from shoal.cli.first_catalog.sentences import worth_a_look
from shoal.cli.first_catalog.toml_text import catalog_text
from shoal.cli.output import write_json
from shoal.errors import ShoalError
from shoal.frozen import dataclass

if TYPE_CHECKING:
    from shoal.cli.first_catalog.looking import Looked
    from shoal.engines.base import Engine

Schemas = Mapping[str, Mapping[str, str]]
"""Table → column → type."""

IsKey = Callable[[str, str], bool]
"""Whether no value of a table's column repeats."""


@dataclass(frozen=True, slots=True)
class Guess:
    """Whose the rows of a table are, as far as names say: a column, a column that leads to another table, or each row."""

    owner: str | None = None
    through: tuple[str, str] | None = None
    references: tuple[tuple[str, str], ...] = ()
    public: bool = False
    one_row: bool = False
    """Whether no owner repeats."""

    @property
    def in_words(self) -> str:
        """What is said on the terminal."""
        if self.public:
            return "public, as you say"
        if self.owner is not None:
            return f"owner {self.owner!r} (a guess){', one row each' if self.one_row else ''}"
        if self.through is not None:
            return f"owner through {self.through[0]!r} to {self.through[1]!r} (a guess)"
        return "no owner found: each row is one (a guess)"

    @property
    def is_each_row(self) -> bool:
        """Whether nothing looks like an owner."""
        return not self.public and self.owner is None and self.through is None

    @property
    def for_machines(self) -> dict[str, object]:
        """The owner as the catalog writes it, or that there is none."""
        if self.public:
            return {"public": True}
        if self.through is not None:
            return {"owner": {"through": self.through[0], "to": self.through[1]}}
        return {"owner": self.owner or "each row"}


def init(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="A DuckDB, SQLite or Excel file, a parquet, CSV or JSON lines file, a glob, a folder, or postgresql://…",
        ),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="The catalog to write.")] = Path(
        "shoal.toml"
    ),
    *,
    population: Annotated[
        int | None, typer.Option("--population", metavar="N", min=1, help="About how many owners there are, if public.")
    ] = None,
    public: Annotated[
        str, typer.Option("--public", metavar="TABLE,…", help="Tables that are nobody's data, such as products.")
    ] = "",
    public_values: Annotated[
        str,
        typer.Option(
            metavar="TABLE.COLUMN,…",
            help="Columns whose values everybody knows, such as countries, or dates with a known period: written into the catalog.",
        ),
    ] = "",
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing catalog.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print what was found as JSON.")] = False,
) -> None:
    """Write a first catalog from table schemas, and mark every guess.

    [bold]Example[/bold]

        shoal init data/ -o shoal.toml

        shoal init data/ --public products --public-values orders.country --population 10000
    """
    first = looked_at(source, _words(public), _words(public_values))
    schemas, guesses = first.schemas, first.guesses
    write_new(output, catalog_text(schemas, guesses, population, first), force=force)
    oddities = [*first.ownerless, *worth_a_look(first.columns, first.periods)]
    if json:
        found = {name: guesses[name].for_machines for name in schemas}
        return write_json(
            {"catalog": str(output), "tables": found, "worth_a_look": [line.strip() for line in oddities]}
        )
    for name in schemas:
        typer.echo(f"{name}: {guesses[name].in_words}")
    if oddities:
        typer.echo("\n".join(["", "Worth a look, for you alone (it is about the data):", *oddities]))
    lists = [name for name in schemas if guesses[name].is_each_row]
    if lists and len(lists) < len(schemas):
        typer.echo(f"\nAre these nobody's data, lists that everybody may see? Then: --public {','.join(lists)} --force")
    typer.echo(f"\nWritten to {output}. Check the lines marked GUESS before the first query.")
    if population is None:
        typer.echo("About how many owners are there? If that is public, say it: --population 10000, or in [defaults].")
    typer.echo(f"Then, for example: {_first_query(source, output, schemas, guesses)}")
    return None


def _first_query(source: str, output: Path, schemas: Schemas, guesses: Mapping[str, Guess]) -> str:
    """A command that can be copied: the first table of people, else the first private one, counted."""
    from shoal.engines.sources import without_password

    people = [name for name in schemas if guesses[name].owner is not None]
    private = [name for name in schemas if not guesses[name].public]
    table = next(iter([*people, *private, *schemas]))
    catalog = "" if output == Path("shoal.toml") else f" --catalog {shlex.quote(str(output))}"
    sql = shlex.quote(f"SELECT COUNT(*) FROM {quoted(table)}")
    return f"shoal query {sql} --db {shlex.quote(without_password(source))}{catalog}"


@dataclass(frozen=True, slots=True)
class First:
    """All that a first catalog is written from."""

    schemas: Schemas
    guesses: dict[str, Guess]
    columns: dict[str, dict[str, Looked]] = field(default_factory=dict)
    """Table → column → what was found in it; of public tables nothing."""
    lists: dict[tuple[str, str], list[object]] = field(default_factory=dict)
    """(table, column) → the values that were declared public."""
    periods: dict[tuple[str, str], tuple[dt.date, dt.date]] = field(default_factory=dict)
    """(table, column) → the first and the last day of a period that was declared public."""
    ownerless: list[str] = field(default_factory=list)
    """What to say of rows whose owner is missing."""
    spellings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Table → how the strings of its CSV files are written, as the catalog says it."""


def _words(option: str) -> list[str]:
    return [word.strip() for word in option.split(",") if word.strip()]


def looked_at(source: str, public: list[str], public_values: list[str]) -> First:
    """Table → column → type of everything in the source, whose the rows may be, and what is odd about columns."""
    from shoal.engines.sources import open_source

    engine = open_source(source)
    try:
        schemas = {table: dict(columns) for table, columns in engine.tables().items()}
        for name in public:
            if fold(name) not in schemas:
                raise ShoalError("E_USAGE", f"There is no table {name!r}.", hint=f"Tables: {', '.join(schemas)}.")
        nobodys = {fold(name) for name in public}
        first = _first(engine, schemas, nobodys, public_values)
        return _with_spellings(source, replace(first, columns=_with_misfits(source, first.columns)))
    finally:
        engine.close()


def _with_misfits(source: str, columns: dict[str, dict[str, Looked]]) -> dict[str, dict[str, Looked]]:
    """The same, knowing what the guessed types of CSV files leave out."""
    from shoal.cli.first_catalog.looking import Looked
    from shoal.cli.first_catalog.spelling import Numbers
    from shoal.engines.sources import misfits_at

    for table, found in misfits_at(source).items():
        for column, lost in found.items() if table in columns else ():
            looked = columns[table].get(column, Looked(0, 0, {}))
            if lost.grouped:
                way = Numbers(".", ",", whole=lost.type_name == "BIGINT")
                columns[table][column] = replace(looked, numbers=(way,))
            else:
                columns[table][column] = replace(looked, misfits=lost.number, example=lost.start, misread=True)
    return columns


def _with_spellings(source: str, first: First) -> First:
    """The same, with how dates and numbers of CSV files are written, and the types that they are then read as."""
    from shoal.cli.first_catalog.spelling import spelled
    from shoal.engines.sources import csv_delimiters_at

    found = {
        table: spelled(first.columns.get(table, {}), delimiter)
        for table, delimiter in csv_delimiters_at(source).items()
    }
    columns = {
        table: {
            name: replace(looked, read_as=found[table].types.get(name, looked.read_as)) if table in found else looked
            for name, looked in of.items()
        }
        for table, of in first.columns.items()
    }
    return replace(first, columns=columns, spellings={table: each.options for table, each in found.items()})


def _first(engine: Engine, schemas: Schemas, nobodys: set[str], public_values: list[str]) -> First:
    from shoal.cli.first_catalog.looking import count_missing, listed, look_at, period
    from shoal.plan.types import Kind
    from shoal.sql.functions import type_of

    def is_key(table: str, column: str) -> bool:
        type_ = type_of(schemas[table][column])
        if type_.kind is Kind.UNSUPPORTED:
            return False
        with _reading(table):
            return engine.repeats(table, [(column, type_)])[column] == 1

    def looked(table: str, columns: Mapping[str, str]) -> dict[str, Looked]:
        with _reading(table):
            return look_at(engine, table, _but_owner(columns, guesses[table]))

    private = {table: columns for table, columns in schemas.items() if table not in nobodys}
    guesses = guess_all(private, is_key) | {table: Guess(public=True) for table in nobodys}
    guesses |= with_lookups({table: guesses[table] for table in private}, schemas, nobodys, is_key)
    found = {table: looked(table, columns) for table, columns in private.items()}
    owners = [(table, guess.owner) for table, guess in guesses.items() if guess.owner is not None]
    missing = {(table, owner): count_missing(engine, table, owner) for table, owner in owners}
    ownerless = [
        f"  {table}.{owner}: {number:,} rows have no owner (NULL), and are in no answer."
        for (table, owner), number in missing.items()
        if number
    ]
    places = [_place(each, schemas) for each in public_values]
    looks = {(table, column): found.get(table, {}).get(column) for table, column in places}
    dated = {place: look.written for place, look in looks.items() if look is not None and look.has_days}
    ends = {(table, column): period(engine, table, column, written) for (table, column), written in dated.items()}
    periods = {place: end for place, end in ends.items() if end is not None}
    lists = {(table, column): listed(engine, table, column) for table, column in places if (table, column) not in dated}
    shown = {t: {c: f for c, f in of.items() if (t, c) not in lists} for t, of in found.items()}
    return First(schemas, guesses, shown, lists, periods, ownerless)


@contextmanager
def _reading(table: str) -> Iterator[None]:
    """E_SOURCE with the name of a table that the source itself cannot read, such as a view that fails on a row."""
    from shoal.engines.base import EngineFailure

    try:
        yield
    except EngineFailure:
        raise ShoalError(
            "E_SOURCE",
            f"The table {table!r} cannot be read to its end.",
            hint="If it is a view, it fails on some row: mend it, or let the role read the other tables alone.",
        ) from None


def _but_owner(columns: Mapping[str, str], guess: Guess) -> dict[str, str]:
    """Owners, keys and what sounds like an owner are names, and nobody's business here."""
    skipped = {guess.owner, *(guess.through or ())[:1], *owner_candidates(columns)}
    return {name: type_ for name, type_ in columns.items() if name not in skipped}


def _place(written: str, schemas: Schemas) -> tuple[str, str]:
    """Table and column as they are spelled in the source."""
    table, _, column = written.partition(".")
    found = {fold(name): name for name in schemas.get(fold(table), {})}
    if fold(column) not in found:
        raise ShoalError(
            "E_USAGE",
            f"There is no column {written!r}.",
            hint="Write --public-values table.column, several with commas.",
        )
    return fold(table), found[fold(column)]


def write_new(path: Path, text: str, *, force: bool) -> None:
    """Write a file that is not there yet, or, when forced, one that is."""
    try:
        with path.open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ShoalError(
            "E_USAGE",
            f"The file {str(path)!r} already exists and was not changed.",
            hint="Choose another with -o, or use --force.",
        ) from None
    except OSError as error:
        raise ShoalError("E_USAGE", f"The file {str(path)!r} was not written: {error.strerror}.") from None


def guess_all(schemas: Schemas, is_key: IsKey) -> dict[str, Guess]:
    """Whose the rows of every table are: by the name of a column, else through a key of a table that has an owner.

    >>> shop = {"orders": {"order_id": "BIGINT", "uid": "BIGINT"}, "lines": {"order_id": "BIGINT"}, "days": {"day": "DATE"}}
    >>> [guess.for_machines["owner"] for guess in guess_all(shop, lambda table, column: table == "orders").values()]
    ['uid', {'through': 'order_id', 'to': 'orders'}, 'each row']
    """
    owners = guess_owners(schemas)
    found = {table: Guess(owner) for table, owner in owners.items() if owner is not None}
    waiting = [table for table in schemas if table not in found]
    while True:
        reached = {table: lead for table in waiting if (lead := _leads(table, schemas, found, is_key))}
        if not reached:
            break
        found |= {table: Guess(through=leads[0]) for table, leads in reached.items()}
        waiting = [table for table in waiting if table not in reached]
    alike = {table: {t: g for t, g in found.items() if g.owner and g.owner == owners[table]} for table in found}
    found |= {
        table: Guess(guess.owner, references=tuple(_leads(table, schemas, alike[table], is_key)))
        for table, guess in found.items()
        if guess.owner is not None
    }
    single = {table for table, guess in found.items() if guess.owner is not None and is_key(table, guess.owner)}
    return {table: replace(found.get(table, Guess()), one_row=table in single) for table in schemas}


def with_lookups(
    private: Mapping[str, Guess], schemas: Schemas, nobodys: Collection[str], is_key: IsKey
) -> dict[str, Guess]:
    """Guesses with the public lists whose keys columns hold: how many different values there can be is known then.

    >>> shop = {"lines": {"order_id": "BIGINT", "product_id": "BIGINT"}, "products": {"product_id": "BIGINT"}}
    >>> found = with_lookups({"lines": Guess("order_id")}, shop, {"products"}, lambda table, column: table == "products")
    >>> found["lines"].references
    (('product_id', 'products'),)
    """
    lists = {table: Guess(public=True) for table in sorted(nobodys)}

    def named_after(table: str) -> list[tuple[str, str]]:
        return [lead for lead in _leads(table, schemas, lists, is_key) if _is_named_after(*lead)]

    return {
        table: replace(guess, references=(*guess.references, *named_after(table)))
        for table, guess in private.items()
        if guess.owner is not None or guess.through is not None
    }


def _is_named_after(column: str, table: str) -> bool:
    """Whether a column is called like the things of a table: a postal code is a key of many lists, and of none.

    >>> _is_named_after("category_id", "categories"), _is_named_after("postal_code", "suppliers")
    (True, False)
    """
    stem = re.sub(r"[_ ]?(id|key|no|number|code|uuid)$", "", column.lower())
    return len(stem) > 1 and stem[: max(2, len(stem) - 1)] in table.lower()


def _leads(table: str, schemas: Schemas, found: Mapping[str, Guess], is_key: IsKey) -> list[tuple[str, str]]:
    """Columns that are called like a key of a table whose owner is known, with that table; ids only."""
    return [
        (column, other)
        for column, type_ in schemas[table].items()
        for other in found
        if other != table and schemas[other].get(column) == type_ and _is_id(column)
        if is_key(other, column) and not is_key(table, column)
    ][:3]


def _is_id(column: str) -> bool:
    return column.lower().endswith(("id", "key", "no", "number", "code", "uuid"))


def guess_owners(schemas: Schemas) -> dict[str, str | None]:
    """Table → the column that most likely names the owner; a name that several tables share wins.

    >>> guess_owners({"visits": {"visit_id": "BIGINT", "uid": "BIGINT"}, "regions": {"region": "VARCHAR"}})
    {'visits': 'uid', 'regions': None}
    """
    shared = {
        name: sum(name in owner_candidates(columns) for columns in schemas.values())
        for columns in schemas.values()
        for name in columns
    }
    return {
        table: min(
            candidates,
            key=lambda name: (is_contact(name), is_staff(name), -shared[name], candidates.index(name)),
            default=None,
        )
        for table, columns in schemas.items()
        for candidates in [owner_candidates(columns)]
    }
