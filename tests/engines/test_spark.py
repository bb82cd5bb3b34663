"""The same questions get the same integers from Spark: one shuffle by owner, and the embedded engine in every task."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from questions import FEWER_QUESTIONS, by_keys, measured_with, nasty_tables, session_for

import shoal
from shoal.engines.deadline import Deadline
from shoal.engines.reading import Need
from shoal.plan import nodes
from shoal.plan.traverse import all_nodes
from shoal.release.execute import fresh_sampling_key, measure

sys.path.append(str(Path(__file__).parent.parent / "hostile"))
import nasty_data
from corpus import ANSWERED, REFUSED
from oracles import face_of
from test_corpus import opened, tables_with_a_secret

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PRIVATE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1000000, delta = 1e-6, max_groups_contributed = 50) "
EXACT = "COUNT(*, contribution_bounds_per_group => (0, 1000)) AS n"


class Both:
    """Asks Spark and the embedded engine, and compares; what follows from the answer is the same for both."""

    def __init__(self, embedded, spark):
        self._embedded, self._spark, self.asked = embedded, spark, 0

    def totals(self, query, key):
        here, there = self._embedded.totals(query, key), self._spark.totals(query, key)
        assert by_keys(there) == by_keys(here)
        assert there.keys.schema.types == here.keys.schema.types
        self.asked += 1
        return here


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The tables of all questions as parquet files: (rows, table) → file."""
    folder, written = tmp_path_factory.mktemp("spark"), {}
    for question in FEWER_QUESTIONS:
        for name, table in nasty_tables(question).items():
            place = folder / f"{question.rows.replace(' ', '_')}-{name}.parquet"
            if (question.rows, name) not in written:
                pq.write_table(table, place)
                written[question.rows, name] = place
    return written


def registered(spark, files, question):
    for (rows, name), place in files.items():
        if rows == question.rows:
            spark.read.parquet(str(place)).createOrReplaceTempView(name)


@pytest.mark.parametrize("question", FEWER_QUESTIONS, ids=lambda question: question.name)
def test_spark_answers_with_the_integers_of_the_embedded_engine(question, spark, files):
    registered(spark, files, question)
    with (
        session_for(question) as here,
        shoal.connect(spark, question.catalog, buckets=3) as there,
        there._engine.snapshot(Deadline(600)) as taken,
    ):
        both = Both(here._engine, taken)
        measured_with(there, question, both)
    assert both.asked


VISITS = pa.table(
    {"uid": [i % 50 for i in range(500)], "site": [f"s{i % 3}" for i in range(500)], "x": list(range(500))}
)
CATALOG = {"tables": {"visits": {"owner": "uid"}}}
BY_SITE = PRIVATE + f"site, {EXACT} FROM visits GROUP BY site"


@pytest.fixture(scope="module")
def visits(spark, tmp_path_factory):
    place = tmp_path_factory.mktemp("visits") / "visits.parquet"
    pq.write_table(VISITS, place)
    spark.read.parquet(str(place)).createOrReplaceTempView("visits")
    return place


ADDED = {
    "lines": (
        {"orders": {"owner": "uid"}, "lines": {"owner": {"through": "order_id", "to": "orders"}}},
        PRIVATE + "what, COUNT(*), SUM(x, contribution_bounds_per_group => (0, 9)) FROM lines GROUP BY what",
    ),
    "lines of orders": (
        {"orders": {"owner": "uid"}, "lines": {"owner": {"through": "order_id", "to": "orders"}}},
        PRIVATE + "o.place, COUNT(*) FROM lines AS l JOIN orders AS o ON l.order_id = o.order_id GROUP BY o.place",
    ),
    "each row": (
        {"lines": {"owner": "each row"}},
        PRIVATE + "what, COUNT(*), AVG(x, contribution_bounds_per_group => (0, 9)) FROM lines GROUP BY what",
    ),
}
LINES = {
    "orders": pa.table({"order_id": list(range(40)), "uid": [i % 7 for i in range(40)], "place": ["a", "b"] * 20}),
    "lines": pa.table(
        {
            "order_id": pa.array([i % 50 if i % 11 else None for i in range(300)], pa.int32()),
            "what": [f"w{i % 4}" for i in range(300)],
            "x": [-0.0 if i % 3 else 0.0 if i % 2 else float(i % 5) for i in range(300)],
        }
    ),
}


