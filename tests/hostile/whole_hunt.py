"""A hunt with whole queries, each asked by itself: `python tests/hostile/whole_hunt.py both 0 1000000 progress.json`.

What does not depend on the query is opened once. Every query is parsed, bound, planned and verified. That says nothing about
values, so some go on: one in `PREPARED` is prepared, so that the engine reads its statements; of one in `COMPUTED` the exact
half is computed on both neighbours, every number that gets noise held against what its mechanism declared, group by group. So
is one in `NEW` that puts two constructs together which none that was computed so put together before (`hunt_shapes`): work goes
where something is new.

Planning is done once for both neighbours, which know the same of it (that is checked), and on each of them one time in `APART`. Of
the queries that are computed, one in `WITH_ALONE` is computed for the owner alone as well, so that the part of the others may not
move at all, and one in `LARGE` on tables of 150,000 rows by several threads. One in `ASKED` is asked of both from its text to its
answer.

Only texts that were not written before count. A file of their digests stands beside the progress, so that runs add up.
"""

from __future__ import annotations

import gc
import hashlib
import random
import re
import sys
import tempfile
import time
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import referring_data
import second_data
from fuzz_forms import DAY, FLAG, NUMBER, PRIVATE_AGGREGATES, TEXT
from fuzz_grammar import Grammar
from hunt import Hunt, asked, judged, require_one_plan, seen, with_limits
from hunt_shapes import Shapes
from second_generator import SecondGenerator

import shoal
from shoal.audit.suite.replay import Recorder, entries_of
from shoal.engines.base import EngineFailure
from shoal.engines.deadline import Deadline
from shoal.engines.duckdb import connection, engine
from shoal.engines.duckdb.rendering import render
from shoal.engines.memory.path import KeptRows
from shoal.engines.memory.rows import rows_statement
from shoal.errors import ShoalError
from shoal.release.execute import prepare
from shoal.stack import on_its_own_stack

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shoal.plan.releases import StatementPlan

PREPARED, COMPUTED = 50, 250
NEW = 40
"""At most one planned query in this many is computed because it puts something new together; others wait for the next like them."""
APART, WITH_ALONE, ASKED, LARGE = 200, 10, 200, 400
FIRST_LARGE = 9
"""The second generator spoils every fourth query, from the third one on: large tables get others."""
FINDING = 403
"""One query in this many finds its limits, for which dozens of plans are made."""
ANY_NOISE = 11
"""One query in this many leaves the mechanisms to the planner; the others name those whose scales are soon found."""
POLICIES = 8
"""One query under a policy in this many is kept: their mechanisms are searched for."""
EVERY = 500
LONGEST_SECONDS = 60.0
"""Of processor time, for one query on all databases."""
LONGEST_PLANNING = 10.0
"""Of processor time, for planning alone."""
TURNS = {"first": 1, "second": 5}
"""The second generator writes one text where the first writes five, by a seed of its own: its texts are longer."""
GENERATORS = tuple(TURNS)


# ---- texts ---------------------------------------------------------------------------------------------------------


def of_the_first(seed: int) -> str:
    """Small queries more often than large ones: more of them in the same time, and more are accepted."""
    made = Grammar(seed)
    way = made.dice.random()
    if way < 0.8:
        return small_one_of(made)
    if way < 0.9:
        return made.private(made.relation(made.dice.choice((1, 2))))
    return made.statement() if way < 0.98 else made.query()


def small_one_of(made: Grammar) -> str:
    """One number, by one key or none."""
    rows = made.relation(made.dice.choice((0, 1, 1)))
    value = made.filled(made.dice.choice(PRIVATE_AGGREGATES), rows.columns, 1)
    keyed = made.dice.random() < 0.5
    key = f"{made.expression(made.dice.choice((TEXT, NUMBER, FLAG, DAY)), rows.columns, 1)} AS k0, " if keyed else ""
    where = f" WHERE {made.expression(FLAG, rows.columns, 2)}" if made.dice.random() < 0.6 else ""
    clause = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({made.options(old=False)})"
    return f"{clause} {key}{value} AS v0 FROM {rows.sql}{where}{' GROUP BY 1' if keyed else ''}"


