"""The hostile queries of corpus.toml, written out, each with its verdict."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

PRIVATE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, delta=1e-6, max_groups_contributed=3) "
ANONYMOUS = "SELECT WITH ANONYMIZATION OPTIONS(epsilon=1, delta=1e-6, max_groups_contributed=3) "


@dataclass(frozen=True)
class Case:
    """One query and its verdict: an error code, or None when it is answered."""

    name: str
    sql: str
    code: str | None


def written_out(sql: str) -> str:
    """The query with its privacy clauses in full."""
    return sql.replace("PRIVATE ", PRIVATE).replace("ANONYMOUS ", ANONYMOUS)


def cases() -> Iterator[Case]:
    """Every query, with a name that stays the same while queries are added at the end of a list."""
    with (Path(__file__).parent / "corpus.toml").open("rb") as file:
        classes = tomllib.load(file)["class"]
    for group in classes:
        for code, queries in group.get("refused", {}).items():
            for number, sql in enumerate(queries):
                yield Case(f"{group['name']}-{code}-{number}", written_out(sql), code)
        for number, sql in enumerate(group["answered"]):
            yield Case(f"{group['name']}-answered-{number}", written_out(sql), None)


CASES: tuple[Case, ...] = tuple(cases())
ANSWERED: tuple[Case, ...] = tuple(case for case in CASES if case.code is None)
REFUSED: tuple[Case, ...] = tuple(case for case in CASES if case.code is not None)