@pytest.mark.parametrize("name", ADDED)
def test_owners_that_are_carried_over_and_rows_that_own_themselves_get_the_same_integers(name, spark, tmp_path):
    tables, asked = ADDED[name]
    for table, rows in LINES.items():
        pq.write_table(rows, tmp_path / f"{table}.parquet")
        spark.read.parquet(str(tmp_path / f"{table}.parquet")).createOrReplaceTempView(table)
    with (
        shoal.connect({table: LINES[table] for table in tables}, {"tables": tables}) as here,
        shoal.connect(spark, {"tables": tables}, buckets=3) as there,
        there._engine.snapshot(Deadline(600)) as taken,
    ):
        both = Both(here._engine, taken)
        (plan,) = there.plan(asked).selects
        measure(plan, both, fresh_sampling_key())
    assert both.asked


def test_an_owner_is_not_carried_over_by_numbers_that_spark_compares_in_its_own_way(spark):
    for table in ("orders", "lines"):
        spark.createDataFrame([(1, 0.5)], "uid int, weight double").createOrReplaceTempView(table)
    tables = {"orders": {"owner": "uid"}, "lines": {"owner": {"through": "weight", "to": "orders"}}}
    with pytest.raises(shoal.ShoalError, match="cannot be carried over on Spark") as refused:
        shoal.connect(spark, {"tables": tables})
    assert refused.value.code == "E_CATALOG"


def settings_of(spark):
    """All that a session has: settings of the context and its own, views, what its thread is labelled with, the log's level."""
    context = spark.sparkContext
    labels = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel", "spark.scheduler.pool")
    return (
        dict(context.getConf().getAll()),
        dict(spark.conf.getAll),
        sorted(table.name for table in spark.catalog.listTables()),
        [context.getLocalProperty(name) for name in labels],
        spark.catalog.currentDatabase(),
        len(spark.sparkContext._jsc.getPersistentRDDs()),
    )


def test_a_session_asks_and_leaves_everything_as_it_was(spark, visits):
    before = settings_of(spark)
    with shoal.connect(spark, CATALOG, budget=(2 * 10**6, 1e-5)) as session:
        found = {row["site"]: row["n"] for row in session.query(BY_SITE).to_dicts()}
    assert found == {"s0": 167, "s1": 167, "s2": 166}
    assert settings_of(spark) == before
    assert spark.range(3).count() == 3


def test_views_of_the_catalog_are_spark_sql_and_those_that_compute_must_be_trusted(spark, visits):
    plain = {"tables": {"v": {"owner": "uid", "view": f"SELECT uid, site FROM parquet.`{visits}`"}}}
    with shoal.connect(spark, plain, buckets=2) as session:
        assert session.query(PRIVATE + f"{EXACT} FROM v WHERE site = 's1'").to_dicts() == [{"n": 167}]
    risky = {"tables": {"v": {"owner": "uid", "view": "SELECT uid, site, 100 / (x - 7) AS y FROM visits"}}}
    with pytest.raises(shoal.ShoalError, match="trusted_view") as caught:
        shoal.connect(spark, risky)
    assert caught.value.code == "E_CATALOG"


def test_no_filter_steers_a_trusted_view_around_the_row_it_fails_on_and_java_says_nothing(spark, visits):
    view = "SELECT uid, site, CAST(site AS INT) AS y FROM visits WHERE uid >= 0"
    catalog = {"tables": {"v": {"owner": "uid", "view": view, "trusted_view": True}}}
    told = set()
    for condition in ("uid = 7", "y > 0"):
        with shoal.connect(spark, catalog, buckets=2) as session, pytest.raises(shoal.ShoalError) as caught:
            session.query(PRIVATE + f"{EXACT} FROM v WHERE {condition}")
        told.add(str(caught.value))
        assert caught.value.__context__ is None
    (only,) = told
    assert only.startswith("E_EXECUTION")
    assert "CAST" not in only


