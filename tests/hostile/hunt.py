"""A long hunt, one process, resumed by seed: `python tests/hostile/hunt.py second plan 0 500000 progress.json`.

`plan` asks what is refused, and in what words, and has the engine read every statement; `ask` also runs it on both
neighbours. Progress and finds are written as JSON now and then; the same command goes on where it stopped.

Planning takes the text, the catalog, the types of columns and facts about public tables, and nothing else. Both neighbours
have the same of these, which is checked once; then a statement is planned, and read by the engine over empty tables, for both
of them at once. One statement in fifty is planned and read on each all the same.

A query that finds its limits is planned for dozens of them and asks the same question three times or four. So the catalog gives
limits for nine statements in ten, and the tenth finds its own.
"""

from __future__ import annotations

import copy
import gc
import json
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import referring_data
import second_data
from fuzz_grammar import Grammar
from second_generator import statement

import shoal
from shoal.errors import ShoalError
from shoal.release.execute import prepare
from shoal.stack import on_its_own_stack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

EVERY = 200
APART = 50
"""One in this many is planned and read on each neighbour."""
FINDING = 10
"""One in this many finds its limits."""
STATED = {"max_groups_per_owner": 2, "measure_cut": 0}
NEVER = ("E_EXECUTION", "E_INTERNAL", "E_SUSPENDED")


@dataclass
class Hunt:
    """Where a hunt has got to; it is its own file. `asked` counts what became of statements and their parts."""

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


def require_one_plan(first: shoal.Session, second: shoal.Session) -> None:
    """What planning knows is the same of both."""
    if (first._schemas, first._facts) != (second._schemas, second._facts):
        raise AssertionError("what planning knows depends on the data")


class PlannedOnce:
    """The plan of the last text, or its refusal, for whichever session asks next."""

    def __init__(self, session: shoal.Session) -> None:
        self._plan, self._last, self._found = session._planned, None, None

    def __call__(self, *asked: Any, **named: Any) -> Any:
        if self._last != (asked, named):
            try:
                self._found = self._plan(*asked, **named)
            except ShoalError as error:
                self._found = error
            self._last = asked, named
        if isinstance(self._found, ShoalError):
            raise self._found
        return self._found


class Pair:
    """Two neighbours that plan and read together, or each on its own."""

    def __init__(self, sessions: list[shoal.Session]) -> None:
        first, second = self.sessions = sessions
        require_one_plan(first, second)
        self._plan_checkers = [session._engine._plan_checker for session in sessions]
        self._once = PlannedOnce(first)

    def together(self) -> Iterator[shoal.Session]:
        for session in self.sessions:
            session._planned, session._engine._plan_checker = self._once, self._plan_checkers[0]
            yield session

    def apart(self) -> Iterator[shoal.Session]:
        for session, checker in zip(self.sessions, self._plan_checkers, strict=True):
            session.__dict__.pop("_planned", None)
            session._engine._plan_checker = checker
            yield session


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
    if faces[0] != faces[-1]:
        return f"told apart: {faces[0]} | {faces[-1]}"
    return faces[0] if faces[0].startswith((*NEVER, "RAW")) else ""


def with_limits(catalog: dict[str, Any]) -> dict[str, Any]:
    """The same catalog, which names limits for queries that name none."""
    stated = copy.deepcopy(catalog)
    stated["defaults"] |= STATED
    for table in stated["tables"].values():
        if table.get("owner", "each row") != "each row":
            table.setdefault("max_rows_per_owner_and_group", 3)
    return stated


def sessions_of(generator: str, *, stated: bool = False) -> list[shoal.Session]:
    catalog = second_data.CATALOG if generator == "second" else referring_data.PLAIN_CATALOG
    catalog = with_limits(catalog) if stated else catalog
    if generator == "second":
        # Files of one name: what is written for one of them reads the other.
        paths = [second_data.database(Path(tempfile.mkdtemp()) / "t.duckdb", with_victim=v) for v in (True, False)]
        return [shoal.connect(path, catalog=catalog) for path in paths]
    both = referring_data.tables(), referring_data.neighbour()
    return [shoal.connect(tables, catalog=catalog) for tables in both]


def faces_of(pair: Pair, look: Callable[[shoal.Session, str], str], seed: int, sql: str) -> list[str]:
    """What is seen on both neighbours; planning alone is looked at once, unless it is planned on each."""
    if seed % APART == 0:
        return [seen(look, session, sql) for session in pair.apart()]
    if look is prepared:
        return [seen(look, next(pair.together()), sql)]
    return [seen(look, session, sql) for session in pair.together()]


def hunted(hunt: Hunt, generator: str, look: Callable[[shoal.Session, str], str], stop: int) -> None:
    write = statement if generator == "second" else lambda seed: Grammar(seed).query()
    finding, stated = (Pair(sessions_of(generator, stated=limits)) for limits in (False, True))
    began = time.process_time()
    gc.freeze()
    gc.set_threshold(100_000, 50, 50)
    for seed in range(hunt.next_seed, stop):
        sql = write(seed)
        faces = faces_of(finding if seed % FINDING == 1 else stated, look, seed, sql)
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
    looks = {"plan": prepared, "ask": asked}
    # One stack for the whole hunt: a thread for each of a query's steps takes longer than the steps.
    on_its_own_stack(lambda: hunted(Hunt.resumed(Path(where), int(first)), which, looks[way], int(last)), shared=True)
