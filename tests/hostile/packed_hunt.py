"""A hunt over many expressions a statement: `python tests/hostile/packed_hunt.py second 0 30000 progress.json`.

Most of what a statement costs is spent on the statement and not on what stands in it. So one statement has several generated
relations side by side, UNION ALL, with a dozen generated expressions over each, and one private sum over all of them looks at every
value. What is refused is taken apart, relation by relation and then expression by expression, until all that is refused was refused
alone; the others are asked together.

A statement is planned once, and read by the engine over empty tables once. The rows that its sum reads are computed on both
neighbours; one in `ASKED` is asked of both, from its text to its answer. Told apart, failed, or E_INTERNAL is a find, with the
statement cut down to the one expression that does it.
"""

from __future__ import annotations

import gc
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fuzz_forms import DAY, FLAG, NUMBER, TEXT
from fuzz_grammar import Grammar
from hunt import NEVER, Hunt, asked, require_one_plan, seen, sessions_of
from second_generator import SecondGenerator

from shoal.engines.duckdb.rendering import render
from shoal.engines.memory.rows import rows_statement
from shoal.errors import ShoalError
from shoal.release.execute import prepare
from shoal.release.resolve_bounds import as_asked, resolve, totals_query
from shoal.stack import on_its_own_stack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import shoal
    from shoal.plan.releases import StatementPlan

RELATIONS, EXPRESSIONS = 2, 30
"""Of one statement, and of each of its relations."""
ASKED = 12
"""One statement in this many is asked of both neighbours; the others are computed on both."""
EVERY = 20
NEW_LINE = "\n"
ORDINARY = "OPTIONS(epsilon = 1) SUM(x, contribution_bounds_per_group => (0, 1)) AS found FROM ({})"


@dataclass(frozen=True)
class Branch:
    """A relation with the expressions that are computed over it; each stands on a line of its own."""

    owner: str
    relation: str
    condition: str
    expressions: tuple[str, ...]

    def lines(self) -> list[str]:
        values = [f"CASE WHEN ({each}) IS NULL THEN 0 ELSE 1 END" for each in self.expressions]
        return [
            f"SELECT {self.owner} AS uid, 0",
            *(f"+ {each}" for each in values),
            f"AS x FROM {self.relation}{self.condition}",
        ]

    def without(self, place: int) -> Branch:
        return replace(self, expressions=self.expressions[:place] + self.expressions[place + 1 :])

    def alone(self) -> Iterator[Branch]:
        for each in self.expressions:
            yield replace(self, expressions=(each,))


@dataclass(frozen=True)
class Packed:
    """What one statement is made of."""

    tables: tuple[str, ...]
    branches: tuple[Branch, ...]

    def sql(self) -> str:
        before = f"WITH {', '.join(self.tables)} " if self.tables else ""
        united = "\nUNION ALL\n".join("\n".join(branch.lines()) for branch in self.branches)
        return f"{before}SELECT WITH DIFFERENTIAL_PRIVACY {ORDINARY.format(f'{NEW_LINE}{united}')}"

    def count(self) -> int:
        return sum(len(branch.expressions) for branch in self.branches)

    def apart(self) -> Iterator[Packed]:
        for branch in self.branches:
            yield replace(self, branches=(branch,))

    def blamed(self, line: int) -> tuple[int, int | None] | None:
        """The branch and the expression on a line of the text; no expression where the relation is to blame."""
        first = 2
        for place, branch in enumerate(self.branches):
            within = line - first
            if 0 <= within < len(branch.lines()):
                return place, within - 1 if 1 <= within <= len(branch.expressions) else None
            first += len(branch.lines()) + 1
        return None

    def without(self, place: int, expression: int | None) -> Packed:
        kept = () if expression is None else (self.branches[place].without(expression),)
        return replace(self, branches=(*self.branches[:place], *kept, *self.branches[place + 1 :]))


def of_the_second(seed: int) -> Packed:
    made = SecondGenerator(seed)
    branches = []
    for _ in range(RELATIONS):
        scope = made.source()
        written = tuple(made.any_expression(scope, 1)[1] for _ in range(EXPRESSIONS))
        branches.append(Branch(scope.owner, scope.text, made.where(scope), written))
    return Packed(tuple(made.with_tables), tuple(branches))


def of_the_first(seed: int) -> Packed:
    made = Grammar(seed)
    branches = []
    for _ in range(RELATIONS):
        below = made.relation(2)
        kinds = made.dice.choices((NUMBER, TEXT, FLAG, DAY), (5, 4, 4, 2), k=EXPRESSIONS)
        written = tuple(made.expression(kind, below.columns, 2) for kind in kinds)
        where = f" WHERE {made.expression(FLAG, below.columns, 2)}" if made.dice.random() < 0.4 else ""
        branches.append(Branch(made.owner_of(below), below.sql, where, written))
    return Packed((), tuple(branches))