def test_bytes_that_are_no_text_are_missing_and_no_condition_meets_them(spark, tmp_path):
    """Spark keeps any bytes as a string. A task failed on them, and Spark narrows rows: exactly if the condition held for 7."""
    said = {}
    for note in ("CAST(X'61FF62' AS STRING)", "'x'"):
        place = tmp_path / str(len(said))
        rows = f"SELECT id AS uid, id % 50 AS age, CASE WHEN id = 7 THEN {note} ELSE 'x' END AS note FROM range(60)"
        spark.sql(rows).write.parquet(str(place))
        spark.read.parquet(str(place)).createOrReplaceTempView("broken")
        listed = {"tables": {"broken": {"owner": "uid"}, "notes": {"public": True, "source": "broken"}}}
        for sql in (
            "FROM broken WHERE uid = 7 AND age > 5 AND note <> 'y'",
            "FROM broken b JOIN notes n ON b.note = n.note",
        ):
            with shoal.connect(spark, listed, buckets=2) as session:
                said.setdefault(sql, set()).add(face_of(session, PRIVATE + f"{EXACT} {sql}"))
    assert all(len(faces) == 1 for faces in said.values())


def test_no_condition_reaches_the_reader_of_a_file(spark, tmp_path):
    """Spark cannot convert a time of owner 2,300, and skipped that part of the file where `x` was elsewhere."""
    times = [2**62 if number == 2_300 else 5 for number in range(4_000)]
    table = pa.table({"uid": range(4_000), "x": range(4_000), "at": pa.array(times, pa.timestamp("ms"))})
    pq.write_table(table, tmp_path / "people.parquet", row_group_size=1_000)
    spark.read.parquet(str(tmp_path / "people.parquet")).createOrReplaceTempView("timed")
    told = set()
    for condition in ("x < 100", "x BETWEEN 2250 AND 2350", "x IN (5, 6)", "x = 5 AND x IS NOT NULL"):
        vouched = {"tables": {"timed": {"owner": "uid", "trusted_view": True}}}  # it is refused otherwise
        with shoal.connect(spark, vouched, buckets=2) as session:
            assert session.query(PRIVATE + f"{EXACT} FROM timed WHERE {condition}").to_dicts()[0]["n"] > 0
        with shoal.connect(spark, vouched, buckets=2) as session:
            with pytest.raises(shoal.ShoalError) as caught:
                session.query(PRIVATE + f"COUNT(at) AS n FROM timed WHERE {condition}")
            told.add(str(caught.value))
    assert len(told) == 1


def test_an_owner_more_changes_nobody_elses_part(spark, visits):
    sql = (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6, max_groups_contributed = 2) uid + 0 AS u, site, "
        "SUM(x, contribution_bounds_per_group => (0, 900)) FROM visits GROUP BY u, site"
    )
    key, parts = fresh_sampling_key(), []
    for name, table in (("everybody", VISITS), ("without", VISITS.filter(pc.not_equal(VISITS.column("uid"), 7)))):
        place = visits.parent / f"{name}.parquet"
        pq.write_table(table, place)
        view = f"SELECT * FROM parquet.`{place}`"
        with shoal.connect(spark, {"tables": {"visits": {"owner": "uid", "view": view}}}, buckets=3) as session:
            plan = session.plan(sql).selects[0]
            with session._engine.snapshot(Deadline(600)) as taken:
                parts.append(by_keys(measure(plan, taken, key).measurement)[0])
    assert {key: value for key, value in parts[0].items() if key[0] != 7} == parts[1]
    assert len(parts[0]) > len(parts[1])


