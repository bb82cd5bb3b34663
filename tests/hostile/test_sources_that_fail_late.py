"""Sources that would fail, or merge owners, only when the right row is reached: settled when a session opens."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import shoal
from shoal.engines.deadline import Deadline
from shoal.release.execute import fresh_sampling_key, measure

CLAUSE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6, max_groups_contributed = 2)"
CATALOG = {"tables": {"people": {"owner": "uid"}}}


@pytest.fixture(autouse=True)
def _no_memory_of_files(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def owners(session, where="TRUE"):
    """The exact number of owners that enter the count."""
    select = session.plan(f"{CLAUSE} COUNT(DISTINCT uid) FROM people WHERE {where}").selects[0]
    with session._engine.snapshot(Deadline(60)) as taken:
        return int(measure(select, taken, fresh_sampling_key()).measurement.owners.sum())


def write_broken(path):
    """A parquet file in which the text of owner 7 is not UTF-8."""
    names = [b"ann"] * 20
    names[7] = b"\xff\xfe"
    table = pa.table({"uid": list(range(20)), "name": pa.array(names, pa.binary())})
    pq.write_table(table.set_column(1, "name", table.column(1).cast(pa.binary())), path)
    broken = pa.table(
        {"uid": list(range(20)), "name": pa.Array.from_buffers(pa.string(), 20, table.column(1).chunk(0).buffers())}
    )
    pq.write_table(broken, path)


def test_a_text_that_is_not_utf8_is_told_when_the_file_is_opened(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    write_broken(folder / "people.parquet")
    with pytest.raises(shoal.ShoalError) as refused:
        shoal.connect(folder, catalog=CATALOG)
    assert refused.value.code == "E_SOURCE"
    assert "UTF-8" in str(refused.value)


def test_texts_of_any_language_and_with_backslashes_are_read(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    names = ["Antonín", "\\x", "C:\\temp", "日本", "", None]
    pq.write_table(pa.table({"uid": list(range(6)), "name": names}), folder / "people.parquet")
    with shoal.connect(folder, catalog=CATALOG) as session:
        assert owners(session, "name = 'Antonín'") == 1


def test_a_file_that_passed_is_remembered_until_it_changes(tmp_path, monkeypatch):
    folder = tmp_path / "data"
    folder.mkdir()
    path = folder / "people.parquet"
    pq.write_table(pa.table({"uid": [1, 2], "name": ["a", "b"]}), path)
    shoal.connect(folder, catalog=CATALOG).close()
    asked = []
    monkeypatch.setattr("shoal.engines.duckdb.sound_files._decoded", lambda *_: asked.append(1) or [])
    shoal.connect(folder, catalog=CATALOG).close()
    assert asked == []
    pq.write_table(pa.table({"uid": [1, 2], "name": ["a", "bc"]}), path)
    shoal.connect(folder, catalog=CATALOG).close()
    assert asked == [1]


def test_a_file_that_changed_is_refused_before_the_charge(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    path = folder / "people.parquet"
    pq.write_table(pa.table({"uid": list(range(50)), "name": ["a"] * 50}), path)
    session = shoal.connect(folder, catalog=CATALOG, budget=(3, 1e-5))
    session.query(f"{CLAUSE} COUNT(DISTINCT uid) FROM people")
    pq.write_table(pa.table({"uid": list(range(51)), "name": ["a"] * 51}), path)
    with pytest.raises(shoal.ShoalError) as refused:
        session.query(f"{CLAUSE} COUNT(DISTINCT uid) FROM people")
    assert refused.value.code == "E_SOURCE"
    assert session.spent[0] == 1
    path.unlink()
    with pytest.raises(shoal.ShoalError) as refused:
        session.query(f"{CLAUSE} COUNT(DISTINCT uid) FROM people")
    assert refused.value.code == "E_SOURCE"


# ---- owners that would merge or get lost ---------------------------------------------------------------------------


@pytest.mark.parametrize("type_", ["TIMESTAMP_NS", "TIMESTAMPTZ_NS"])
def test_owners_in_nanoseconds_are_refused(type_):
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE people AS SELECT make_timestamp_ns(range)::{type_} AS uid FROM range(5000)")
    with pytest.raises(shoal.ShoalError) as refused:
        shoal.connect(connection, catalog=CATALOG)
    assert refused.value.code == "E_CATALOG"


def test_texts_are_no_whole_numbers_of_owners():
    catalog = {"tables": {"people": {"owner": "uid", "columns": {"uid": {"type": "INTEGER"}}}}}
    with pytest.raises(shoal.ShoalError) as refused:
        shoal.connect({"people": pa.table({"uid": ["7", "7.4"]})}, catalog=catalog)
    assert refused.value.code == "E_CATALOG"


@pytest.mark.parametrize("type_", ["HUGEINT", "UHUGEINT"])
def test_ids_of_39_digits_are_all_counted(type_):
    connection = duckdb.connect()
    connection.execute(
        f"CREATE TABLE people AS SELECT 170141183460469231731687303715884100000::{type_} + range::{type_} AS uid FROM range(5000)"
    )
    assert owners(shoal.connect(connection, catalog=CATALOG)) == 5_000


@pytest.mark.parametrize("digits", [18, 30, 45])
def test_long_ids_of_a_csv_file_are_all_counted(tmp_path, digits):
    first = 10 ** (digits - 1)
    lines = "\n".join(str(first + n) for n in range(500))
    (tmp_path / "people.csv").write_text(f"uid\n{lines}\n")
    with shoal.connect(tmp_path / "people.csv", catalog=CATALOG) as session:
        assert owners(session) == 500


def test_an_odd_id_of_a_csv_file_merges_with_nobody(tmp_path):
    lines = "\n".join([*map(str, range(100)), "7.4"])
    (tmp_path / "people.csv").write_text(f"uid\n{lines}\n")
    with shoal.connect(tmp_path / "people.csv", catalog=CATALOG) as session:
        assert owners(session) == 100
        assert owners(session, "uid = 7") == 1


def test_whole_numbers_stored_as_reals_can_be_owners():
    people = {"people": pa.table({"uid": [1.0, 2.0, 7.0, 7.4, None, float("nan"), float("inf"), 2.0**60]})}
    with pytest.raises(shoal.ShoalError, match="BIGINT"):
        shoal.connect(people, catalog=CATALOG)
    catalog = {"tables": {"people": {"owner": "uid", "columns": {"uid": {"type": "BIGINT"}}}}}
    session = shoal.connect(people, catalog=catalog)
    assert owners(session) == 3
    assert owners(session, "uid = 7") == 1


# ---- views ---------------------------------------------------------------------------------------------------------

RAW = pa.table(
    {"uid": list(range(50)), "amount": [*map(str, range(49)), "many"], "n": [2**62] * 50, "day": ["2026-01-02"] * 50}
)
FRAGILE = {
    "a cast": "SELECT uid, CAST(amount AS INTEGER) AS x FROM raw",
    "a cast of another spelling": "SELECT uid, amount::DATE AS x FROM raw",
    "a cast in a filter": "SELECT uid FROM raw WHERE amount::INTEGER > 3",
    "a comparison that casts": "SELECT uid FROM raw WHERE amount > 3",
    "a sum that overflows": "SELECT uid, n + n AS x FROM raw",
    "a function that refuses values": "SELECT uid, strptime(day, '%Y-%m-%d') AS x FROM raw",
    "a pattern from the data": "SELECT uid, regexp_matches(day, amount) AS x FROM raw",
    "an error on purpose": "SELECT uid, CASE WHEN amount = 'many' THEN error('x') ELSE 1 END AS x FROM raw",
    "a value with several rows": "SELECT uid, (SELECT n FROM raw r WHERE r.uid >= raw.uid) AS x FROM raw",
    "files": "SELECT uid, r.* FROM raw, read_csv('/nowhere.csv') r",
    "a with table": "WITH c AS (SELECT uid, CAST(amount AS INTEGER) AS x FROM raw) SELECT * FROM c",
}
TOTAL = {
    "a try-cast": "SELECT uid, TRY_CAST(amount AS INTEGER) AS x FROM raw",
    "a join and a filter": "SELECT a.uid, b.day FROM raw a JOIN raw b ON a.uid = b.uid WHERE a.day <> 'x'",
    "texts": "SELECT uid, lower(trim(day)) || '!' AS x, left(amount, 2) AS y FROM raw",
    "reals": "SELECT uid, CAST(n AS DOUBLE) * 0.5 AS x FROM raw",
    "a choice": "SELECT uid, CASE WHEN amount = 'many' THEN NULL ELSE day END AS x FROM raw",
    "one row of each owner": "SELECT uid, max(n) AS n, count(*) AS c FROM raw GROUP BY uid",
}


def viewing(sql, **options):
    catalog = {"tables": {"people": {"owner": "uid", "view": sql, **options}}}
    return shoal.connect({"raw": RAW}, catalog=catalog)


@pytest.mark.parametrize("name", FRAGILE)
def test_a_view_that_can_fail_on_single_rows_is_refused(name):
    with pytest.raises(shoal.ShoalError) as refused:
        viewing(FRAGILE[name])
    assert refused.value.code == "E_CATALOG"


@pytest.mark.parametrize("name", TOTAL)
def test_a_view_that_cannot_fail_is_opened(name):
    with viewing(TOTAL[name]) as session:
        assert owners(session) == 50


def test_a_custodian_may_vouch_for_a_view_and_the_explanation_says_so():
    with viewing(FRAGILE["a sum that overflows"], trusted_view=True) as session:
        explained = str(session.explain(f"{CLAUSE} COUNT(DISTINCT uid) FROM people"))
    assert "trusted by the catalog" in explained


@pytest.mark.parametrize("above", [False, True])
def test_a_view_of_the_database_itself_is_looked_at_too(above):
    connection = duckdb.connect()
    connection.register("incoming", RAW)
    connection.execute("CREATE TABLE raw AS FROM incoming")
    connection.execute("CREATE VIEW fragile AS SELECT uid, CAST(amount AS INTEGER) AS x FROM raw")
    connection.execute("CREATE VIEW above AS SELECT uid, x FROM main.fragile")
    table = "above" if above else "fragile"
    with pytest.raises(shoal.ShoalError) as refused:
        shoal.connect(connection, catalog={"tables": {table: {"owner": "uid"}}})
    assert refused.value.code == "E_CATALOG"
    shoal.connect(connection, catalog={"tables": {table: {"owner": "uid", "trusted_view": True}}})


# ---- public tables: whether one is read to a bad row may depend on private rows ------------------------------------


def beside_a_public_view(*, with_victim, view, **options):
    """A join that reaches row 1234 of a public view only if owner 7 is there: the engine filters it by the keys it will meet."""
    connection = duckdb.connect()
    connection.execute("CREATE TABLE people AS SELECT i AS uid, 50 AS income FROM range(100) t(i) WHERE i <> 7")
    if with_victim:
        connection.execute("INSERT INTO people VALUES (7, 1234)")
    connection.execute("CREATE TABLE raw AS SELECT i AS k, IF(i = 1234, 'bad', '1') AS v FROM range(2000) t(i)")
    tables = {**CATALOG["tables"], "rates": {"public": True, "view": view, **options}}
    return shoal.connect(connection, catalog={"tables": tables})


@pytest.mark.parametrize("with_victim", [True, False])
def test_a_public_view_that_can_fail_on_single_rows_is_refused_too(with_victim, monkeypatch):
    """It told neighbours apart where it was too large to be read while a session opens."""
    monkeypatch.setattr("shoal.schema.COUNTED_ROWS", 1000)
    with pytest.raises(shoal.ShoalError) as refused:
        beside_a_public_view(with_victim=with_victim, view="SELECT k, CAST(v AS INTEGER) AS v FROM raw")
    assert refused.value.code == "E_CATALOG"
    with beside_a_public_view(
        with_victim=with_victim, view="SELECT k, TRY_CAST(v AS INTEGER) AS v FROM raw"
    ) as session:
        session.query(f"{CLAUSE} COUNT(*) FROM people p JOIN rates x ON x.k = p.income WHERE x.v > 0")


def test_a_public_view_that_does_fail_is_told_when_the_session_opens():
    with pytest.raises(shoal.ShoalError) as refused:
        beside_a_public_view(with_victim=True, view="SELECT k, CAST(v AS INTEGER) AS v FROM raw", trusted_view=True)
    assert refused.value.code == "E_SOURCE"


def test_tables_of_attached_databases_of_another_kind_are_refused(tmp_path, monkeypatch):
    connection = duckdb.connect()
    connection.execute(f"ATTACH '{tmp_path / 'other.duckdb'}' AS other")
    connection.execute("CREATE TABLE other.people AS SELECT i AS uid FROM range(50) t(i)")
    connection.execute("CREATE VIEW above AS SELECT uid FROM other.people")
    above = {"tables": {"above": {"owner": "uid"}}}
    written = {"tables": {"mine": {"owner": "uid", "view": "SELECT uid FROM other.people"}}}
    with shoal.connect(connection, catalog=CATALOG) as session:
        assert owners(session) == 50
    monkeypatch.setattr("shoal.engines.duckdb.views.OWN_KINDS", frozenset())
    connection.execute("CREATE TABLE memory.t AS SELECT 1 AS x")
    for catalog in (CATALOG, above, written):
        with pytest.raises(shoal.ShoalError, match="attached database") as refused:
            shoal.connect(connection, catalog=catalog)
        assert refused.value.code == "E_CATALOG"
    trusted = {"tables": {"people": {"owner": "uid", "trusted_view": True}}}
    shoal.connect(connection, catalog=trusted).close()


@pytest.mark.parametrize("names", [("7", "07", "007"), ("16", "0x10", "16.0"), ("2024-01-01", "2024-1-1", "x")])
def test_owners_that_folders_name_stay_apart_and_have_one_type(tmp_path, names):
    """Read as numbers or dates, several owners were one, and a single folder decided about the type of all."""
    for name in names:
        part = tmp_path / "data" / "people" / f"uid={name}"
        part.mkdir(parents=True)
        pq.write_table(pa.table({"x": [1]}), part / "a.parquet")
    with shoal.connect(tmp_path / "data", catalog=CATALOG) as session:
        assert session.tables()["people"]["columns"]["uid"]["type"] == "text"
        assert owners(session) == 3


def test_a_catalog_gives_columns_that_folders_name_another_type(tmp_path):
    for year in (2023, 2024):
        part = tmp_path / "data" / "people" / f"year={year}"
        part.mkdir(parents=True)
        pq.write_table(pa.table({"uid": list(range(20))}), part / "a.parquet")
    people = {"owner": "uid", "columns": {"year": {"type": "INTEGER"}}}
    with shoal.connect(tmp_path / "data", catalog={"tables": {"people": people}}) as session:
        assert owners(session, "year = 2024") == 20
        assert owners(session, "year > 2024") == 0
