"""Where data may come from: files, folders, globs, data frames, a DuckDB file, an open connection. All give the same answers."""

from __future__ import annotations

import os
from decimal import Decimal

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import shoal

CATALOG = {"tables": {"visits": {"owner": "uid"}, "regions": {"public": True}}}
OPTIONS = "epsilon = 1000000, delta = 0.01, max_groups_contributed = 10"
HEAD = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({OPTIONS})"
COUNT = "COUNT(*, contribution_bounds_per_group => (0, 1000))"
ANSWER = {"a": (200, 2.0), "b": (200, 4.0), None: (200, 6.0)}


def visits() -> pa.Table:
    """Sixty owners with ten visits each; a third of the sites is NULL."""
    number = np.arange(600)
    site = [("a", "b", None)[i % 3] for i in number]
    return pa.table({"uid": number % 60, "site": site, "spend": (number % 3 + 1) * 2.0, "day": ["2026-01-02"] * 600})


def regions() -> pa.Table:
    return pa.table({"region": ["north", "south"], "continent": ["EU", "EU"]})


def answer(session) -> dict:
    sql = f"{HEAD} site, {COUNT} AS n, AVG(spend, contribution_bounds_per_group => (0, 10)) AS a FROM visits GROUP BY site"
    return {row["site"]: (row["n"], round(row["a"], 2)) for row in session.query(sql).to_dicts()}


def count(session, table: str = "visits", where: str = "") -> int:
    sql = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1000000) {COUNT} AS n FROM {table} {where}"
    return session.query(sql).to_dicts()[0]["n"]


def write(folder, kind: str) -> None:
    for name, table in (("visits", visits()), ("regions", regions())):
        if kind == "parquet":
            pa.parquet.write_table(table, folder / f"{name}.parquet")
        else:
            pa.csv.write_csv(table, folder / f"{name}.csv")


# ---- everything that works ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_a_folder_has_a_table_for_every_file_stem(tmp_path, kind):
    write(tmp_path, kind)
    with shoal.connect(tmp_path, catalog=CATALOG) as session:
        assert answer(session) == ANSWER
        assert len(session.query("SELECT * FROM regions")) == 2


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_a_glob_and_a_single_file_work_alike(tmp_path, kind):
    write(tmp_path, kind)
    with shoal.connect(str(tmp_path / f"*.{kind}"), catalog=CATALOG) as session:
        assert answer(session) == ANSWER
    with shoal.connect(str(tmp_path / f"visits.{kind}"), catalog={"tables": {"visits": {"owner": "uid"}}}) as session:
        assert answer(session) == ANSWER


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_a_folder_in_a_folder_is_one_table_of_many_files(tmp_path, kind):
    inner = tmp_path / "visits" / "2026"
    inner.mkdir(parents=True)
    for part in range(3):
        rows = visits().slice(part * 200, 200)
        if kind == "parquet":
            pa.parquet.write_table(rows, inner / f"part{part}.parquet")
        else:
            pa.csv.write_csv(rows, inner / f"part{part}.csv")
    with shoal.connect(tmp_path, catalog={"tables": {"visits": {"owner": "uid"}}}) as session:
        assert answer(session) == ANSWER


@pytest.mark.parametrize(
    "frame",
    [
        visits(),
        visits().to_pandas(),
        pl.from_arrow(visits()),
        pl.from_arrow(visits()).lazy(),
        visits().to_batches()[0],
        visits().to_pydict(),
    ],
    ids=["arrow", "pandas", "polars", "lazy polars", "a batch", "a dict of lists"],
)
def test_data_frames_of_every_library_are_tables(frame):
    with shoal.connect({"visits": frame, "regions": regions()}, catalog=CATALOG) as session:
        assert answer(session) == ANSWER


