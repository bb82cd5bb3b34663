"""Stored values that a scan or an export refuses: told when a session opens, or read without a failure, never after the charge."""

from __future__ import annotations

import os
import signal
import threading

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import shoal
from shoal.engines.deadline import Deadline
from shoal.engines.duckdb.engine import DuckDBEngine

ASKED = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6, max_groups_contributed = 2) "
CATALOG = {"tables": {"t": {"owner": "uid"}}}
ROWS = 3_000
VICTIM = 7


@pytest.fixture(autouse=True)
def _no_memory_of_files(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def refusal(source, catalog=CATALOG):
    with pytest.raises(shoal.ShoalError) as refused:
        shoal.connect(source, catalog)
    return refused.value.code


# ---- files -----------------------------------------------------------------------------------------------------------


def test_json_that_is_not_utf8_is_told_when_the_file_is_opened(tmp_path):
    letters = bytearray(b"1" * ROWS)
    letters[VICTIM] = 0xFF
    offsets = pa.py_buffer(np.arange(ROWS + 1, dtype=np.int32).tobytes())
    texts = pa.StringArray.from_buffers(ROWS, offsets, pa.py_buffer(bytes(letters)))
    column = pa.ExtensionArray.from_storage(pa.json_(), texts)
    pq.write_table(pa.table({"uid": np.arange(ROWS), "v": column}), tmp_path / "t.parquet", row_group_size=1_000)
    assert refusal(tmp_path / "t.parquet") == "E_SOURCE"


def test_sound_json_and_decimals_are_opened(tmp_path):
    column = pa.ExtensionArray.from_storage(pa.json_(), pa.array(['{"a": 1}', None]))
    table = pa.table({"uid": [1, 2], "v": column, "d": pa.array([1, None], pa.decimal128(38, 3))})
    pq.write_table(table, tmp_path / "t.parquet")
    with shoal.connect(tmp_path / "t.parquet", CATALOG) as session:
        assert len(session.query(ASKED + "COUNT(v) AS n, COUNT(d) AS m FROM t")) == 1


# ---- line ends of CSV files ------------------------------------------------------------------------------------------

TYPES = {"uid": {"type": "BIGINT"}, "v": {"type": "VARCHAR"}}
TYPED = {"tables": {"t": {"owner": "uid", "columns": TYPES}}}


def write_lines(folder, victims, end="\n", rows=ROWS):
    folder.mkdir()
    lines = [f"{uid},x" if uid != VICTIM else victims for uid in range(rows)]
    with (folder / "t.csv").open("w", newline="") as file:
        file.write(end.join(["uid,v", *[line for line in lines if line is not None], ""]))
    return folder / "t.csv"


@pytest.mark.parametrize(("end", "other"), [("\n", "\r"), ("\n", "\r\n"), ("\r\n", "\n"), ("\r\n", "\r"), ("\r", "\n")])
def test_a_line_end_of_another_kind_is_told_when_a_file_is_opened(tmp_path, end, other):
    told = write_lines(tmp_path / "with", f"{VICTIM},a{other}b", end)
    for _ in range(2):  # what was refused is not remembered as sound
        assert refusal(told, TYPED) == "E_SOURCE"
    for folder, victims in (("without", None), ("quoted", f'{VICTIM},"a{other}b"')):
        with shoal.connect(write_lines(tmp_path / folder, victims, end), TYPED) as session:
            for condition in ("v <> 'y'", f"uid = {VICTIM}"):
                assert len(session.query(ASKED + f"COUNT(*) AS n FROM t WHERE {condition}")) == 1


def test_a_line_end_beyond_the_rows_that_types_are_guessed_from_is_told(tmp_path):
    told = write_lines(tmp_path / "with", "7,a", rows=30_000)
    with told.open("a", newline="") as file:
        file.write("30000,a\rb\n")
    assert refusal(told) == "E_SOURCE"


def test_a_file_that_passed_with_one_delimiter_is_read_again_with_another(tmp_path):
    told = tmp_path / "t.csv"
    told.write_text("uid,v;w\n1,a;b\n")
    shoal.connect(told, CATALOG).close()
    semicolons = {"tables": {"t": {"owner": "uid,v", "csv": {"delimiter": ";"}}}}
    shoal.connect(told, semicolons).close()
    remembered = (tmp_path / "cache" / "shoal" / "sound-files-3.json").read_text()
    assert remembered.count("t.csv") == 2


# ---- files of one table ----------------------------------------------------------------------------------------------

FAR_DAY = pa.array(np.where(np.arange(ROWS) == VICTIM, 2**31 - 100, 5).astype(np.int32), pa.date32())
FAR_INSTANT = pa.array(np.where(np.arange(ROWS) == VICTIM, 2**60, 5), pa.timestamp("us"))
LARGE = pa.array(np.where(np.arange(ROWS) == VICTIM, 2**63 - 1, 5))


def write_parts(folder, *columns):
    (folder / "t").mkdir()
    for number, column in enumerate(columns):
        table = pa.table({"uid": np.arange(len(column)), "v": column})
        pq.write_table(table, folder / "t" / f"{number}.parquet", row_group_size=1_000)
    return folder


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (FAR_DAY, pa.timestamp("us")),
        (FAR_DAY, pa.timestamp("ns")),
        (FAR_INSTANT, pa.timestamp("ns")),
        (LARGE, pa.decimal128(38, 30)),
        (pa.array([3_600_000_000], pa.time64("us")), pa.timestamp("us")),
    ],
)
def test_files_whose_types_meet_in_a_narrower_one_are_refused(tmp_path, one, other):
    assert refusal(write_parts(tmp_path, one, pa.nulls(3, other))) == "E_SOURCE"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (pa.array([1, 2], pa.int8()), pa.int64()),
        (LARGE, pa.float64()),
        (LARGE, pa.string()),
        (pa.array([1, 2], pa.int16()), pa.float32()),
        (pa.array([1, 2], pa.decimal128(5, 2)), pa.decimal128(12, 3)),
        (pa.array([[1], None]), pa.string()),
    ],
)
def test_files_whose_types_meet_in_a_wider_one_are_read(tmp_path, one, other):
    with shoal.connect(write_parts(tmp_path, one, pa.nulls(3, other)), CATALOG) as session:
        assert len(session.query(ASKED + "COUNT(*) AS n FROM t")) == 1


