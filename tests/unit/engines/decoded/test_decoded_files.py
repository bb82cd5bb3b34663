"""SQLite files and JSON lines are read once, when a session opens: nothing in them can fail later."""

from __future__ import annotations

import gzip
import json
import sqlite3

import pyarrow as pa
import pytest

from shoal.engines.decoded.json_lines import read_json_lines
from shoal.engines.decoded.sqlite_files import read_sqlite
from shoal.errors import ShoalError
from shoal.risk.scanning.scan import scan
from shoal.session import connect

CATALOG = {"tables": {"visits": {"owner": "uid"}}, "defaults": {"epsilon": 50.0, "delta": 1e-6}}
COUNT = "SELECT COUNT(DISTINCT uid) AS n FROM visits"
ROWS = [
    {"uid": n, "site": ("market", "museum")[n % 2], "spend": n / 4, "day": "2025-01-02", "vip": n % 2 == 0}
    for n in range(40)
]


def owners(source, catalog=CATALOG):
    with connect(source, catalog=catalog) as session:
        return session.query(COUNT).to_dicts()[0]["n"]


def compressed(path, text):
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    elif path.suffix == ".zst":
        path.write_bytes(pa.compress(text.encode(), codec="zstd", asbytes=True))
    else:
        path.write_text(text)
    return path


def json_lines(rows):
    return "\n".join(map(json.dumps, rows)) + "\n"


@pytest.mark.parametrize("name", ["visits.jsonl", "visits.ndjson", "visits.jsonl.gz", "visits.jsonl.zst"])
def test_json_lines_answer_queries_and_scans(tmp_path, name):
    path = compressed(tmp_path / name, json_lines(ROWS))
    assert abs(owners(path) - 40) <= 2
    assert scan(path, owner="uid", key=b"k" * 16).datasets[0].rows == 40


@pytest.mark.parametrize("name", ["visits.csv", "visits.csv.gz", "visits.csv.zst", "visits.tsv.zst"])
def test_compressed_csv_files_answer_queries_and_scans(tmp_path, name):
    mark = "\t" if ".tsv" in name else ","
    path = compressed(tmp_path / name, "\n".join([f"uid{mark}site", *(f"{n}{mark}market" for n in range(40))]))
    assert abs(owners(path) - 40) <= 2
    assert scan(path, owner="uid", key=b"k" * 16).datasets[0].rows == 40


@pytest.mark.parametrize("name", ["visits.csv.zst", "visits.csv.gz", "visits.jsonl.gz", "visits.jsonl.zst"])
def test_a_compressed_file_that_is_cut_off_is_told_when_it_is_opened(tmp_path, name):
    text = "uid,site\n" + "".join(f"{n},{n * 7919}\n" for n in range(9000))
    path = compressed(
        tmp_path / name, text if ".csv" in name else json_lines({"uid": n, "x": n * 7919} for n in range(9000))
    )
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ShoalError) as refused:
        connect(path, catalog=CATALOG)
    assert refused.value.code == "E_SOURCE"


@pytest.mark.parametrize("line", ["[1, 2]", "{", "3", '{"uid": 1', "\udcff"])
def test_a_line_that_is_no_object_is_told_by_its_number(tmp_path, line):
    path = tmp_path / "visits.jsonl"
    path.write_text(f'{{"uid": 1}}\n{line}\n', errors="surrogateescape")
    with pytest.raises(ShoalError, match=r"line [12] is not a JSON object") as refused:
        connect(path, catalog=CATALOG)
    assert refused.value.code == "E_SOURCE"


def test_types_of_json_lines_are_those_of_nearly_all_values(tmp_path):
    path = tmp_path / "t.jsonl"
    odd = {"uid": "x", "site": 7, "spend": "much", "day": None, "vip": 3}
    path.write_text(json_lines([*ROWS * 3, odd]))
    table = read_json_lines([path], {})
    assert {f.name: str(f.type).removeprefix("large_") for f in table.schema} == {
        "uid": "int64", "site": "string", "spend": "double", "day": "date32[day]", "vip": "bool",
    }  # fmt: skip
    assert list(table.slice(120).to_pylist()[0].values()) == [None, "7", None, None, None]