def test_a_duckdb_file_is_opened_for_reading_only(tmp_path):
    path = tmp_path / "shop.duckdb"
    with duckdb.connect(str(path)) as made:
        made.register("incoming", visits())
        made.execute("CREATE TABLE visits AS FROM incoming")
        made.execute("CREATE TABLE regions(region VARCHAR)")
    before = path.read_bytes()
    with shoal.connect(path, catalog=CATALOG) as session:
        assert answer(session) == ANSWER
    assert path.read_bytes() == before


def test_columns_of_types_without_a_meaning_here_do_not_stand_in_the_way():
    table = visits().append_column("list", pa.array([[1, 2]] * 600)).append_column("struct", pa.array([{"a": 1}] * 600))
    with shoal.connect({"visits": table, "regions": regions()}, catalog=CATALOG) as session:
        assert answer(session) == ANSWER
        with pytest.raises(shoal.ShoalError) as refused:
            count(session, where="WHERE list IS NULL")
        assert refused.value.code == "E_UNSUPPORTED"


def test_a_view_of_the_catalog_is_the_custodians_sql():
    view = {
        "visits": {"owner": "uid", "view": "SELECT u AS uid, site, spend FROM raw WHERE keep"},
        "regions": {"public": True},
    }
    raw = visits().rename_columns(["u", "site", "spend", "day"]).append_column("keep", pa.array([True] * 600))
    with shoal.connect({"raw": raw, "regions": regions()}, catalog={"tables": view}) as session:
        assert answer(session) == ANSWER
        with pytest.raises(shoal.ShoalError) as refused:
            count(session, "raw")
        assert refused.value.code == "E_UNKNOWN_TABLE"


# ---- an open connection ------------------------------------------------------------------------------------------


@pytest.fixture
def connection():
    with duckdb.connect() as opened:
        opened.register("incoming", visits())
        opened.execute("CREATE TABLE visits AS FROM incoming")
        opened.execute("CREATE TABLE regions(region VARCHAR)")
        yield opened


def settings(opened: duckdb.DuckDBPyConnection) -> list:
    return opened.sql("SELECT name, value FROM duckdb_settings() ORDER BY name").fetchall()


def test_an_open_connection_is_never_reconfigured_and_stays_open(connection):
    before = settings(connection)
    with shoal.connect(connection, catalog=CATALOG) as session:
        assert answer(session) == ANSWER
    assert settings(connection) == before
    assert connection.sql("SELECT count(*) FROM visits").fetchall() == [(600,)]
    assert connection.sql("SELECT count(*) FROM duckdb_tables() WHERE NOT internal").fetchall() == [(2,)]


MACROS = [
    "sum(x) AS 0", "count(x) AS 0", "min(x) AS 0", "max(x) AS 0", "floor(x) AS 0", "abs(x) AS 0", "log2(x) AS 0",
    "least(a, b) AS 0", "greatest(a, b) AS 0", "row_number() AS 0", "count_star() AS 0", "isnan(x) AS true",
    *(f'"{operator}"(a, b) AS 0' for operator in ("+", "-", "*", "/", "//", "%", "&", "|", "<<", ">>", "||", "xor")),
]  # fmt: skip


def test_macros_that_bear_the_names_of_functions_and_operators_change_nothing(connection):
    sql = (
        f"{HEAD} site, {COUNT} AS n, SUM(spend * 2 + 1) AS s, AVG(spend), VAR_POP(spend), "
        "MEDIAN(spend), MIN(spend - 1), COUNT(DISTINCT spend) AS d FROM visits WHERE spend + 1 > 0 GROUP BY site"
    )

    def rounded(session) -> list:
        rows = [
            {k: round(v) if isinstance(v, float) else v for k, v in row.items()}
            for row in session.query(sql).to_dicts()
        ]
        return sorted(map(str, rows))

    before = rounded(shoal.connect(connection, catalog=CATALOG))
    for macro in MACROS:
        connection.execute(f"CREATE MACRO {macro}")
    session = shoal.connect(connection, catalog=CATALOG)
    assert rounded(session) == before
    assert answer(session) == ANSWER


