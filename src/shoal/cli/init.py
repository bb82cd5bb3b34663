"""`shoal init`: a first catalog from schemas alone; what is guessed is marked, what is unknown stays private."""

from __future__ import annotations

import json as json_text
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from shoal.cli.output import write_json
from shoal.errors import ShoalError

Schemas = Mapping[str, Mapping[str, str]]
"""Table → column → type."""

PEOPLE = (
    "user", "customer", "client", "patient", "person", "member", "subscriber", "account", "household", "employee",
    "student", "visitor", "citizen", "resident", "passenger", "driver", "guest", "buyer", "player", "owner", "device",
)  # fmt: skip
"""Words that name a privacy unit, the likeliest first."""

HEADER = """\
# A first catalog, made by `shoal init` from names and types of columns; no value is in it. Types of CSV files, which do
# not say them, were guessed from values.
# Lines marked GUESS are yours to check. The promise of every answer is about the owners named here.
#
# Worth adding where it is public knowledge (never by looking at the data):
#   bounds = [lower, upper]     of one value; saves the budget that inferring them costs
#   max_rows_per_owner_and_group = 10     what COUNT(*) counts of one owner in one group, at most
#   values = ["a", "b"]         the full list of a column; usable as public groups
"""

FOOTER = """\
# [defaults]
# population = 10000            # order of magnitude of owners; sets delta where a query names none
# max_epsilon_per_query = 2.0   # a query that asks for more is refused
"""


def init(
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="A DuckDB file, a parquet or CSV file, a glob or a folder.")
    ],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="The catalog to write.")] = Path(
        "shoal.toml"
    ),
    *,
    force: Annotated[bool, typer.Option("--force", help="Replace a catalog that is there.")] = False,
    json: Annotated[bool, typer.Option("--json", help="What was found, for machines.")] = False,
) -> None:
    """Write a first catalog by looking at schemas; marks what it guesses.

    [bold]Example[/bold]

        shoal init data/ -o shoal.toml
    """
    schemas = schemas_of(source)
    owners = guess_owners(schemas)
    write_new(output, catalog_text(schemas, owners), force=force)
    if json:
        return write_json({"catalog": str(output), "tables": {name: {"owner": owners[name]} for name in schemas}})
    for name in schemas:
        guess = f"owner {owners[name]!r} (a guess)" if owners[name] else "no owner found: left out, see the file"
        typer.echo(f"{name}: {guess}")
    typer.echo(f"\nWritten to {output}. Check the lines marked GUESS before the first query.")
    return None


def schemas_of(source: str) -> Schemas:
    """Table → column → type of everything in the source."""
    from shoal.engines.sources import open_source

    engine = open_source(source)
    try:
        return {table: dict(columns) for table, columns in engine.tables().items()}
    finally:
        engine.close()


def write_new(path: Path, text: str, *, force: bool) -> None:
    """Write a file that is not there yet, or, when forced, one that is."""
    try:
        with path.open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ShoalError(
            "E_USAGE", f"The file {str(path)!r} exists and was left as it is.", hint="Name another with -o, or --force."
        ) from None
    except OSError as error:
        raise ShoalError("E_USAGE", f"The file {str(path)!r} was not written: {error.strerror}.") from None


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
        table: min(candidates, key=lambda name: (-shared[name], candidates.index(name)), default=None)
        for table, columns in schemas.items()
        for candidates in [owner_candidates(columns)]
    }


def owner_candidates(columns: Mapping[str, str]) -> list[str]:
    """Columns whose names look like an owner, the likeliest first.

    >>> owner_candidates({"day": "DATE", "customerId": "BIGINT", "uid": "BIGINT"})
    ['uid', 'customerId']
    """
    ranked = [(rank, name) for name in columns if (rank := owner_rank(name)) is not None]
    return [name for _, name in sorted(ranked, key=lambda pair: pair[0])]


def owner_rank(column: str) -> int | None:
    """How unlike an owner a name looks: 0 is the most likely, None is no candidate."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", column).lower().strip("_").split("_")
    if words in (["uid"], ["userid"], ["user", "uid"]):
        return 0
    *stem, last = words
    if last in {"id", "key", "no", "number", "uuid", "uid", "hash"} and stem and stem[-1] in PEOPLE:
        return 1 + PEOPLE.index(stem[-1])
    joined = re.fullmatch(r"(\w+?)id", "".join(words))
    if joined and joined.group(1) in PEOPLE:
        return 1 + PEOPLE.index(joined.group(1))
    if len(words) == 1 and last in {*PEOPLE, "email", "username", "ssn", "msisdn"}:
        return 50
    return None


def catalog_text(schemas: Schemas, owners: Mapping[str, str | None]) -> str:
    """The catalog as TOML."""
    sections = [table_text(name, columns, owners[name]) for name, columns in schemas.items()]
    return "\n".join([HEADER, *sections, FOOTER])


def table_text(name: str, columns: Mapping[str, str], owner: str | None) -> str:
    """One table; without a likely owner it is commented out, since a table is never public by omission."""
    head = [f"[tables.{key(name)}]"]
    if owner is not None:
        others = [other for other in owner_candidates(columns) if other != owner]
        also = f"; also possible: {', '.join(map(text, others))}" if others else ""
        head.append(f"owner = {text(owner)}    # GUESS by its name{also}")
    else:
        head.append('public = true    # GUESS NEEDED: nobody\'s data, or owner = "…"; then remove the leading #')
    lines = [*head, f"[tables.{key(name)}.columns]", *(column_text(*column) for column in columns.items())]
    return "".join(f"{line}\n" if owner is not None else f"# {line}\n" for line in lines)


def column_text(name: str, type_name: str) -> str:
    """One column with its type; a type that no query can speak of is left to the data."""
    from shoal.plan.types import Kind
    from shoal.sql.functions import type_of

    if type_of(type_name).kind is Kind.UNSUPPORTED:
        return f"{key(name)} = {{}}    # queries cannot use this type"
    return f"{key(name)} = {{ type = {text(type_name)} }}"


def key(name: str) -> str:
    """A name as a TOML key."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else text(name)


def text(value: str) -> str:
    """A TOML string."""
    return json_text.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
