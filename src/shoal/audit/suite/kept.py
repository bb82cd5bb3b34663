"""Rows of an audit kept in a file as they are reached, so that a run of hours can be stopped and gone on with.

The first line says what the rows belong to: the version and a digest of the code that was run, the samples, the families and the
seed of the tester. Rows of anything else would be verdicts about something else, so a file that differs is refused.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal.audit.suite.rows import Row
from shoal.errors import ShoalError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shoal.audit.suite.rows import Key

SEED = 0
"""Of the tester: what `check` takes unless asked otherwise."""
_KIND = "shoal audit, rows as they are reached"


class KeptRows:
    """The rows of a file, and the file to add to."""

    def __init__(self, path: Path, samples: int, families: Sequence[str] = ()) -> None:
        self._path = path
        belongs = {
            "kind": _KIND,
            "version": version("shoal"),
            "code": code_digest(),
            "samples": samples,
            "families": sorted(families),
            "seed": SEED,
        }
        if path.exists() and path.stat().st_size:
            self._rows = _read(path, belongs)
        else:
            self._rows = {}
            path.write_text(json.dumps(belongs, ensure_ascii=False) + "\n", encoding="utf-8")

    def __len__(self) -> int:
        return len(self._rows)

    def row_of(self, key: Key) -> Row | None:
        """What was found by this check, if it has ended."""
        return self._rows.get(key)

    def add(self, row: Row) -> None:
        """Keep one more, on the disk before the next one is begun."""
        self._rows[row.key] = row
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(row), ensure_ascii=False) + "\n")


def _read(path: Path, belongs: dict[str, Any]) -> dict[Key, Row]:
    try:
        head, *lines = path.read_text(encoding="utf-8").split("\n")
        known = json.loads(head)
        # A line without its end was being written when the run was stopped; its check is run again.
        rows = [Row(**json.loads(line)) for line in lines[:-1]]
    except (UnicodeDecodeError, ValueError, TypeError):
        raise _refused(path, "It is not a file of an audit.") from None
    differing = [name for name in belongs if not isinstance(known, dict) or known.get(name) != belongs[name]]
    if differing:
        raise _refused(path, f"Its rows belong to another run: {', '.join(differing)}.")
    if lines[-1]:
        path.write_text("\n".join([head, *lines[:-1], ""]), encoding="utf-8")
    return {row.key: row for row in rows}


def _refused(path: Path, why: str) -> ShoalError:
    return ShoalError(
        "E_USAGE", f"The audit cannot go on from {path}. {why}", hint="Name a file that does not exist to begin anew."
    )


def code_digest() -> str:
    """A digest of every module of this installation."""
    root = Path(__file__).parents[2]
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]