def test_a_connection_that_prefers_another_collation_is_refused(connection):
    """It would merge owners and keys that differ by their spelling only, and it is not ours to reconfigure."""
    connection.execute("PRAGMA default_collation = NOCASE")
    connection.execute("CREATE TABLE names AS SELECT 'ann' AS uid")
    with pytest.raises(shoal.ShoalError) as refused:
        shoal.connect(connection, catalog={"tables": {"names": {"owner": "uid"}}})
    assert refused.value.code == "E_SOURCE"


def test_a_column_with_a_collation_of_its_own_is_compared_by_bytes(tmp_path):
    path = tmp_path / "names.duckdb"
    with duckdb.connect(str(path)) as made:
        made.execute("CREATE TABLE names(uid VARCHAR COLLATE NOCASE, t VARCHAR COLLATE NOCASE)")
        uid, t = (f"CASE WHEN i % 2 = 0 THEN '{name}' ELSE '{name.upper()}' END" for name in "ax")
        made.execute(f"INSERT INTO names SELECT {uid} || (i % 10)::VARCHAR, {t} FROM range(100) r(i)")
    with shoal.connect(path, catalog={"tables": {"names": {"owner": "uid"}}}) as session:
        rows = session.query(f"{HEAD} t, COUNT(DISTINCT uid) AS n FROM names GROUP BY t").to_dicts()
    assert sorted((row["t"], row["n"]) for row in rows) == [("X", 5), ("x", 5)]


def test_orders_mean_the_same_where_the_connection_prefers_others(connection):
    connection.execute("SET default_order = 'DESC'")
    connection.execute("SET default_null_order = 'nulls_first'")
    connection.execute("SET integer_division = true")
    session = shoal.connect(connection, catalog=CATALOG)
    first = "SELECT uid, spend, ROW_NUMBER() OVER (PARTITION BY uid ORDER BY site, spend) AS n FROM visits"
    sql = f"{HEAD} SUM(spend, contribution_bounds_per_group => (0, 10)) AS s FROM ({first}) WHERE n = 1"
    # Site a has uid % 3 = 0 and spend 2, site b spend 4, NULL comes last.
    assert round(session.query(sql).to_dicts()[0]["s"]) == 20 * 2 + 20 * 4 + 20 * 6
    halves = f"{HEAD} SUM(uid / 2, contribution_bounds_per_group => (0, 1000)) AS s FROM visits"
    assert abs(session.query(halves).to_dicts()[0]["s"] - 10 * sum(range(60)) / 2) < 1


def test_temporary_tables_and_registered_frames_of_a_connection_are_seen(connection):
    connection.execute("CREATE TEMP TABLE mine AS SELECT * FROM visits LIMIT 10")
    session = shoal.connect(connection, catalog={"tables": {"mine": {"owner": "uid"}, "incoming": {"owner": "uid"}}})
    assert count(session, "mine") == 10
    assert count(session, "incoming") == 600


# ---- CSV that is not quite one -----------------------------------------------------------------------------------

HEADER = "uid,site,spend\n"
GOOD = "".join(f"{i % 50},s{i % 3},{i * 0.5}\n" for i in range(1000))


def from_csv(tmp_path, content: str | bytes, name: str = "visits.csv") -> shoal.Session:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return shoal.connect(path, catalog={"tables": {"visits": {"owner": "uid"}}})


def types(session) -> dict:
    return {name: facts["type"] for name, facts in session.tables()["visits"]["columns"].items()}


def test_values_that_do_not_parse_are_null_and_rows_of_nobody_are_gone(tmp_path):
    session = from_csv(tmp_path, HEADER + GOOD + "7,s1,abc\nxx,s1,3\n")
    assert types(session) == {"uid": "integer", "site": "text", "spend": "double"}
    assert count(session) == 1001
    assert count(session, where="WHERE spend IS NULL") == 1