# ---- what a database computes when a table is read -----------------------------------------------------------------


def with_generated_column(connection, value, type_="INTEGER"):
    connection.execute(f"CREATE TABLE t (uid INTEGER, a VARCHAR, b {type_} GENERATED ALWAYS AS ({value}) VIRTUAL)")
    connection.execute("INSERT INTO t SELECT i, i::VARCHAR FROM range(100) r(i)")
    connection.execute(f"UPDATE t SET a = 'bad' WHERE uid = {VICTIM}")


@pytest.mark.parametrize(("value", "type_"), [("CAST(a AS INTEGER)", "INTEGER"), ("a", "SMALLINT")])
def test_a_generated_column_that_fails_on_one_row_is_refused(tmp_path, value, type_):
    with duckdb.connect(tmp_path / "d.duckdb") as connection:
        with_generated_column(connection, value, type_)
    assert refusal(tmp_path / "d.duckdb") == "E_CATALOG"


@pytest.mark.parametrize("under", ["CREATE VIEW v AS SELECT uid, b FROM t", "CREATE VIEW v AS FROM t"])
def test_a_view_over_such_a_column_is_refused(under):
    connection = duckdb.connect()
    with_generated_column(connection, "CAST(a AS INTEGER)")
    connection.execute(under)
    assert refusal(connection, {"tables": {"v": {"owner": "uid"}}}) == "E_CATALOG"
    catalog = {"tables": {"w": {"owner": "uid", "view": "SELECT uid, b FROM t"}}}
    assert refusal(connection, catalog) == "E_CATALOG"


def test_a_generated_column_that_has_a_value_for_every_row_is_read():
    connection = duckdb.connect()
    with_generated_column(connection, "TRY_CAST(a AS INTEGER)")
    session = shoal.connect(connection, CATALOG)
    assert len(session.query(ASKED + f"COUNT(b) AS n FROM t WHERE uid = {VICTIM}")) == 1


