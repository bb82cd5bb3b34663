"""Parquet files with a damaged page, or with a footer that is wrong about the values.

A page is read only where a row passes the filter, so a damaged one failed exactly if the victim's row passed. The engine computes
in as many bits as a footer says that the values need: a value beyond it ended the query, on the way to a group or a join.
"""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from oracles import face_of

import shoal
from shoal.errors import ShoalError

PRIVATE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, delta=1e-6, max_groups_contributed=3) "
CATALOG = {"tables": {"people": {"owner": "uid"}}}
WITH_RATES = {"tables": {"people": {"owner": "uid"}, "rates": {"public": True}}}
VICTIM = 2_300


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def written(path, columns, rows=1_000):
    """Row groups of one size and pages without compression: two files of the same columns differ in their values alone."""
    pq.write_table(pa.table(columns), path, row_group_size=rows, compression="none", use_dictionary=False)
    return path


def with_footer_of(path, other):
    """The pages of one file and the footer of another."""
    pages, footer = (_parts(each.read_bytes()) for each in (path, other))
    assert len(pages[0]) == len(footer[0]), "the footer points at other pages"
    path.write_bytes(pages[0] + footer[1])
    other.unlink()


def _parts(data):
    end = len(data) - 8 - struct.unpack("<I", data[-8:-4])[0]
    return data[:end], data[end:]


DAMAGED = {
    "whole numbers": np.arange(4_000),
    "reals": np.arange(4_000) / 7,
    "dates": pa.array(np.arange(4_000), pa.int32()).cast(pa.date32()),
    "timestamps": pa.array(np.arange(4_000), pa.timestamp("us")),
    "decimals": pa.array(np.arange(4_000)).cast(pa.decimal128(20, 0)),
}


@pytest.mark.parametrize("values", DAMAGED.values(), ids=DAMAGED.keys())
@pytest.mark.parametrize("compression", ["snappy", "zstd", "gzip"])
def test_a_page_that_cannot_be_decoded_is_found_when_the_file_is_opened(tmp_path, values, compression):
    path = tmp_path / "people.parquet"
    table = pa.table({"uid": np.arange(4_000), "age": np.arange(4_000) % 80, "value": values})
    pq.write_table(table, path, row_group_size=1_000, compression=compression, use_dictionary=False)
    with shoal.connect(path, catalog=CATALOG) as session:
        assert session.query(PRIVATE + "COUNT(value) AS n FROM people").to_arrow().num_rows == 1
    page = pq.ParquetFile(path).metadata.row_group(VICTIM // 1_000).column(2)
    data = bytearray(path.read_bytes())
    start, size = page.data_page_offset + 60, page.total_compressed_size - 60
    data[start : start + size] = b"\xff" * size
    path.write_bytes(data)
    with pytest.raises(ShoalError) as refused:
        shoal.connect(path, catalog=CATALOG)
    assert refused.value.code == "E_SOURCE"


READS = {
    "groups of an owner": "COUNT(*) FROM (SELECT uid, site, COUNT(*) AS n FROM people WHERE {} GROUP BY uid, site)",
    "owners": "COUNT(*) FROM (SELECT uid, MAX(income) AS m FROM people WHERE {} GROUP BY uid)",
    "a join": "COUNT(*) FROM people a JOIN people b USING (uid) WHERE {}",
    "a window": "SUM(r, contribution_bounds_per_group => (0, 9)) FROM (SELECT uid, RANK() OVER (PARTITION BY uid ORDER BY site) "
    "AS r FROM people WHERE {})",
    "groups": "site, COUNT(*) FROM people WHERE {} GROUP BY site",
    "values": "COUNT(DISTINCT site) FROM people WHERE {}",
}


@pytest.mark.parametrize("sql", READS.values(), ids=READS.keys())
@pytest.mark.parametrize("condition", ["TRUE", f"a.uid = {VICTIM}", f"a.uid = {VICTIM} AND a.income > 50"])
def test_a_value_beyond_what_the_footer_says_ends_no_query(tmp_path, sql, condition):
    faces = set()
    for odd in (10**12, 3):
        (tmp_path / str(odd)).mkdir()
        site = np.arange(4_000) % 5
        columns = {"uid": np.arange(4_000), "site": site, "income": np.arange(4_000) % 100}
        path = written(
            tmp_path / str(odd) / "people.parquet", columns | {"site": np.where(columns["uid"] == VICTIM, odd, site)}
        )
        with_footer_of(path, written(tmp_path / "other.parquet", columns | {"uid": np.arange(4_000) % 10}))
        with shoal.connect(path, catalog=CATALOG) as session:
            faces.add(
                face_of(session, PRIVATE + sql.format(condition if " a " in sql else condition.replace("a.", "")))
            )
    assert len(faces) == 1
    assert next(iter(faces))[0] == "answered"


def test_keys_of_one_owner_do_not_decide_which_public_rows_others_find(tmp_path):
    """Public rows outside of the keys that are met are skipped by what the footer says, which is wrong about one row group."""
    found = []
    for key in (5, 900_000):
        place = tmp_path / str(key)
        place.mkdir()
        keys = np.repeat(np.arange(4), 1_000) * 1_000 + np.tile(np.arange(1_000), 4)
        path = written(place / "rates.parquet", {"k": keys, "rate": np.ones(4_000, dtype=np.int64)})
        with_footer_of(
            path,
            written(
                place / "other.parquet", {"k": keys + 800_000 * (keys < 1_000), "rate": np.zeros(4_000, dtype=np.int64)}
            ),
        )
        uid = np.arange(100)
        written(place / "people.parquet", {"uid": uid, "k": np.where(uid == 7, key, uid)})
        with shoal.connect(place, catalog=WITH_RATES) as session:
            sql = (
                PRIVATE.replace("epsilon=1", "epsilon=1000")
                + "COUNT(DISTINCT uid) AS n FROM people JOIN rates USING (k)"
            )
            found.append(session.query(sql).to_arrow().column(0)[0].as_py())
    assert abs(found[0] - found[1]) <= 1


# ---- folders that are values ----------------------------------------------------------------------------------------


def in_folders(place, names):
    for name in names:
        (place / "t" / f"uid={name}").mkdir(parents=True)
        pq.write_table(pa.table({"x": [1]}), place / "t" / f"uid={name}" / "a.parquet")
    return place


@pytest.mark.parametrize("more", ["7x", "07", "2024-01-01", "0x10", "__HIVE_DEFAULT_PARTITION__"])
def test_no_owners_folder_decides_about_a_type(tmp_path, more):
    types = set()
    for number, names in enumerate((["7", "16"], ["7", "16", more])):
        with shoal.connect(in_folders(tmp_path / str(number), names), {"tables": {"t": {"owner": "uid"}}}) as session:
            types.add(session.tables()["t"]["columns"]["uid"]["type"])
    assert types == {"text"}


def test_folders_that_are_spelled_differently_are_different_owners(tmp_path):
    names = ["7", "07", "007", "7.0", "+7", "16", "0x10", "0", "-0", "2024-01-01", "2024-1-1"]
    sql = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1000000, delta = 1e-6) COUNT(DISTINCT uid) AS n FROM t"
    with shoal.connect(in_folders(tmp_path, names), {"tables": {"t": {"owner": "uid"}}}) as session:
        assert session.query(sql).to_dicts() == [{"n": len(names)}]