@pytest.mark.parametrize(
    ("odd", "rows"),
    [
        ("7,s1\n8\n", 1002),
        ('7,"a\nb",3\n8,"a ""quoted"" word",4\n', 1002),
        ("7,a,3,4,5\n", 1000),
        (b"7,\xff\xfe,3\n", 1000),
        (b"7,a\x00b,3\n", 1001),
        ("7," + "x" * 3_000_000 + ",3\n", 1000),
        ('7,"never closed,3\n', 1001),
    ],
    ids=["too short", "quoted line breaks", "too long", "not UTF-8", "a NUL", "a huge line", "an open quotation mark"],
)
def test_rows_that_are_no_rows_make_no_error(tmp_path, odd, rows):
    content = (HEADER + GOOD).encode() + (odd if isinstance(odd, bytes) else odd.encode())
    session = from_csv(tmp_path, content)
    assert types(session) == {"uid": "integer", "site": "text", "spend": "double"}
    assert count(session, where="WHERE site IS NULL OR LENGTH(site) >= 0") == rows


@pytest.mark.parametrize("delimiter", [",", ";", "|", "\t"])
def test_the_first_line_alone_says_how_lines_are_cut(tmp_path, delimiter):
    row = delimiter.join(["7", '"a;b,c|d\te;f;g;h;i"', "3"])
    content = HEADER.replace(",", delimiter) + (row + "\n") * 20
    session = from_csv(tmp_path, content, "visits.tsv" if delimiter == "\t" else "visits.csv")
    assert types(session) == {"uid": "integer", "site": "text", "spend": "integer"}
    assert count(session, where="WHERE site = 'a;b,c|d\te;f;g;h;i'") == 20


def test_types_of_a_csv_file_are_those_of_nearly_all_values(tmp_path):
    lines = "".join(
        f"{i},0{i % 10}00,2026-01-{i % 28 + 1:02d},2026-01-02 03:04:{i % 60:02d},{i % 2 == 0},{2**70 + i}\n"
        for i in range(100)
    )
    session = from_csv(tmp_path, "uid,zip,day,at,ok,big\n" + lines + "7,x,x,x,x,x\n")
    assert types(session) == {
        "uid": "integer",
        "zip": "text",
        "day": "date",
        "at": "timestamp",
        "ok": "boolean",
        "big": "decimal(38, 0)",
    }


def test_a_byte_order_mark_and_carriage_returns_are_no_part_of_names_or_values(tmp_path):
    session = from_csv(tmp_path, b"\xef\xbb\xbf" + (HEADER + GOOD).replace("\n", "\r\n").encode())
    assert types(session) == {"uid": "integer", "site": "text", "spend": "double"}
    assert count(session, where="WHERE site = 's1'") == 333


def test_an_empty_csv_file_has_columns_and_no_rows(tmp_path):
    assert count(from_csv(tmp_path, HEADER)) == 0


# ---- refusals ----------------------------------------------------------------------------------------------------


def refused(source, catalog=CATALOG) -> shoal.ShoalError:
    with pytest.raises(shoal.ShoalError) as caught:
        shoal.connect(source, catalog=catalog)
    return caught.value


@pytest.mark.parametrize("source", [None, 7, 1.5, object(), ["visits.csv"], b"visits.csv"])
def test_what_is_no_source_is_refused_with_what_would_be_one(source):
    error = refused(source)
    assert error.code == "E_SOURCE"
    assert "parquet" in error.hint


@pytest.mark.parametrize("url", ["postgresql://host/db", "s3://bucket/x.parquet", "https://example.org/a.csv"])
def test_urls_are_refused_without_a_connection_being_tried(url):
    assert refused(url).code == "E_SOURCE"