def test_a_harmless_view_of_the_same_name_elsewhere_hides_nothing():
    connection = duckdb.connect()
    connection.execute("CREATE SCHEMA other")
    connection.execute("CREATE TABLE raw AS SELECT i AS uid, i::VARCHAR AS a FROM range(100) r(i)")
    connection.execute("CREATE VIEW t AS SELECT uid, CAST(a AS INTEGER) AS b FROM raw")
    connection.execute("CREATE VIEW other.t AS SELECT uid, a AS b FROM main.raw")
    assert refusal(connection) == "E_CATALOG"


# ---- connections that were handed in -------------------------------------------------------------------------------


@pytest.mark.parametrize("view", ["", "CREATE TEMP VIEW v AS SELECT uid, v FROM t"])
def test_a_registered_frame_with_one_value_of_another_type_is_refused(view):
    pandas = pytest.importorskip("pandas")
    connection = duckdb.connect()
    connection.register("t", pandas.DataFrame({"uid": range(ROWS), "v": [1] * (ROWS - 1) + ["x"]}))
    connection.execute(view or "SELECT 1").fetchall()
    assert refusal(connection, {"tables": {"v" if view else "t": {"owner": "uid"}}}) == "E_SOURCE"


def test_a_registered_frame_of_one_type_is_read():
    pandas = pytest.importorskip("pandas")
    connection = duckdb.connect()
    connection.register("t", pandas.DataFrame({"uid": range(ROWS), "v": ["a"] * ROWS}))
    assert len(shoal.connect(connection, CATALOG).query(ASKED + "COUNT(v) AS n FROM t")) == 1


def test_a_connection_that_hands_out_wide_integers_as_bytes_is_refused():
    # One number that needs more than 64 bits takes the wide road: such a connection failed for its owner alone.
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT i AS uid FROM range(100) r(i)")
    connection.execute("SET arrow_lossless_conversion = true")
    assert refusal(connection) == "E_SOURCE"


CHANGES = {
    "ALTER TABLE t ALTER x TYPE VARCHAR": "E_SOURCE",
    "ALTER TABLE t DROP COLUMN x": "E_SOURCE",
    "DROP TABLE t": "E_SOURCE",
    "ALTER TABLE t RENAME TO z; CREATE VIEW t AS SELECT uid, CAST(x::VARCHAR AS BIGINT) AS x FROM z": "E_SOURCE",
    "SET arrow_lossless_conversion = true": "E_SOURCE",
    "INSERT INTO t VALUES (5, 5); CREATE TABLE another (n INTEGER)": "answered",
}