def of_the_second(seed: int) -> str:
    made = SecondGenerator(seed)
    if made.shape == "private" and seed % 3:
        del made.expressions[1:]
        select = made.private_select(scope=made.source(1))
        before = f"WITH {', '.join(made.with_tables)} " if made.with_tables else ""
        return before + select.text + made.ending(select.columns)
    return made.statement()


WRITERS = {"first": of_the_first, "second": of_the_second}
SEARCHES = re.compile(r"(max_groups_contributed|kappa) ?= ?'?AUTO'?")
PLAIN_OPTIONS = re.compile(r"OPTIONS\((?![^()]*(noise|strategy|policy))")

SOON_FOUND = (
    *["noise = LAPLACE, group_selection_strategy = OPTIMAL"] * 2,
    "noise = LAPLACE, group_selection_strategy = LAPLACE_THRESHOLD",
)


def written(generator: str, seed: int) -> str:
    """The text of a seed; most of those that would find their limits name them instead, and most name their mechanisms."""
    sql = WRITERS[generator](seed)
    if seed % FINDING != 0:
        sql = SEARCHES.sub(f"max_groups_contributed = {random.Random(seed).randint(1, 5)}", sql)
    return sql if seed % ANY_NOISE == 0 else PLAIN_OPTIONS.sub(f"OPTIONS({SOON_FOUND[seed % len(SOON_FOUND)]}, ", sql)


def is_left_out(seed: int, sql: str) -> bool:
    return seed % POLICIES != 0 and "WITH POLICY" in sql


CONSTRUCTS = {
    name: re.compile(pattern, re.IGNORECASE)
    for name, pattern in {
        "JOIN of any kind": r"\bJOIN\b",
        "outer join": r"\b(LEFT|RIGHT|FULL)( OUTER)? JOIN\b",
        "semi or anti join": r"\b(SEMI|ANTI) JOIN\b",
        "NATURAL or USING": r"\bNATURAL\b|\bUSING\b",
        "window": r"\bOVER\b",
        "window frame": r"\b(ROWS|RANGE|GROUPS) BETWEEN\b",
        "QUALIFY": r"\bQUALIFY\b",
        "set operation": r"\b(UNION|INTERSECT|EXCEPT)\b",
        "WITH table": r"^\W*WITH\b",
        "EXISTS": r"\bEXISTS\b",
        "IN, ANY or ALL of a relation": r"\b(IN|ANY|ALL|SOME) ?\(SELECT\b",
        "subquery in FROM": r"\b(FROM|JOIN) \(SELECT\b",
        "scalar subquery": r"(?<!FROM )(?<!JOIN )(?<!IN )(?<!ANY )(?<!ALL )(?<!EXISTS )\(SELECT (MAX|MIN|AVG|COUNT|SUM)",
        "GROUP BY": r"\bGROUP BY\b",
        "several groupings": r"\b(ROLLUP|CUBE|GROUPING SETS)\b",
        "HAVING": r"\bHAVING\b",
        "DISTINCT": r"\bDISTINCT\b",
        "FILTER": r"\bFILTER ?\(",
        "CASE": r"\bCASE\b",
        "CAST": r"\b(TRY_|SAFE_)?CAST ?\(",
        "ORDER BY or LIMIT": r"\b(ORDER BY|LIMIT|FETCH|OFFSET)\b",
        "quantile, MIN or MAX": r"\b(MEDIAN|QUANTILE_\w+|PERCENTILE_\w+|APPROX_QUANTILES?|ANON_(NTILE|MEDIAN))\b",
        "named bounds": r"contribution_bounds_per",
        "public groups": r"PUBLIC_GROUPS",
        "Gaussian noise": r"noise ?= ?'?GAUSSIAN",
        "bounds of each group": r"inferred_bounds ?= ?'?PER_GROUP",
        "limits that are found": r"AUTO\b",
        "old clause": r"WITH ANONYMIZATION",
        "values or public rows listed": r"\bVALUES\b|\bUNNEST\b",
    }.items()
}
"""What is counted of the queries that were computed on both neighbours."""


