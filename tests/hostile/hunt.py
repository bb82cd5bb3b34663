"""A long hunt, one process, resumed by seed: `python tests/hostile/hunt.py second plan 0 500000 progress.json`.

`plan` asks both neighbours what they refuse, and in what words, and has the engine read every statement; `ask` also runs it.
Progress and finds are written as JSON now and then; the same command goes on where it stopped.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import nasty_data
import second_data
from fuzz_grammar import Grammar
from second_generator import statement

import shoal
from shoal.errors import ShoalError
from shoal.release.execute import prepare

if TYPE_CHECKING:
    from collections.abc import Callable

EVERY = 200
NEVER = ("E_EXECUTION", "E_INTERNAL", "E_SUSPENDED")


@dataclass
class Hunt:
    """Where a hunt stands; it is its own file."""

    path: Path
    next_seed: int
    asked: Counter[str] = field(default_factory=Counter)
    finds: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    @classmethod
    def resumed(cls, path: Path, start: int) -> Hunt:
        if not path.exists():
            return cls(path, start)
        told = json.loads(path.read_text())
        return cls(path, told["next_seed"], Counter(told["asked"]), told["finds"], told["seconds"])

    def save(self) -> None:
        told = {"next_seed": self.next_seed, "asked": self.asked, "finds": self.finds, "seconds": round(self.seconds)}
        temporary = self.path.with_suffix(".tmp")
        temporary.write_text(json.dumps(told, indent=1))
        temporary.replace(self.path)


def prepared(session: shoal.Session, sql: str) -> str:
    """What planning says, and the engine to every statement of the plan."""
    try:
        plan = session.plan(sql)
        if plan.selects:
            prepare(plan, session._engine)
    except ShoalError as error:
        return str(error)
    return "planned"


def asked(session: shoal.Session, sql: str) -> str:
    """What an analyst sees without looking at values."""
    before, seen = session.spent, "answered"
    try:
        answer = session.query(sql).to_arrow()
        seen += str([(column.name, str(column.type)) for column in answer.schema])
    except ShoalError as error:
        seen = str(error)
    return f"{seen} at {[after - earlier for after, earlier in zip(session.spent, before, strict=True)]}"


def seen(look: Callable[[shoal.Session, str], str], session: shoal.Session, sql: str) -> str:
    """Whatever happens is something that is seen."""
    try:
        return look(session, sql)
    except Exception as error:  # noqa: BLE001 - an exception of another kind is a find
        return f"RAW {type(error).__name__}: {error}"


def judged(faces: list[str]) -> str:
    """The find, or nothing."""
    if faces[0] != faces[1]:
        return f"told apart: {faces[0]} | {faces[1]}"
    return faces[0] if faces[0].startswith((*NEVER, "RAW")) else ""


def sessions_of(generator: str) -> list[shoal.Session]:
    if generator == "second":
        folder = Path(tempfile.mkdtemp())
        paths = [second_data.database(folder / f"{v}.duckdb", with_victim=v) for v in (True, False)]
        return [shoal.connect(path, catalog=second_data.CATALOG) for path in paths]
    tables = nasty_data.everything_at_once()
    both = tables, nasty_data.shuffled(nasty_data.without(tables))
    return [shoal.connect(t, catalog=nasty_data.CATALOG) for t in both]


def hunted(hunt: Hunt, generator: str, look: Callable[[shoal.Session, str], str], stop: int) -> None:
    write = statement if generator == "second" else lambda seed: Grammar(seed).query()
    sessions, began = sessions_of(generator), time.process_time()
    for seed in range(hunt.next_seed, stop):
        sql = write(seed)
        faces = [seen(look, session, sql) for session in sessions]
        hunt.asked[faces[0].split(":")[0].split("[")[0]] += 1
        if found := judged(faces):
            hunt.finds[str(seed)] = f"{found}\n{sql}"
        hunt.next_seed = seed + 1
        if seed % EVERY == 0:
            now = time.process_time()
            hunt.seconds, began = hunt.seconds + now - began, now
            hunt.save()
    hunt.save()


if __name__ == "__main__":
    which, way, first, last, where = sys.argv[1:]
    hunted(Hunt.resumed(Path(where), int(first)), which, {"plan": prepared, "ask": asked}[way], int(last))
