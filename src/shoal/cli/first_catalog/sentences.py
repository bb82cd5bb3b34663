"""What `shoal init` says of columns that need a second look."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING

from shoal.catalog.tables import quoted
from shoal.params import many

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from shoal.cli.first_catalog.looking import Looked

Findings = Mapping[str, Mapping[str, "Looked"]]
"""Table → column → what was found."""
MOST_NAMED = 12
MOST_PLACES = 300
"""About as many as there are countries."""
_PLACES = re.compile(r"countr|nation(?!al)|\bland\b|pays|pa[ií]s|borough|continent", re.IGNORECASE)
_KNOWN_LISTS = re.compile(
    r"countr|nation|pays|pa[ií]s|region|borough|state|class|kind|type|contract|payment|sex|gender|status", re.IGNORECASE
)
_KNOWN_PERIODS = re.compile(
    r"order|invoice|sale|purchas|visit|pick|book|start|creat|event|datum|fecha|day|time", re.IGNORECASE
)
_OF_A_PERSON = re.compile(r"birth|born|dob|hire|geburt|naissance|nacimiento|death", re.IGNORECASE)
"""Dates that say when somebody was born or hired: nobody knows their period, and one person may be its end."""


def worth_a_look(found: Findings, declared: Collection[tuple[str, str]] = ()) -> list[str]:
    """One line for each oddity; the last ones are about short lists of values, and about dates. `declared` ones are known."""
    lines = [
        f"  {table}.{column}: {sentence}"
        for table, columns in found.items()
        for column, looked in columns.items()
        for sentence in _of_column(column, looked)
    ]
    columns = [
        (table, name, each)
        for table, of_it in found.items()
        for name, each in of_it.items()
        if (table, name) not in declared
    ]
    few = [(table, name) for table, name, each in columns if _is_short_list(name, each)]
    if few:
        lines.append(
            f"  few values: {_named(few, one_table=len(found) == 1)}. Where everybody knows the list anyway (countries, classes), "
            f"say so: --public-values {_example(few, _KNOWN_LISTS)} writes it down, and its groups always appear, however few "
            "owners they have."
        )
    flags = [(table, name) for table, name, each in columns if each.is_yes_or_no]
    if flags:
        lines.append(
            f"  0 and 1: {_named(flags, one_table=len(found) == 1)}. Where everybody knows that nothing else can be there, say so: "
            f"--public-values {_all(flags)} writes it down, and an average of it is a share of people without a search for bounds."
        )
    times = [(table, name) for table, name, each in columns if each.has_days and _OF_A_PERSON.search(name) is None]
    if times:
        lines.append(
            f"  dates: {_named(times, one_table=len(found) == 1)}. Where everybody knows the period, say so: --public-values "
            f"{_example(times, _KNOWN_PERIODS)} writes down its first and last month, and all of its years and months appear, "
            "however few owners they have."
        )
    return lines


def _is_short_list(name: str, looked: Looked) -> bool:
    """Few values, or more of a list that everybody knows by its name."""
    return looked.has_few or (_PLACES.search(name) is not None and 1 < looked.distinct <= MOST_PLACES)


def _example(columns: list[tuple[str, str]], known: re.Pattern[str]) -> str:
    """The column that a custodian is most likely to declare, as the command line takes it."""
    return shlex.quote(".".join(next((each for each in columns if known.search(each[1])), columns[0])))


def _all(columns: list[tuple[str, str]]) -> str:
    """Columns as the command line takes them."""
    return shlex.quote(",".join(".".join(each) for each in columns[:MOST_NAMED]))


def _named(columns: list[tuple[str, str]], *, one_table: bool) -> str:
    more = f" and {len(columns) - MOST_NAMED} more" if len(columns) > MOST_NAMED else ""
    return ", ".join(name if one_table else f"{table}.{name}" for table, name in columns[:MOST_NAMED]) + more


def _of_column(column: str, looked: Looked) -> Iterator[str]:
    name = quoted(column)
    if looked.read_as is not None:
        how = f" written as {looked.written}" if looked.written else " written with commas" if looked.numbers else ""
        yield f"text that holds {_NAMES[looked.read_as]}{how}; read as {looked.read_as} (a guess)."
    elif looked.written is not None:
        type_ = "timestamp" if "%H" in looked.written else "date"
        yield (
            f"text that holds {type_}s written as {looked.written}. STRPTIME({name}, '{looked.written}') reads them in a query; "
            f'of a CSV file, csv = {{ {type_}_format = "{looked.written}" }} in the table and type = "{type_.upper()}" here do.'
        )
    elif looked.sign:
        way = looked.numbers[0] if looked.numbers else None
        text = f"REPLACE({name}, '{looked.sign}', '')"
        text = f"REPLACE({text}, '{way.thousands}', '')" if way is not None else text
        text = f"REPLACE({text}, '{way.decimal}', '.')" if way is not None and way.decimal != "." else text
        yield f"text that holds numbers with {looked.sign}. CAST({text} AS DOUBLE) reads them in a query."
    elif len(looked.numbers) == 1:
        (way,) = looked.numbers
        text = f"REPLACE({name}, '{way.thousands}', '')"
        text = f"REPLACE({text}, '{way.decimal}', '.')" if way.decimal != "." else text
        yield f"text that holds numbers written with commas. CAST({text} AS {way.type_name}) reads them in a query."
    elif looked.numbers:
        yield (
            "text that holds numbers with a comma, and nobody can tell 1,234 from 1.234. Of a CSV file, "
            'csv = { decimal = "," } or csv = { thousands = "," } in the table says which it is, with type = "DOUBLE" here.'
        )
    if looked.misfits and looked.misread:
        yield (
            f"{looked.misfits:,} values do not fit the guessed type, such as '{looked.example}…'; queries see NULL there. "
            'Write type = "VARCHAR" for this column to keep them.'
        )
    elif looked.misfits:
        yield f"text, because {looked.misfits:,} of {looked.values:,} values are not numbers, such as '{looked.example}…'."
    for value, number in sorted(looked.missing.items()):
        if looked.read_as is not None:
            yield f"{number:,} values {value!r} are NULL that way."
        elif value.strip():
            yield f"{many(number, 'value')} {value!r} may mean missing: NULLIF({name}, '{value}') leaves them out."


_NAMES = {"DATE": "dates", "TIMESTAMP": "timestamps", "BIGINT": "whole numbers", "DOUBLE": "numbers"}
