"""A collection and the SQL of the same meaning have the same integers, on every engine and by one sampling key."""

from __future__ import annotations

import datetime as dt
import itertools
import math
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_memory_path import by_keys

import shoal
from shoal import aggregates as agg
from shoal.audit.suite.replay import Neighbours
from shoal.engines.deadline import Deadline
from shoal.plan.totals import SamplingKey
from shoal.release.execute import measure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

KEY = SamplingKey(tuple((1 << 60) + 7 * i for i in range(160)))
CATALOG = {
    "tables": {
        "t": {"owner": "uid", "owner_kind": "person"},
        "u": {"owner": "uid", "owner_kind": "person"},
        "p": {"public": True},
    }
}
WORDS = ["", "ß", "日本", "a b", None, "A", "a"]
ROWS = 900
START = dt.datetime.fromisoformat("2024-03-10 01:00")
"""The night in which New York has no hour between two and three."""


def tables() -> dict[str, pa.Table]:
    """Owners with many rows and with few, a third of all rows of one of them, values that are missing or far away."""
    number = range(ROWS)
    reals = [0.0, -0.0, 1.5, -2.25, 1e300, float("nan"), None]
    return {
        "t": pa.table(
            {
                "uid": pa.array([7 if i % 3 == 0 else i % 83 if i % 50 else None for i in number], pa.int64()),
                "word": pa.array([WORDS[i % 7] for i in number], pa.string()),
                "x": pa.array([reals[i * i % 7] for i in number], pa.float64()),
                "n": pa.array([2**62 if i == 5 else i % 11 for i in number], pa.int64()),
                "day": pa.array([dt.date(2024, 2, 28) + dt.timedelta(days=i % 5) for i in number], pa.date32()),
                "at": pa.array([START + dt.timedelta(minutes=i) for i in number], pa.timestamp("us")),
            }
        ),
        "u": pa.table(
            {"uid": pa.array(range(60), pa.int64()), "age": pa.array([20 + i % 40 for i in range(60)], pa.int64())}
        ),
        "p": pa.table({"word": ["a", "ß", "nowhere"], "kind": ["letter", "letter", "none"]}),
    }


@dataclass(frozen=True)
class Pipeline:
    """A collection that ends in groups, its aggregates, and SELECT … FROM … of the same meaning."""

    name: str
    groups: Callable[[shoal.Session], Any]
    aggregates: dict[str, Any]
    sql: str
    options: str = "epsilon = 1, delta = 1e-6, max_groups_contributed = 2"


def lengthened(record: Any) -> dict[str, Any]:
    return {"word": f"{record.word}!", "long": len(record.word), "x": record.x, "n": record.n}


def halves(record: Any) -> list[dict[str, Any]]:
    return [{"word": record.word, "part": part} for part in (0, 1)]


def totals(records: list[Any]) -> list[dict[str, Any]]:
    return [{"rows": len(records), "most": max((r.n for r in records if r.n is not None), default=None)}]