# ---- databases -----------------------------------------------------------------------------------------------------


def opened(generator: str, catalog: dict[str, Any]) -> list[shoal.Session]:
    """With the owner, without, and the owner alone."""
    if generator == "first":
        made = referring_data.tables(), referring_data.neighbour(), referring_data.alone()
        return [shoal.connect(tables, catalog=catalog) for tables in made]
    return _in_files(catalog, {}, {"with_victim": False}, {"ordinary": 0})


def opened_large(catalog: dict[str, Any]) -> list[shoal.Session]:
    """More rows than one thread gets at a time; the victim's are the same as on small tables."""
    large = {"ordinary": second_data.LARGE}
    return _in_files(catalog, large, large | {"with_victim": False})


def _in_files(catalog: dict[str, Any], *made: dict[str, Any]) -> list[shoal.Session]:
    """Files of one name: what is written for one of them reads the other."""
    paths = [second_data.database(Path(tempfile.mkdtemp()) / "t.duckdb", **how) for how in made]
    return [shoal.connect(path, catalog=catalog) for path in paths]


class WrittenOnce:
    """Statements of the query at hand: the neighbours have the same sources, so that one text reads them all."""

    def __init__(self) -> None:
        self._rows: list[tuple[Any, Any]] = []
        self._texts: dict[int, tuple[Any, str]] = {}

    def use(self) -> None:
        engine.rows_statement = self._rows_statement
        connection.render = self._rendered

    def leave(self) -> None:
        engine.rows_statement, connection.render = rows_statement, render
        self._rows.clear()
        self._texts.clear()

    def _rows_statement(self, query: Any, sources: Any) -> Any:
        for known, tree in self._rows:
            if known == query:
                return tree
        self._rows.append((query, rows_statement(query, sources)))
        return self._rows[-1][1]

    def _rendered(self, tree: Any, **how: Any) -> str:
        """By the tree itself, which is kept, so that no other one can have its place in memory."""
        if id(tree) not in self._texts:
            self._texts[id(tree)] = tree, render(tree, **how)
        return self._texts[id(tree)][1]


class TypesToo(Recorder):
    """Remembers what the keys of its answers were."""

    def __init__(self, engine: Any) -> None:
        super().__init__(engine)
        self.types: set[str] = set()

    def begin(self) -> None:
        """One query has its rows to itself, as in a snapshot."""
        self.answers.clear()
        self.types.clear()
        self.engine._rows_kept = KeptRows()

    def totals(self, query: Any, key: Any) -> Any:
        found = super().totals(query, key)
        self.types.add(str(found.keys.schema))
        return found


class Databases:
    """Neighbours that were opened once."""

    def __init__(self, sessions: list[shoal.Session]) -> None:
        self.sessions = sessions
        for other in sessions[1:]:
            require_one_plan(sessions[0], other)
            if sessions[0]._engine._sources != other._engine._sources:
                raise AssertionError("one text does not read both")
        self.recorders = [TypesToo(session._engine) for session in sessions]

    def interrupt(self) -> None:
        for session in self.sessions:
            session._engine._connection.interrupt()

    def exact_half(self, plan: StatementPlan, seed: int, *, alone: bool) -> str:
        """What is wrong with the numbers that enter mechanisms; nothing where all is well."""
        taken = self.recorders if alone else self.recorders[:2]
        written_once = WrittenOnce()
        for recorder in taken:
            recorder.begin()
        try:
            written_once.use()
            found = [str(entry) for entry in entries_of(plan, taken, seed) if not entry.holds]
        except EngineFailure:
            return "the engine fails where data is read"
        except Exception as error:  # noqa: BLE001 - whatever it is, it happened after data was read
            return f"RAW {type(error).__name__}: {error}"
        finally:
            written_once.leave()
        if len({frozenset(recorder.types) for recorder in taken[:2]}) > 1:
            found.append("keys of other types on the neighbour")
        return "; ".join(found)