def test_an_owner_with_more_rows_than_a_query_has_time_for_takes_no_part(spark, tmp_path):
    """Whoever is left out of a share is left out by every engine alike; a text that no query reads stays where it is."""
    catalog = {"tables": {"people": {"owner": "uid"}, "moments": {"public": True}}}
    sql = PRIVATE + "COUNT(DISTINCT uid) FROM people, moments WHERE NOT REGEXP_MATCHES(note || id, 'a[ab]{40}c')"
    pq.write_table(pa.table({"id": pa.array(range(500))}), tmp_path / "moments.parquet")
    spark.read.parquet(str(tmp_path / "moments.parquet")).createOrReplaceTempView("moments")

    def owners(rows, note):
        notes = [*["ab"] * rows, *["ab"] * 39, note]
        people = pa.table({"uid": [7] * rows + list(range(100, 140)), "note": notes})
        pq.write_table(people, tmp_path / "people.parquet")
        spark.read.parquet(str(tmp_path / "people.parquet")).createOrReplaceTempView("people")
        with shoal.connect(spark, catalog, buckets=3) as session:
            plan = session.plan(sql).selects[0]
            share = next(n.owner_share for n in all_nodes(plan.select.input) if isinstance(n, nodes.Scan))
            with session._engine.snapshot(Deadline(600)) as taken:
                handed = taken._scanned(Need("people", ("note", "uid"), "uid")).toArrow()
                return share.rows, handed.nbytes, int(measure(plan, taken, fresh_sampling_key()).measurement.owners[0])

    share, _, found = owners(1, "ab")
    assert found == 41
    assert [owners(rows, "ab")[2] for rows in (share, share + 1)] == [41, 40]
    _, handed, found = owners(1, "x" * 1_000_000)
    assert (handed < 100_000, found) == (True, 40)


def test_an_owner_with_more_than_their_share_takes_no_part_whatever_spark_could_leave_out(spark, tmp_path):
    """The share is of all rows: tasks that counted rows that Spark had narrowed down would let others take part."""
    uid = [7] * 3_000 + list(range(100, 140))
    rows = pa.table({"uid": uid, "note": ["ab"] * len(uid), "day": [number % 1_000 for number in range(len(uid))]})
    tables = {"crowd": rows, "moments": pa.table({"id": list(range(2_000))})}
    for name, table in tables.items():
        pq.write_table(table, tmp_path / f"{name}.parquet")
        spark.read.parquet(str(tmp_path / f"{name}.parquet")).createOrReplaceTempView(name)
    sql = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) COUNT(DISTINCT uid) FROM crowd, moments "
    catalog = {"tables": {"crowd": {"owner": "uid"}, "moments": {"public": True}}}
    with shoal.connect(tables, catalog) as here, shoal.connect(spark, catalog, buckets=2) as there:
        for where, owners in (("", 40), ("AND day = 3", 1)):
            plan = there.plan(sql + f"WHERE NOT REGEXP_MATCHES(note || id, 'a[ab]{{40}}c') {where}").selects[0]
            key = fresh_sampling_key()
            with there._engine.snapshot(Deadline(600)) as taken:
                found = measure(plan, taken, key).measurement
            assert int(found.owners.sum()) == owners
            assert by_keys(found) == by_keys(measure(plan, here._engine, key).measurement)


def test_a_deadline_cancels_the_jobs_of_the_query_alone(spark, visits):
    view = "SELECT uid, reflect('java.lang.Thread', 'sleep', 60000L) IS NULL AS slow FROM visits"
    catalog = {
        "defaults": {"max_seconds_per_query": 1},
        "tables": {"v": {"owner": "uid", "view": view, "trusted_view": True}},
    }
    with shoal.connect(spark, catalog, buckets=2) as session, pytest.raises(shoal.ShoalError, match="E_EXECUTION"):
        session.query(PRIVATE + f"{EXACT} FROM v WHERE slow")
    assert spark.range(3).count() == 3  # the threads that slept are free again
    assert spark.sparkContext.getLocalProperty("spark.jobGroup.id") is None


def told_by(client, master, folder):
    """The last lines of a program that asks, in a new process."""
    script, visits = folder / "client.py", folder / "visits.parquet"
    pq.write_table(VISITS, visits)
    script.write_text(client, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(script), master, str(visits)],
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    return done.stdout.splitlines()[-3:]


def test_a_real_cluster_with_two_workers_gives_the_same_integers(tmp_path, spark_programs):
    """A master and two worker processes; the client is a process of its own, as one Java machine holds one context."""
    with spark_programs() as master:
        assert told_by(CLIENT, master, tmp_path) == TOLD