@pytest.mark.parametrize("temporary", ["", "TEMP"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_table_that_is_redefined_under_a_session_costs_nothing(change, temporary):
    connection = duckdb.connect()
    connection.execute(f"CREATE {temporary} TABLE t AS SELECT i AS uid, i AS x FROM range(100) r(i)")
    session = shoal.connect(connection, CATALOG)
    connection.execute(change).fetchall()
    status = "answered"
    try:
        session.query(ASKED + "SUM(x, contribution_bounds_per_group => (0, 9)) AS s FROM t")
    except shoal.ShoalError as error:
        status = error.code
    assert status == CHANGES[change]
    assert session.spent[0] == (status == "answered")


# ---- policies --------------------------------------------------------------------------------------------------------


def under_policy(type_, value):
    """Sum and count with the victim's value, at hardly any noise; everybody else has 0."""
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE t (uid INTEGER, a {type_})")
    connection.execute("INSERT INTO t SELECT i, 0 FROM range(100, 200) r(i)")
    connection.execute(f"INSERT INTO t VALUES ({VICTIM}, {value})")
    policy = {"domain": {"a": [-50, 100]}, "secret": {"distance": {"a": 5}}}
    session = shoal.connect(connection, {"tables": {"t": {"owner": "uid", "policies": {"p": policy}}}})
    sql = "SELECT WITH POLICY OPTIONS(policy = 'p', epsilon = 1000000) SUM(a) AS s, COUNT(*) AS n FROM t"
    return tuple(session.query(sql).to_dicts()[0].values())


@pytest.mark.parametrize(
    ("type_", "value", "total"),
    [
        ("DECIMAL(3,1)", "-99.5", -50),
        ("DECIMAL(3,1)", "-0.5", -1),
        ("DECIMAL(3,1)", "99.9", 99),
        ("DECIMAL(38,10)", "-9999999999999999999999999999.5", -50),
        ("DECIMAL(38,38)", "-0.5", -1),
        ("HUGEINT", "-170141183460469231731687303715884105727", -50),
        ("HUGEINT", "170141183460469231731687303715884105727", 100),
    ],
)
def test_a_number_that_outgrows_its_type_when_rounded_down_is_clamped(type_, value, total):
    assert under_policy(type_, value) == (total, 101)


def test_numbers_that_would_turn_around_are_no_attribute():
    with pytest.raises(shoal.ShoalError) as refused:
        under_policy("UHUGEINT", "340282366920938463463374607431768211455")
    assert refused.value.code == "E_USAGE"


# ---- how a charged run ends ------------------------------------------------------------------------------------------


def people(rows=200):
    return pa.table({"uid": np.arange(rows), "a": np.arange(rows) % 90})


POLICY = {"domain": {"a": [0, 100]}, "secret": {"distance": {"a": 5}}}
QUERIES = [
    ASKED + "COUNT(*) AS n FROM t",
    "SELECT WITH POLICY OPTIONS(policy = 'p', epsilon = 1) COUNT(*) AS n FROM t WHERE a > 3",
]


@pytest.mark.parametrize("sql", QUERIES)
def test_a_snapshot_that_cannot_be_closed_is_a_failure_like_any_other(sql, monkeypatch):
    session = shoal.connect({"t": people()}, {"tables": {"t": {"owner": "uid", "policies": {"p": POLICY}}}})
    whole = DuckDBEngine._opened

    def failing(self):
        from contextlib import contextmanager

        @contextmanager
        def opened():
            with whole(self) as cursor:
                yield cursor
            raise OSError("the disk with the victim's rows is full")

        return opened()

    monkeypatch.setattr(DuckDBEngine, "_opened", failing)
    with pytest.raises(shoal.ShoalError) as first:
        session.query(sql)
    assert first.value.code == "E_EXECUTION"
    assert "victim" not in str(first.value)
    monkeypatch.undo()
    with pytest.raises(shoal.ShoalError) as second:
        session.query(sql)
    assert second.value.code == "E_SUSPENDED"


def test_ctrl_c_during_a_statement_is_ctrl_c_and_suspends_nobody(monkeypatch):
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a process started in the background ignores it
    session = shoal.connect({"t": people()}, CATALOG)
    once = iter([True])
    whole = DuckDBEngine._table

    def slow(self, tree):
        if next(once, False):
            threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
            tree = duckdb_sql("SELECT max(hash(a.range * b.range)) AS m FROM range(10000000) a, range(100) b")
        return whole(self, tree)

    monkeypatch.setattr(DuckDBEngine, "_table", slow)
    with pytest.raises(KeyboardInterrupt):
        session.query(ASKED + "COUNT(*) AS n FROM t")
    assert len(session.query(ASKED + "COUNT(*) AS n FROM t")) == 1


def duckdb_sql(text):
    import sqlglot

    return sqlglot.parse_one(text, dialect="duckdb")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_watches_its_own_queries():
    from shoal.engines import deadline

    with Deadline(60).stops(lambda: None), deadline._WATCH._lock:
        child = os.fork()
        if not child:  # the lock is held by a thread that the child does not have
            signal.alarm(10)
            with Deadline(60).stops(lambda: None):
                os._exit(0 if len(deadline._WATCH._watched) == 1 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_session_asked_by_a_forked_child_refuses_and_does_not_die():
    session = shoal.connect({"t": people()}, CATALOG)
    session.query(QUERIES[0])
    child = os.fork()
    if not child:
        signal.alarm(20)
        try:
            session.query(QUERIES[0])
        except shoal.ShoalError as error:
            os._exit(0 if error.code == "E_SOURCE" and session.spent == (1.0, 0.0) else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
