"""What `shoal init` says of columns that need a second look."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

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
    few = [f"{table}.{name}" for table, columns in found.items() for name, each in columns.items() if each.has_few]
    if few:
        first = shlex.quote(few[0])
        more = f" and {len(few) - MOST_NAMED} more" if len(few) > MOST_NAMED else ""
        lines.append(
            f"  few values: {', '.join(few[:MOST_NAMED])}{more}. Where everybody knows the list anyway (countries, classes), "
            f"say so: --public-values {first} writes it down, and its groups always appear, however few owners they have."
        )
    return lines


def _of_column(column: str, looked: Looked) -> Iterator[str]:
    if looked.read_as is not None:
        yield f"text that holds {_NAMES[looked.read_as]}; read as {looked.read_as} (a guess)."
    if looked.written is not None:
        type_ = "timestamp" if "%H" in looked.written else "date"
        yield (
            f"text that holds {type_}s written as {looked.written}. STRPTIME({column}, '{looked.written}') reads them in a query; "
            f'of a CSV file, csv = {{ {type_}_format = "{looked.written}" }} in the table and type = "{type_.upper()}" here do.'
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
            yield f"{number:,} values {value!r} may mean missing: NULLIF({column}, '{value}') leaves them out."


_NAMES = {"DATE": "dates", "TIMESTAMP": "timestamps", "BIGINT": "whole numbers", "DOUBLE": "numbers"}