def test_spark_connect_gives_the_same_integers(tmp_path):
    """A process of its own: classic and Connect sessions do not live in one."""
    pytest.importorskip("pyspark", reason="pyspark is not installed (./run test --all installs it)")
    if shutil.which("java") is None:
        pytest.skip("no Java was found (on Debian and Ubuntu: apt install openjdk-17-jre-headless)")
    assert told_by(CLIENT.replace(".master(sys.argv[1])", ".remote(sys.argv[1])"), "local[2]", tmp_path) == TOLD


CLIENT = f"""
import sys
import shoal
from pyspark.sql import SparkSession

spark = (
    SparkSession.builder.master(sys.argv[1]).config("spark.ui.enabled", "false").config("spark.cores.max", "2")
    .config("spark.executor.cores", "1").config("spark.executor.memory", "512m").config("spark.driver.host", "127.0.0.1")
    .config("spark.sql.shuffle.partitions", "4").getOrCreate()
)
spark.read.parquet(sys.argv[2]).createOrReplaceTempView("visits")
before = dict(spark.conf.getAll)
view = {{"tables": {{"v": {{"owner": "uid", "view": f"SELECT uid, site FROM parquet.`{{sys.argv[2]}}`"}}}}}}
with shoal.connect(spark, view) as session:
    few = session.collection("v").filter(lambda visit: visit.site != "s2").group_by("site", max_groups_per_owner=3)
    found = few.release(n=shoal.aggregates.count(upper=100), epsilon=1000000, delta=1e-6)
    print(sorted((row["site"], row["n"]) for row in found.to_dicts()))
with shoal.connect(spark, {CATALOG!r}, budget=(2000000, 1e-5)) as session:
    print(sorted((row["site"], row["n"]) for row in session.query({BY_SITE!r}).to_dicts()))
    assert dict(spark.conf.getAll) == before
    spark.stop()
    try:
        session.query({BY_SITE!r})
    except shoal.ShoalError as error:
        print(error.code, session.spent[0], error.__context__)
"""
TOLD = ["[('s0', 167), ('s1', 167)]", "[('s0', 167), ('s1', 167), ('s2', 166)]", "E_SOURCE 1000000.0 None"]
"""A collection, a query, and one when Spark is gone: it costs nothing."""


@pytest.fixture(scope="module")
def hostile(spark, tmp_path_factory):
    """Sessions over the data of the corpus, the data without owner 7, and no data; and the embedded one."""
    folder, tables, sessions = tmp_path_factory.mktemp("hostile"), tables_with_a_secret(), []
    data = {"everybody": tables, "without": nasty_data.without(tables), "nothing": nasty_data.nothing_at_all()}
    for name, rows in data.items():
        entries = {}
        for table, stored in rows.items():
            place = folder / f"{name}-{table}.parquet"
            pq.write_table(stored, place)
            entries[table] = {**nasty_data.CATALOG["tables"][table], "view": f"SELECT * FROM parquet.`{place}`"}
        sessions.append(shoal.connect(spark, {**nasty_data.CATALOG, "tables": entries}, buckets=2))
    with opened(tables) as here:
        yield here, sessions


def test_all_hostile_queries_are_refused_as_by_the_embedded_engine_whatever_the_data(hostile):
    here, sessions = hostile
    for case in REFUSED:
        assert {face_of(session, case.sql) for session in sessions} == {face_of(here, case.sql)}, case.name


def test_some_hostile_queries_are_answered_with_the_same_face_on_neighbours(hostile):
    here, sessions = hostile
    for case in ANSWERED[::40]:
        assert {face_of(session, case.sql) for session in sessions[:2]} == {face_of(here, case.sql)}, case.name


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(19))
def test_all_hostile_queries_that_are_answered_have_the_same_face_on_neighbours(hostile, part):
    """190 queries, two processor seconds each for one of the neighbours."""
    here, sessions = hostile
    for case in ANSWERED[part::19]:
        assert {face_of(session, case.sql) for session in sessions[:2]} == {face_of(here, case.sql)}, case.name