# ---- the hunt ------------------------------------------------------------------------------------------------------


class Ground:
    """All databases of one generator."""

    def __init__(self, generator: str, shapes: Shapes | None = None) -> None:
        catalog = second_data.CATALOG if generator == "second" else referring_data.PLAIN_CATALOG
        self.generator = generator
        self.shapes = shapes if shapes is not None else Shapes()
        self._since_new = NEW
        self._catalog = with_limits(catalog)
        self._small = Databases(opened(generator, self._catalog))

    @cached_property
    def _large(self) -> Databases:
        return Databases(opened_large(self._catalog))

    def _may_be_new(self, plan: StatementPlan) -> bool:
        """Whether a plan puts something new together, and it is time for one of these."""
        self._since_new += 1
        new = self.shapes.new_of(plan) if self._since_new >= NEW else set()
        if new:
            self.shapes.add(new)
            self._since_new -= NEW
        return bool(new)

    def looked_at(self, seed: int, sql: str) -> tuple[str, str]:
        """What became of a query, and what is wrong with that."""
        began = time.process_time()
        faces, plan = [], None
        for session in self._small.sessions if seed % APART == 0 else self._small.sessions[:1]:
            face, plan = planned(session, sql)
            faces.append(face)
        if found := judged(faces):
            return "refused: E_INTERNAL or told apart", found
        if time.process_time() - began > LONGEST_PLANNING * len(faces):
            return "planned", f"planning took {time.process_time() - began:.1f} seconds"
        if faces[0] not in {"planned", "other"}:
            return f"refused: {faces[0].split(':')[0]}", ""
        return self._looked_at_data(seed, sql, plan)

    def _looked_at_data(self, seed: int, sql: str, plan: StatementPlan | None) -> tuple[str, str]:
        """A query that is accepted. What hangs is interrupted, and is a find."""
        is_new = plan is not None and self._may_be_new(plan)
        is_large = self.generator == "second" and seed % LARGE == FIRST_LARGE
        if not is_new and not is_large and seed % PREPARED != 0:
            return ("planned" if plan is not None else "planned, nothing private"), ""
        ground, deadline = self._large if is_large else self._small, Deadline(LONGEST_SECONDS)
        with deadline.stops(ground.interrupt):
            became, wrong = computed(ground, seed, sql, plan, whole=is_new or is_large or seed % COMPUTED == 0)
        became = f"{became} on large tables" if is_large else became
        return became, "too slow" if deadline.passed else wrong


def computed(ground: Databases, seed: int, sql: str, plan: StatementPlan | None, *, whole: bool) -> tuple[str, str]:
    """What became of a query that was planned, and what is wrong with that."""
    if plan is not None:
        faces = [prepared(session, plan) for session in (ground.sessions if seed % APART == 0 else ground.sessions[:1])]
        if found := judged(faces):
            return "refused: E_INTERNAL or told apart", found
        if faces[0] != "prepared":
            return f"refused: {faces[0].split(':')[0]}", ""
    if seed % ASKED == 0 or plan is None:
        answers = [seen(asked, session, sql) for session in ground.sessions[:2]]
        if found := judged(answers):
            return "asked", found
        if plan is None:
            answered = re.split(r"[\[: ]", answers[0])[0]
            return f"asked: {answered}", ""
    if plan is None or not whole:
        return "prepared", ""
    became = "computed and asked" if seed % ASKED == 0 else "computed"
    return became, ground.exact_half(plan, seed, alone=seed % WITH_ALONE == 0)