LONG = {"word": "text", "long": "integer", "x": "double", "n": "integer"}
BOUNDS = "contribution_bounds_per_group =>"
TWO_ROWS = "contribution_bounds_per_row => (0, 16), max_contributions_per_group => 2"
COUNT = f"COUNT(*, {BOUNDS} (0, 9))"
PIPELINES = [
    Pipeline(
        "map and filter",
        lambda s: (
            s.collection("t")
            .filter(lambda r: r.word is not None)
            .map(lengthened, LONG)
            .group_by("word", max_groups_per_owner=2)
        ),
        {
            "c": agg.count(upper=9),
            "s": agg.sum("x", bounds=(-5, 5)),
            "n": agg.sum("n", bounds=(0, 99)),
            "m": agg.mean("x", bounds=(-1, 1)),
        },
        f"word || '!' AS word, {COUNT}, SUM(x, {BOUNDS} (-5, 5)), SUM(n, {BOUNDS} (0, 99)), AVG(x, {BOUNDS} (-1, 1)) "
        "FROM t WHERE word IS NOT NULL GROUP BY word || '!'",
    ),
    Pipeline(
        "bounds that are found, quantiles, values",
        lambda s: s.collection("t").filter(lambda r: r.n < 100).group_by("day", max_groups_per_owner=2),
        {
            "s": agg.sum("n"),
            "q": agg.quantiles("n", [0.25, 0.5], bounds=(0, 16), max_rows=2),
            "v": agg.variance("n", bounds=(0, 16), max_rows=2),
            "d": agg.count_distinct("word", max_values=2),
        },
        f"day, SUM(n), PERCENTILE_CONT(n, 0.25, {TWO_ROWS}), PERCENTILE_CONT(n, 0.5, {TWO_ROWS}), VAR_SAMP(n, {TWO_ROWS}), "
        "COUNT(DISTINCT word, max_contributions_per_group => 2) FROM t WHERE n < 100 GROUP BY day",
    ),
    Pipeline(
        "flat_map",
        lambda s: (
            s.collection("t")
            .flat_map(halves, {"word": "text", "part": "integer"})
            .group_by("word", "part", max_groups_per_owner=2)
        ),
        {"c": agg.count(upper=9), "o": agg.count_owners()},
        f"word, part, {COUNT}, COUNT(*, {BOUNDS} (0, 1)) FROM (SELECT uid, word, 0 AS part FROM t UNION ALL "
        "SELECT uid, word, 1 FROM t) b GROUP BY word, part",
    ),
    Pipeline(
        "per owner, then a join",
        lambda s: (
            s.collection("t")
            .per_owner(totals, {"rows": "integer", "most": "integer"})
            .join(s.collection("u").where("age > 30"))
            .group_by("age", max_groups_per_owner=2)
        ),
        {"c": agg.count(upper=9), "r": agg.sum("rows", bounds=(0, 400)), "m": agg.sum("most", bounds=(0, 9))},
        f"age, {COUNT}, SUM(rows, {BOUNDS} (0, 400)), SUM(most, {BOUNDS} (0, 9)) FROM "
        "(SELECT uid, COUNT(*) AS rows, MAX(n) AS most FROM t GROUP BY uid) a JOIN u ON u.uid = a.uid WHERE age > 30 GROUP BY age",
    ),
    Pipeline(
        "SQL between functions, a public join",
        lambda s: (
            s.collection("t")
            .filter(lambda r: r.n % 2 == 0)
            .sql("SELECT word, n + 1 AS m FROM this WHERE n > 2")
            .filter(lambda r: r.m < 9)
            .join_public("p", on="word")
            .group_by("kind", max_groups_per_owner=2)
        ),
        {"c": agg.count(upper=9), "m": agg.sum("m", bounds=(0, 50))},
        f"kind, {COUNT}, SUM(n + 1, {BOUNDS} (0, 50)) FROM t JOIN p ON p.word = t.word "
        "WHERE n % 2 = 0 AND n > 2 AND n + 1 < 9 GROUP BY kind",
    ),
    Pipeline(
        "public groups",
        lambda s: (
            s.collection("t").filter(lambda r: r.at.minute < 30).group_by("word", max_groups_per_owner=2, public="p")
        ),
        {"c": agg.count(upper=9)},
        f"p.word, {COUNT} FROM p LEFT JOIN (SELECT * FROM t WHERE EXTRACT(MINUTE FROM at) < 30) t "
        "ON t.word = p.word GROUP BY p.word",
        "epsilon = 1, max_groups_contributed = 2, group_selection_strategy = PUBLIC_GROUPS",
    ),
]


class Odd(int):
    """A number that is drawn when it is looked at, and sometimes raises what nobody expects."""

    def __float__(self) -> float:
        if self % 5 == 0:
            raise SystemExit
        return random.uniform(-9, 9)

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 1


def misbehaves(record: Any) -> Iterator[Any]:
    """Never ends, draws, gives things that are no records and values of no type, and stops half way."""
    for n in itertools.count(record.n or 0):
        yield {"v": Odd(n), "word": random.choice([record.word, "\ud800", b"a", None])}
        yield [("v", n)]
        if n % 11 == 3:
            raise KeyboardInterrupt


def uses_up(records: list[Any]) -> Iterator[dict[str, Any]]:
    """Changes the list that it is given, and draws from it."""
    first = records.pop(random.randrange(len(records)))
    records.clear()
    yield {"v": first.v, "word": first.word if first.v > -8 else records[0]}
    yield {"v": random.gauss(0, 9), "word": "more"}


VALUES = {"v": "double", "word": "text"}
HOSTILE = {
    "flat_map": lambda s: s.collection("t").flat_map(misbehaves, VALUES, most=9),
    "per owner": lambda s: (
        s.collection("t")
        .flat_map(misbehaves, VALUES, most=3)
        .filter(lambda r: r.v)
        .per_owner(uses_up, VALUES, max_rows=5)
    ),
    "a join": lambda s: (
        s.collection("t")
        .flat_map(misbehaves, VALUES, most=2)
        .join(s.collection("u").map(lambda r: {"old": r.age > 30}, {"old": "boolean"}))
    ),
    "a union": lambda s: (
        s.collection("t")
        .flat_map(misbehaves, VALUES, most=2)
        .union(s.collection("t").per_owner(lambda rs: [{"v": len(rs), "word": rs[0].word}], VALUES, max_rows=4))
    ),
}


