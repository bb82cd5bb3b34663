"""What `shoal init` says of columns that need a second look."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from shoal.catalog.tables import quoted
from shoal.params import many

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from shoal.cli.first_catalog.looking import Looked

Findings = dict[str, dict[str, "Looked"]]
"""Table → column → what was found."""
MOST_NAMED = 12


def worth_a_look(found: Mapping[str, Mapping[str, Looked]]) -> list[str]:
    """One line for each oddity; the last ones are about short lists of values."""
    lines = [
        f"  {table}.{column}: {sentence}"
        for table, columns in found.items()
        for column, looked in columns.items()
        for sentence in _of_column(column, looked)
    ]
    few = [(table, name) for table, columns in found.items() for name, each in columns.items() if each.has_few]
    if few:
        first = shlex.quote(".".join(few[0]))
        named = _named(few, one_table=len(found) == 1)
        lines.append(
            f"  few values: {named}. Where everybody knows the list anyway (countries, classes), "
            f"say so: --public-values {first} writes it down, and its groups always appear, however few owners they have."
        )
    times = [(table, name) for table, columns in found.items() for name, each in columns.items() if each.has_days]
    if times:
        named, first = _named(times, one_table=len(found) == 1), shlex.quote(".".join(times[0]))
        lines.append(
            f"  dates: {named}. Where everybody knows the period, say so: --public-values {first} writes down its first and "
            "last month, and all of its years and months appear, however few owners they have."
        )
    return lines


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
