"""The first catalog as TOML text, every guess marked."""

from __future__ import annotations

import json as json_text
import re
from typing import TYPE_CHECKING

from shoal.catalog.owner_names import owner_candidates

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Mapping

    from shoal.cli.first_catalog.looking import Looked
    from shoal.cli.init import First, Guess, Schemas

HEADER = """\
# A first catalog, written by `shoal init` from column names and types. It contains no values but those that were declared
# public with --public-values. CSV files have no types, so theirs were guessed from values.
# Check the lines marked GUESS. Every answer protects the owners named here.
#
# Worth adding where it is public knowledge (never by looking at the data):
#   bounds = [lower, upper]     of one value; saves the budget that inferring them costs
#   max_rows_per_owner_and_group = 10     what COUNT(*) counts of one owner in one group, at most
#   values = ["a", "b"]         the full list of a column; usable as public groups
#   bounds = ["2020-01-01", "2024-12-31"]     of a date: its first and last day; years and months are then public groups
"""

FOOTER = """\
[defaults]
epsilon = 1.0                   # GUESS: what a query spends if it does not say; with it, plain SQL works
delta = 1e-6
{population}    # order of magnitude of owners, public knowledge
# max_epsilon_per_query = 2.0   # a query that asks for more is refused
"""


def catalog_text(
    schemas: Schemas, guesses: Mapping[str, Guess], population: int | None = None, first: First | None = None
) -> str:
    """The catalog as TOML."""
    sections = [table_text(name, columns, guesses[name], first) for name, columns in schemas.items()]
    known = f"population = {population}" if population is not None else "# population = 10000"
    return "\n".join([HEADER, *sections, FOOTER.format(population=known)])


def table_text(name: str, columns: Mapping[str, str], guess: Guess, first: First | None = None) -> str:
    """One table. It is never public by omission: where no column looks like an owner, each row is one."""
    head = [f"[tables.{key(name)}]"]
    if guess.public:
        head.append("public = true")
    elif guess.owner is not None:
        others = [other for other in owner_candidates(columns) if other != guess.owner]
        also = f"; also possible: {', '.join(map(text, others))}" if others else ""
        head.append(f"owner = {text(guess.owner)}    # GUESS by its name{also}")
    elif guess.through is not None:
        column, to = map(text, guess.through)
        head.append(f"owner = {{ through = {column}, to = {to} }}    # GUESS: each row leads to one there")
    else:
        head.append(
            'owner = "each row"    # GUESS: no column looks like an owner. Can one person have several rows? Then'
        )
        head.append(
            "# name the column that tells people apart: with each row an owner, single rows are protected, not people."
        )
        head.append(
            "# Nobody's data, such as a list of products? Then public = true, and private tables can be joined with it."
        )
    if guess.references:
        listed = ", ".join(f"{key(column)} = {text(to)}" for column, to in dict(guess.references).items())
        head.append(f"references = {{ {listed} }}    # GUESS: keys of these tables")
    if guess.one_row:
        head.append("one_row_per_owner = true    # GUESS: no owner repeats. More rows of one would not be counted.")
    if first is not None and first.spellings.get(name):
        options = ", ".join(f"{option} = {text(value)}" for option, value in first.spellings[name].items())
        head.append(f"csv = {{ {options} }}    # GUESS: how its values are written")
    found = first.columns.get(name, {}) if first is not None else {}
    lists = first.lists if first is not None else {}
    periods = first.periods if first is not None else {}
    body = (
        column_text(
            column,
            type_,
            is_owner=column == guess.owner,
            looked=found.get(column),
            listed=lists.get((name, column)),
            period=periods.get((name, column)),
        )
        for column, type_ in columns.items()
    )
    return "".join(f"{line}\n" for line in (*head, f"[tables.{key(name)}.columns]", *body))


def column_text(
    name: str,
    type_name: str,
    *,
    is_owner: bool = False,
    looked: Looked | None = None,
    listed: list[object] | None = None,
    period: tuple[dt.date, dt.date] | None = None,
) -> str:
    """One column with its type; a type that no query can speak of is left to the data."""
    from shoal.plan.types import Kind
    from shoal.sql.functions import type_of

    if type_of(type_name).kind is Kind.UNSUPPORTED:
        return f"{key(name)} = {{}}    # queries cannot use this type"
    if is_owner and type_of(type_name).kind is Kind.DOUBLE:
        return f'{key(name)} = {{ type = "BIGINT" }}    # GUESS: whole numbers, stored as {type_name}'
    if listed is not None:
        values = ", ".join(json_text.dumps(value, ensure_ascii=False) for value in listed)
        return f"{key(name)} = {{ type = {text(type_name)}, values = [{values}] }}    # declared public"
    if period is not None:
        type_name = (looked.read_as if looked is not None else None) or type_name
        return f'{key(name)} = {{ type = {text(type_name)}, bounds = ["{period[0]}", "{period[1]}"] }}    # declared public'
    if looked is not None and looked.read_as is not None:
        why = " by how it is written" if looked.written or looked.numbers else f": stored as {type_name}"
        return f"{key(name)} = {{ type = {text(looked.read_as)} }}    # GUESS{why}"
    return f"{key(name)} = {{ type = {text(type_name)} }}"


def key(name: str) -> str:
    """A name as a TOML key."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else text(name)


def text(value: str) -> str:
    """A TOML string."""
    return json_text.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