def planned(session: shoal.Session, sql: str) -> tuple[str, StatementPlan | None]:
    """`planned` with the verified plan, `other` for what has no exact half, or the refusal."""
    try:
        if session._under_policy(sql) is not None:
            return "other", None
        plan, explain = session._planned(sql)
        if explain or not plan.selects:
            return "other", None
    except ShoalError as error:
        return str(error), None
    except Exception as error:  # noqa: BLE001 - an exception of another kind is a find
        return f"RAW {type(error).__name__}: {error}", None
    return "planned", plan


def prepared(session: shoal.Session, plan: StatementPlan) -> str:
    """`prepared` where the engine reads every statement as it was meant, or the refusal."""
    try:
        prepare(plan, session._engine)
    except ShoalError as error:
        return str(error)
    except Exception as error:  # noqa: BLE001 - an exception of another kind is a find
        return f"RAW {type(error).__name__}: {error}"
    return "prepared"


class Texts:
    """Digests of all texts that were written."""

    def __init__(self, path: Path) -> None:
        self._path = path
        kept = path.read_bytes() if path.exists() else b""
        self._known = {kept[place : place + 10] for place in range(0, len(kept), 10)}
        self._new: list[bytes] = []

    def is_new(self, sql: str) -> bool:
        digest = hashlib.blake2b(sql.encode(errors="surrogatepass"), digest_size=10).digest()
        if digest in self._known:
            return False
        self._known.add(digest)
        self._new.append(digest)
        return True

    def save(self) -> None:
        with self._path.open("ab") as file:
            file.write(b"".join(self._new))
        self._new.clear()


def constructs_of(sql: str) -> Iterable[str]:
    return (name for name, pattern in CONSTRUCTS.items() if pattern.search(sql))


def one(hunt: Hunt, ground: Ground, seed: int, sql: str) -> bool:
    """One query; whether it is a find."""
    became, wrong = ground.looked_at(seed, sql)
    hunt.asked[f"{ground.generator}, {became}"] += 1
    if became.startswith("computed"):
        hunt.asked.update(f"construct: {name}" for name in constructs_of(sql))
    if wrong:
        hunt.finds[f"{ground.generator} {seed}"] = f"{wrong}\n{sql}"
    return bool(wrong)


def hunted(hunt: Hunt, generators: Iterable[str], stop: int) -> None:
    texts = Texts(hunt.path.with_suffix(".texts"))
    shapes = {generator: Shapes(hunt.path.with_suffix(f".{generator}.shapes")) for generator in generators}
    grounds = {generator: Ground(generator, known) for generator, known in shapes.items()}
    began = time.process_time()
    for seed in range(hunt.next_seed, stop):
        for generator, ground in list(grounds.items()):
            own, beside = divmod(seed, TURNS[generator])
            if beside:
                continue
            sql = written(generator, own)
            if is_left_out(own, sql) or not texts.is_new(sql):
                hunt.asked[f"{generator}, left out or written before"] += 1
            elif one(hunt, ground, own, sql):  # an engine that failed may answer nothing any more
                grounds[generator] = Ground(generator, shapes[generator])
        hunt.next_seed = seed + 1
        if seed % EVERY == 0:
            now = time.process_time()
            hunt.seconds, began = hunt.seconds + now - began, now
            for kept in (texts, hunt, *shapes.values()):
                kept.save()
    hunt.seconds += time.process_time() - began
    for kept in (texts, hunt, *shapes.values()):
        kept.save()


if __name__ == "__main__":
    which, first, last, where = sys.argv[1:]
    gc.freeze()
    gc.set_threshold(200_000, 50, 50)
    chosen = GENERATORS if which == "both" else (which,)
    on_its_own_stack(lambda: hunted(Hunt.resumed(Path(where), int(first)), chosen, int(last)), shared=True)