def test_missing_and_empty_places_are_named(tmp_path):
    for place in (tmp_path / "nowhere.parquet", tmp_path, tmp_path / "*.csv"):
        error = refused(place)
        assert error.code == "E_SOURCE"
        assert str(place) in error.message


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("visits.parquet", b"not parquet at all"),
        ("visits.duckdb", b"not a database"),
        ("visits.csv", b""),
        ("visits.csv", b"uid,uid\n1,2\n"),
        ("visits.csv", b"uid,UID\n1,2\n"),
    ],
)
def test_files_that_are_not_what_they_say_are_refused(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    assert refused(tmp_path / name).code == "E_SOURCE"


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_the_file_that_cannot_be_read_is_named(tmp_path, kind):
    write(tmp_path, kind)
    broken = tmp_path / f"orders.{kind}"
    broken.symlink_to("/proc/self/mem")  # a file that opens, and whose first byte the system does not give
    error = refused(tmp_path)
    assert error.code == "E_SOURCE"
    assert f"The file {str(broken)!r} cannot be read: " in error.message
    assert "account" in error.hint


@pytest.mark.skipif(os.geteuid() == 0, reason="the administrator may read everything")
@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_a_file_that_may_not_be_read_is_told_from_a_damaged_one(tmp_path, kind):
    write(tmp_path, kind)
    (tmp_path / f"visits.{kind}").chmod(0)
    assert "Permission denied" in refused(tmp_path).message


def test_the_damaged_one_of_many_files_is_named(tmp_path):
    (tmp_path / "visits").mkdir()
    pa.parquet.write_table(visits(), tmp_path / "visits" / "a.parquet")
    (tmp_path / "visits" / "b.parquet").write_bytes(b"not parquet at all")
    error = refused(tmp_path)
    assert f"The file {str(tmp_path / 'visits' / 'b.parquet')!r} cannot be read as a table." in error.message
    assert "a parquet file" in error.hint


def test_parts_of_a_csv_table_must_have_the_same_columns(tmp_path):
    (tmp_path / "visits").mkdir()
    (tmp_path / "visits" / "a.csv").write_text("uid,site\n1,a\n")
    (tmp_path / "visits" / "b.csv").write_text("site,uid\na,1\n")
    assert refused(tmp_path).code == "E_SOURCE"


def test_two_files_for_one_table_are_refused(tmp_path):
    write(tmp_path, "csv")
    pa.parquet.write_table(visits(), tmp_path / "VISITS.parquet")
    assert refused(tmp_path).code == "E_SOURCE"


@pytest.mark.parametrize(
    "frames",
    [
        {"visits": [1, 2, 3]},
        {"visits": "text"},
        {7: visits()},
        {"visits": visits(), "VISITS": visits()},
        {"visits": pd.DataFrame({"uid": [1, "a"]})},
    ],
    ids=["a list", "a text", "a name that is none", "two names alike", "a column of two types"],
)
def test_frames_that_are_none_are_refused(frames):
    assert refused(frames).code == "E_SOURCE"


def test_the_catalog_must_fit_the_source():
    frames = {"visits": visits(), "regions": regions()}
    for tables, word in (
        ({"orders": {"owner": "uid"}}, "orders"),
        ({"visits": {"owner": "who"}}, "who"),
        ({"visits": {"owner": "spend"}}, "cannot tell owners apart"),
        ({"visits": {"owner": "uid", "columns": {"cost": {"bounds": [0, 1]}}}}, "cost"),
        ({"visits": {"owner": "uid", "columns": {"site": {"type": "blob"}}}}, "site"),
        ({"visits": {"owner": "uid", "view": "SELECT * FROM nothing"}}, "visits"),
        ({"visits": {"owner": "uid", "view": "not sql at all ("}}, "visits"),
    ):
        error = refused(frames, {"tables": tables})
        assert error.code == "E_CATALOG"
        assert word in error.message


# ---- names and types that could be mistaken ------------------------------------------------------------------------


def twins() -> pa.Table:
    return pa.Table.from_arrays([pa.array([0] * 60), pa.array(range(60))], names=["UID", "uid"])


@pytest.mark.parametrize("kind", ["Arrow", "pandas", "polars", "parquet"])
def test_two_columns_by_the_owners_name_are_refused(tmp_path, kind):
    """The engine would call the second uid_1, and the first, whatever it holds, would be the owner."""
    pa.parquet.write_table(twins(), tmp_path / "visits.parquet")
    frames = {"Arrow": twins(), "pandas": twins().to_pandas(), "polars": pl.from_arrow(twins())}
    source = {"visits": frames[kind]} if kind in frames else tmp_path / "visits.parquet"
    with pytest.raises(shoal.ShoalError, match="Two columns of the table 'visits' have the same name") as refused:
        shoal.connect(source, catalog={"tables": {"visits": {"owner": "uid"}}})
    assert refused.value.code == "E_SOURCE"


def test_a_view_with_two_columns_by_the_owners_name_is_refused(connection):
    connection.execute("CREATE TABLE people AS SELECT i AS uid FROM range(9) t(i)")
    view = "SELECT v.*, p.uid FROM visits v JOIN people p ON true"
    with pytest.raises(shoal.ShoalError, match="several columns with the name 'uid'") as refused:
        shoal.connect(connection, catalog={"tables": {"seen": {"view": view, "owner": "uid"}}})
    assert refused.value.code == "E_CATALOG"


def test_a_number_at_the_end_of_a_name_is_no_twin(tmp_path):
    table = visits().append_column("spend_1", pa.array([1] * 600))
    pa.parquet.write_table(table, tmp_path / "visits.parquet")
    with shoal.connect(tmp_path, catalog={"tables": {"visits": {"owner": "uid"}}}) as session:
        assert count(session, where="WHERE spend_1 = 1") == 600


@pytest.mark.parametrize(
    "type_", [pa.float16(), pa.decimal256(9, 2), pa.decimal256(60, 2), pa.decimal128(38, 2)], ids=str
)
def test_numbers_of_every_arrow_type_are_numbers(type_):
    two = 2.0 if pa.types.is_floating(type_) else Decimal(2)
    table = visits().append_column("price", pa.array([two] * 600, type_))
    with shoal.connect({"visits": table}, catalog={"tables": {"visits": {"owner": "uid"}}}) as session:
        total = "SUM(price, contribution_bounds_per_group => (0, 99)) AS s"
        answered = session.query(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1000000) {total} FROM visits")
        assert answered.to_dicts()[0]["s"] == pytest.approx(1200, abs=0.1)


def test_times_in_nanoseconds_are_cut_to_microseconds():
    table = visits().append_column("at", pa.array([1_999] * 600, pa.time64("ns")))
    with shoal.connect({"visits": table}, catalog={"tables": {"visits": {"owner": "uid"}}}) as session:
        assert count(session, where="WHERE at = TIME '00:00:00.000001'") == 600


@pytest.mark.parametrize("values", [[1, "a"], [object()] * 2, [1j, 2]], ids=["mixed", "objects", "complex"])
def test_the_column_of_a_frame_that_has_no_type_is_named(values):
    frame = pd.DataFrame({"uid": [1, 2], "odd": pd.Series(values, dtype=object)})
    with pytest.raises(
        shoal.ShoalError, match="The data frame of the table 'visits' cannot be read: 'odd' has"
    ) as refused:
        shoal.connect({"visits": frame}, catalog={"tables": {"visits": {"owner": "uid"}}})
    assert refused.value.code == "E_SOURCE"


def test_a_frame_without_columns_and_an_owner_that_is_none_of_them_are_told(tmp_path):
    with pytest.raises(shoal.ShoalError, match="has no columns"):
        shoal.connect({"visits": pd.DataFrame()}, catalog={"tables": {"visits": {"owner": "uid"}}})
    with pytest.raises(shoal.ShoalError, match="Its columns: site, spend, day"):
        shoal.connect({"visits": visits().drop_columns("uid")}, catalog={"tables": {"visits": {"owner": "uid"}}})


def test_a_catalog_is_not_made_of_a_dict_by_its_class():
    with pytest.raises(shoal.ShoalError, match="from_dict") as refused:
        shoal.Catalog(CATALOG)
    assert refused.value.code == "E_CATALOG"