class Neighbours:
    """Two databases that differ in one owner; what planning knows of them is the same."""

    def __init__(self, sessions: list[shoal.Session]) -> None:
        first, second = self.sessions = sessions
        require_one_plan(first, second)
        if first._engine._sources != second._engine._sources:
            raise AssertionError("one text does not read both")
        self._planned = "", None

    def refusal(self, packed: Packed) -> tuple[str, int]:
        """What planning and the engine's reading say, and of which line; nothing where the statement can be asked."""
        sql, session = packed.sql(), self.sessions[0]
        try:
            self._planned = sql, session.plan(sql)
            prepare(self._planned[1], session._engine)
        except ShoalError as error:
            return str(error), error.position[0] if error.position else 0
        except Exception as error:  # noqa: BLE001 - an exception of another kind is a find
            return f"RAW {type(error).__name__}: {error}", 0
        return "", 0

    def face(self, packed: Packed, *, ask: bool) -> str:
        """What is seen that must not be; nothing where both neighbours look alike."""
        sql, session = packed.sql(), self.sessions[0]
        if not ask:
            sql = rows_of(self._planned[1] if self._planned[0] == sql else session.plan(sql), session)
        faces = [seen(asked if ask else _computed, each, sql) for each in self.sessions]
        if faces[0] != faces[1]:
            return f"told apart: {faces[0]} | {faces[1]}"
        return "" if faces[0].startswith(("answered", "computed")) else faces[0]


def rows_of(plan: StatementPlan, session: shoal.Session) -> str:
    """The engine's text for the rows that the sum reads: every expression on every row."""
    (select,) = plan.selects
    tasks = tuple(as_asked(task) for task, _, _ in (resolve(r, ()) for r in select.releases) if task is not None)
    return render(rows_statement(totals_query(select, tasks), session._engine._sources))


def _computed(session: shoal.Session, text: str) -> str:
    return f"computed {session._engine._connection.sql(text).to_arrow_table().schema.types}"


def parts_of(hunt: Hunt, pair: Neighbours, packed: Packed) -> Iterator[Packed]:
    """Statements of all that is not refused: what a refusal points at is taken out, until none is left."""
    while packed.branches:
        words, line = pair.refusal(packed)
        if not words:
            yield packed
            return
        if words.startswith((*NEVER, "RAW")):
            hunt.finds[str(hunt.next_seed)] = (
                f"{words}\n{cut_down(packed, lambda part: bool(pair.refusal(part)[0])).sql()}"
            )
            return
        blamed = packed.blamed(line)
        if len(packed.branches) > 1 and (blamed is None or words.startswith("E_SETOP_UID")):
            for part in packed.apart():
                yield from parts_of(hunt, pair, part)
            return
        place, expression = blamed or (0, None)
        hunt.asked[f"{'relation' if expression is None else 'expression'} refused: {words.split(':')[0]}"] += 1
        packed = packed.without(place, expression)


def hunted(hunt: Hunt, generator: str, stop: int) -> None:
    write = {"first": of_the_first, "second": of_the_second}[generator]
    pair = Neighbours(sessions_of(generator, stated=True))
    gc.freeze()
    gc.set_threshold(100_000, 50, 50)
    began = time.process_time()
    for seed in range(hunt.next_seed, stop):
        found = len(hunt.finds)
        one(hunt, pair, write(seed), ask=seed % ASKED == 0)
        if len(hunt.finds) > found:  # an engine that failed may answer nothing any more
            pair = Neighbours(sessions_of(generator, stated=True))
        hunt.next_seed = seed + 1
        if seed % EVERY == 0:
            now = time.process_time()
            hunt.seconds, began = hunt.seconds + now - began, now
            hunt.save()
    hunt.save()


def one(hunt: Hunt, pair: Neighbours, packed: Packed, *, ask: bool) -> None:
    """One statement: taken apart where it is refused, and looked at on both neighbours."""
    hunt.asked["statements written"] += 1
    hunt.asked["relations written"] += len(packed.branches)
    hunt.asked["expressions written"] += packed.count()
    way = "asked" if ask else "computed"
    for left in parts_of(hunt, pair, packed):
        hunt.asked[f"statements {way} on both"] += 1
        hunt.asked[f"relations {way} on both"] += len(left.branches)
        hunt.asked[f"expressions {way} on both"] += left.count()
        if found := pair.face(left, ask=ask):
            # After an error of its own an engine fails whatever it is asked: only what fails otherwise can be cut down.
            broken = "RAW" in found or "E_EXECUTION" in found
            shown = left if broken else cut_down(left, lambda part: bool(pair.face(part, ask=ask)))
            hunt.finds[str(hunt.next_seed)] = f"{found}\n{shown.sql()}"


def cut_down(packed: Packed, shows: Callable[[Packed], bool]) -> Packed:
    """The same find with as little as shows it."""
    for branch in packed.branches:
        for part in (replace(branch, expressions=()), *branch.alone()):
            smaller = replace(packed, branches=(part,))
            if shows(smaller):
                return smaller
    return packed


if __name__ == "__main__":
    which, first, last, where = sys.argv[1:]
    on_its_own_stack(lambda: hunted(Hunt.resumed(Path(where), int(first)), which, int(last)), shared=True)