def test_numbers_keep_their_digits_and_nested_values_are_text(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text('{"uid": 9007199254740993, "at": {"x": [1.50]}}\n')
    assert read_json_lines([path], {}).to_pylist() == [{"uid": 9007199254740993, "at": '{"x": ["1.50"]}'}]


def test_a_column_that_the_catalog_does_not_name_is_not_there(tmp_path):
    path = tmp_path / "visits.jsonl"
    path.write_text(json_lines([*ROWS, {"uid": 99, "secret": 1}]))
    catalog = {**CATALOG, "tables": {"visits": {"owner": "uid", "columns": {"site": {"type": "VARCHAR"}}}}}
    with connect(path, catalog=catalog) as session:
        assert list(session.tables()["visits"]["columns"]) == ["uid", "site"]


@pytest.mark.parametrize(
    "extra", [{"hiv": 1}, {"HIV": 1}, {"SPEND": 3}, {"Spend": 3, "spend": 4}, {"uid": None, "hiv": 2}]
)
def test_no_owners_line_decides_which_columns_a_catalog_with_columns_has(tmp_path, extra):
    columns = {name: {"type": "BIGINT"} for name in ("spend", "hiv")}
    catalog = {**CATALOG, "tables": {"visits": {"owner": "UID", "columns": columns}}}
    path = tmp_path / "visits.jsonl"
    faces = []
    for rows in (
        [{"uid": n, "spend": n} for n in range(40)],
        [{"uid": n, "spend": n} for n in range(40)] + [{"uid": 99} | extra],
    ):
        path.write_text(json_lines(rows))
        with connect(path, catalog=catalog) as session:
            asked = [session.query(f"SELECT COUNT({name}) AS n FROM visits") for name in ("spend", "hiv")]
            faces.append(
                (
                    list(session.tables()["visits"]["columns"]),
                    [answer.to_arrow().schema for answer in asked],
                    session.spent,
                )
            )
    assert faces[0] == faces[1]


def test_columns_that_lead_to_other_tables_are_read_from_json_lines(tmp_path):
    (tmp_path / "orders.jsonl").write_text(json_lines({"order_id": n, "uid": n % 30} for n in range(90)))
    (tmp_path / "lines.jsonl").write_text(json_lines({"Order_ID": n % 90, "price": 2} for n in range(270)))
    orders = {"owner": "uid", "columns": {"order_id": {"type": "BIGINT"}}}
    lines = {"owner": {"through": "order_id", "to": "orders"}, "columns": {"price": {"bounds": [0, 5]}}}
    catalog = {"tables": {"orders": orders, "lines": lines}, "defaults": {"epsilon": 50.0, "delta": 1e-6}}
    with connect(tmp_path, catalog=catalog) as session:
        counted = session.query("SELECT COUNT(DISTINCT order_id) AS n FROM lines").to_dicts()[0]["n"]
        assert "(owner)" not in session.tables()["lines"]["columns"]
    assert abs(counted - 90) <= 10


# ---- SQLite


@pytest.fixture
def database(tmp_path):
    path = tmp_path / "shop.db"
    with sqlite3.connect(path) as connection:
        connection.execute(
            "CREATE TABLE visits (uid INTEGER, site TEXT, spend REAL, day DATE, note, price DECIMAL(8,2))"
        )
        rows = [(n, "market", n / 4, "2025-01-02", b"\x00", 2.5) for n in range(40)]
        connection.executemany("INSERT INTO visits VALUES (?, ?, ?, ?, ?, ?)", rows)
    connection.close()
    return path


def test_a_sqlite_file_answers_queries_and_scans_whatever_it_is_called(database):
    assert abs(owners(database) - 40) <= 2
    assert scan(database, owner="uid", key=b"k" * 16).datasets[0].rows == 40
    other = database.with_suffix(".sqlite3")
    database.rename(other)
    assert abs(owners(other) - 40) <= 2


def test_columns_of_sqlite_have_one_type_each(database):
    schema = read_sqlite(database)["visits"].schema
    found = {f.name: str(f.type).removeprefix("large_") for f in schema}
    assert found == {
        "uid": "int64", "site": "string", "spend": "double", "day": "date32[day]", "note": "string", "price": "double",
    }  # fmt: skip


def test_a_value_of_another_type_is_null_and_changes_nothing_for_others(database):
    with sqlite3.connect(database) as connection:
        connection.execute("INSERT INTO visits VALUES ('many', x'00', 'much', 'some day', 1, 'free')")
        connection.execute("INSERT INTO visits VALUES (41, 5, 7, 20250101, 1, 1)")
    connection.close()
    table = read_sqlite(database)["visits"]
    assert table.schema == read_sqlite(database)["visits"].schema
    odd, other = table.slice(40).to_pylist()
    assert [odd[name] for name in ("uid", "site", "spend", "day", "price")] == [None] * 5
    assert (other["uid"], other["site"], other["spend"], other["day"]) == (41, "5", 7.0, None)
    assert abs(owners(database) - 41) <= 2


def test_text_that_is_not_utf8_is_told_when_the_file_is_opened(database):
    with sqlite3.connect(database) as connection:
        connection.execute("INSERT INTO visits (uid, site) VALUES (50, CAST(x'ff' AS TEXT))")
    connection.close()
    with pytest.raises(ShoalError) as refused:
        connect(database, catalog=CATALOG)
    assert refused.value.code == "E_SOURCE"


def test_a_damaged_sqlite_file_is_told_when_it_is_opened(database):
    content = database.read_bytes()
    database.write_bytes(content[:5000] + b"\xff" * (len(content) - 5000))
    with pytest.raises(ShoalError) as refused:
        connect(database, catalog=CATALOG)
    assert refused.value.code == "E_SOURCE"


def test_a_sqlite_file_that_changes_under_a_session_is_refused_before_the_charge(database):
    with connect(database, catalog=CATALOG) as session:
        with sqlite3.connect(database) as connection:
            connection.executemany("INSERT INTO visits (uid) VALUES (?)", [(n,) for n in range(9000)])
        connection.close()
        with pytest.raises(ShoalError, match="has changed"):
            session.query(COUNT)
        assert session.spent == (0, 0)


def test_columns_of_json_lines_stand_in_the_order_of_the_catalog(tmp_path):
    catalog = {"tables": {"visits": {"owner": "uid", "columns": {"spend": {"bounds": [0, 9]}, "site": {}}}}}
    faces = []
    for first in ([], [{"vip": True, "site": "museum", "uid": 99, "spend": 1}]):
        path = tmp_path / "visits.jsonl"
        path.write_text(json_lines([*first, *ROWS]))
        with connect(path, catalog=catalog) as session:
            faces.append(list(session.tables()["visits"]["columns"]))
    assert faces == [["uid", "spend", "site"]] * 2


@pytest.mark.parametrize("key", ["", "\\u0000", "a\\u0000b", "\\ud800"])
def test_keys_that_no_column_can_have_are_left_out(tmp_path, key):
    """One line with such a key ended the opening of its file in an error of the engine, which names the query and has no code."""
    lines = [f'{{"uid": {n}, "x": 1}}' for n in range(60)] + [f'{{"uid": 7, "{key}": 1}}']
    (tmp_path / "visits.jsonl").write_text("\n".join(lines))
    with connect(tmp_path, {"tables": {"visits": {"owner": "uid"}}}) as session:
        assert [name for name, _ in session._schemas["visits"]] == ["uid", "x"]