def of_hostile(name: str) -> Callable[[shoal.Session], Any]:
    """The plan of several aggregates over what hostile functions make."""
    asked = {
        "c": agg.count(upper=3),
        "s": agg.sum("v", bounds=(-7, 9)),
        "d": agg.count_distinct("v", max_values=2),
        "q": agg.quantiles("v", [0.2, 0.5], bounds=(-9, 9), max_rows=2),
        "v": agg.variance("v", bounds=(-9, 9), max_rows=2),
    }
    return lambda s: HOSTILE[name](s).group_by("word", max_groups_per_owner=2).planned(**asked, epsilon=1, delta=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
def test_an_owner_moves_what_hostile_functions_make_by_no_more_than_declared(name):
    with Neighbours.of(tables(), CATALOG, 7) as pair:
        found = pair.replay(of_hostile(name), ask=False)
    assert found.passed, found.problems
    assert len(found.entries) > 5


def planned(session: shoal.Session, pipeline: Pipeline) -> Any:
    delta = 1e-6 if "delta" in pipeline.options else None
    return pipeline.groups(session).planned(**pipeline.aggregates, epsilon=1, delta=delta).selects[0]


class Recording:
    """An engine that keeps what it answers."""

    def __init__(self, engine: Any) -> None:
        self._engine, self.answers = engine, []

    def totals(self, query: Any, key: SamplingKey) -> Any:
        found = self._engine.totals(query, key)
        self.answers.append((by_keys(found), found.keys.schema.types))
        return found


def answers(session: shoal.Session, select: Any) -> list[Any]:
    """The first answer of the engine: about bounds, where they are found, since what is found is drawn."""
    with session.snapshot(Deadline(600)) as engine:
        recording = Recording(engine)
        measure(select, recording, KEY)
    return recording.answers[:1]


@pytest.fixture(scope="module")
def embedded():
    with shoal.connect(tables(), catalog=CATALOG) as session:
        yield session


@pytest.mark.parametrize("pipeline", PIPELINES, ids=lambda p: p.name)
def test_a_collection_has_the_integers_of_the_same_sql(embedded, pipeline):
    asked = embedded.plan(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({pipeline.options}) {pipeline.sql}").selects[0]
    here, there = planned(embedded, pipeline), asked
    assert here.events == there.events
    assert answers(embedded, here) == answers(embedded, there)


@pytest.fixture(scope="module")
def on_postgresql(postgres_database):
    url, connection = postgres_database
    types = {
        "uid": "bigint",
        "word": "text",
        "x": "float8",
        "n": "bigint",
        "day": "date",
        "at": "timestamp",
        "age": "bigint",
        "kind": "text",
    }
    for name, table in tables().items():
        columns = ", ".join(f"{column} {types[column]}" for column in table.column_names)
        connection.execute(f"CREATE TABLE {name} ({columns})")
        marks = ", ".join(["%s"] * table.num_columns)
        with connection.cursor() as cursor:
            cursor.executemany(
                f"INSERT INTO {name} VALUES ({marks})", list(zip(*table.to_pydict().values(), strict=True))
            )
    with shoal.connect(url, catalog=CATALOG) as session:
        yield session


@pytest.mark.parametrize("pipeline", PIPELINES, ids=lambda p: p.name)
def test_postgresql_has_the_integers_of_the_embedded_engine(embedded, on_postgresql, pipeline):
    assert answers(on_postgresql, planned(on_postgresql, pipeline)) == answers(embedded, planned(embedded, pipeline))


@pytest.mark.parametrize("name", ["per owner", "a union"])
def test_hostile_functions_make_the_same_over_postgresql(embedded, on_postgresql, name):
    here, there = (of_hostile(name)(session).selects[0] for session in (embedded, on_postgresql))
    assert answers(on_postgresql, there) == answers(embedded, here)


def test_a_release_over_postgresql_is_charged_once(on_postgresql):
    before = on_postgresql.spent[0]
    kept = on_postgresql.collection("t").filter(lambda r: math.isfinite(r.x))
    assert len(kept.release(n=agg.count(upper=9), epsilon=1)) == 1
    assert on_postgresql.spent[0] == before + 1


@pytest.fixture(scope="module")
def on_spark(spark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("collections")
    for name, table in tables().items():
        pq.write_table(table, folder / f"{name}.parquet")
        spark.read.parquet(str(folder / f"{name}.parquet")).createOrReplaceTempView(name)
    with shoal.connect(spark, catalog=CATALOG, buckets=3) as session:
        yield session


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("pipeline", PIPELINES, ids=lambda p: p.name)
def test_spark_has_the_integers_of_the_embedded_engine(embedded, on_spark, pipeline):
    assert answers(on_spark, planned(on_spark, pipeline)) == answers(embedded, planned(embedded, pipeline))


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("name", ["per owner"])
def test_hostile_functions_make_the_same_over_spark(embedded, on_spark, name):
    here, there = (of_hostile(name)(session).selects[0] for session in (embedded, on_spark))
    assert answers(on_spark, there) == answers(embedded, here)


@pytest.mark.spark
@pytest.mark.slow
def test_a_release_over_spark_is_charged_once(on_spark):
    kept = on_spark.collection("t").filter(lambda r: math.isfinite(r.x))
    assert len(kept.release(n=agg.count(upper=9), epsilon=1)) == 1
    assert on_spark.spent[0] == 1
