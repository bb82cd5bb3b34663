"""Values hash by what they are, not by the type, engine or file format that carried them."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import uuid

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet
import pytest

from shoal.errors import ShoalError
from shoal.risk.hashing.canonical import canonical, has_canonical_form
from shoal.risk.hashing.encoding import ColumnEncoder, combine
from shoal.risk.hashing.keys import Key
from shoal.risk.hashing.messages import combination, null_hash

KEY = Key(b"test")
HASHER = KEY.values  # noqa: PD011 - not a data frame


def hashes(values, kind=None) -> list[int]:
    array = values if isinstance(values, pa.Array) else pa.array(values, kind)
    return [int(hashed) for hashed in canonical(array, HASHER).hashes(HASHER)]


NULL = int(null_hash(HASHER))


@pytest.mark.parametrize(
    "kind",
    [
        pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(), pa.float16(),
        pa.float32(), pa.float64(), pa.decimal32(4, 1), pa.decimal64(12, 3), pa.decimal128(10, 2), pa.decimal128(38, 20),
        pa.decimal256(60, 5),
    ],
    ids=str,
)  # fmt: skip
def test_seven_is_seven_in_every_numeric_type(kind):
    seven = decimal.Decimal(7) if pa.types.is_decimal(kind) else np.float16(7) if kind == pa.float16() else 7
    assert hashes([seven], kind) == hashes([7], pa.int64())


def test_the_text_seven_is_not_the_number():
    assert hashes(["7"]) != hashes([7])


def test_true_is_not_one():
    assert hashes([True]) != hashes([1])


def test_bytes_are_not_text():
    assert hashes([b"a"]) != hashes(["a"])


def test_minus_zero_is_zero_in_every_type():
    assert hashes([-0.0]) == hashes([0.0]) == hashes([0]) == hashes([decimal.Decimal("0.00")])


def test_null_is_a_value_of_its_own_and_nan_is_null():
    assert hashes([None], pa.int64()) == hashes([None], pa.string()) == hashes([float("nan")]) == [NULL]
    assert NULL not in hashes(["", "NULL", "0"]) + hashes([0])


def test_all_nan_payloads_are_the_same():
    bits = np.array([0x7FF8000000000000, 0xFFF8000000000001, 0x7FF0000000000001], dtype=np.uint64)
    assert set(hashes(pa.array(bits.view(np.float64)))) == {NULL}


def test_a_tenth_is_the_same_as_decimal_and_as_double():
    for kind in (pa.decimal128(10, 1), pa.decimal128(20, 9), pa.decimal128(38, 25), pa.decimal256(70, 40)):
        assert hashes([decimal.Decimal("0.1")], kind) == hashes([0.1])


def test_decimals_of_up_to_15_digits_are_their_nearest_double():
    rng = np.random.default_rng(3)
    for digits, scale in ((15, 3), (14, 12), (9, 2), (15, 22)):
        numbers = [decimal.Decimal(int(n)).scaleb(-scale) for n in rng.integers(-(10**digits), 10**digits, 200)]
        narrow = hashes(numbers, pa.decimal128(38, scale))
        assert narrow == hashes([float(number) for number in numbers])
        assert narrow == hashes(numbers, pa.decimal256(50, scale))


def test_wide_decimals_do_not_depend_on_their_scale():
    number = decimal.Decimal("12345678901234567890.123")
    assert hashes([number], pa.decimal128(38, 3)) == hashes([number], pa.decimal128(38, 10))
    assert hashes([number], pa.decimal128(38, 3)) == hashes([number], pa.decimal256(60, 30))
    assert hashes([number], pa.decimal128(38, 3)) != hashes([-number], pa.decimal128(38, 3))


def test_whole_numbers_beyond_64_bits_agree_between_types():
    assert hashes([2**63], pa.uint64()) == hashes([decimal.Decimal(2**63)], pa.decimal128(38, 0))
    assert hashes([10**25], pa.decimal128(38, 0)) == hashes([1e25])
    assert hashes([2**63 - 1], pa.uint64()) == hashes([2**63 - 1], pa.int64())
    assert hashes([-(2**63)], pa.int64()) == hashes([-(2.0**63)])


def test_a_uint64_column_hashes_small_numbers_as_integers_also_beside_large_ones():
    assert hashes([7, 2**64 - 1], pa.uint64())[0] == hashes([7])[0]


def test_infinities_differ_from_each_other():
    assert len(set(hashes([float("inf"), float("-inf"), 1e308]))) == 3


def test_a_date_is_its_midnight_in_every_unit_and_utc_zone():
    day = dt.date(2021, 3, 4)
    midnight = dt.datetime(2021, 3, 4)  # noqa: DTZ001 - a wall clock without a zone
    expected = hashes([day], pa.date32())
    assert hashes([day], pa.date64()) == expected
    for unit in ("s", "ms", "us", "ns"):
        assert hashes([midnight], pa.timestamp(unit)) == expected
        assert hashes([midnight], pa.timestamp(unit, "UTC")) == expected


def test_an_instant_is_the_same_in_every_zone():
    instant = pa.array([1_600_000_000_000_001], pa.timestamp("us", "UTC"))
    assert hashes(instant) == hashes(instant.cast(pa.timestamp("us", "Europe/Oslo")))


def test_times_before_1970_and_below_a_microsecond_differ():
    ticks = pa.array([-1, 0, 1, -1_000_000_000, 999_999_999], pa.int64()).cast(pa.timestamp("ns"))
    assert len(set(hashes(ticks))) == 5


def test_times_of_day_and_durations_agree_between_units():
    assert hashes([dt.time(10)], pa.time32("s")) == hashes([dt.time(10)], pa.time64("ns"))
    assert hashes([90], pa.duration("s")) == hashes([90_000_000], pa.duration("us"))


def test_text_is_taken_as_it_is():
    assert len(set(hashes(["a", "A", "a ", "\u00e1", "a\u0301"]))) == 5


def test_all_text_types_agree():
    texts = ["", "a", "x" * 7, "x" * 8, "é" * 200, "z" * 300, "w" * 5_000, None]
    expected = hashes(texts, pa.string())
    assert len(set(expected)) == len(texts)
    assert hashes(texts, pa.large_string()) == expected
    assert hashes(texts, pa.string_view()) == expected
    assert hashes(pa.array(texts).dictionary_encode()) == expected


def test_long_texts_that_differ_anywhere_hash_differently():
    base = "x" * 100_000
    changed = [base[:at] + "y" + base[at + 1 :] for at in (0, 127, 128, 50_000, 99_999)]
    assert len(set(hashes([base, *changed, base + "x", base[:-1]]))) == 8


def test_slices_hash_like_the_whole():
    for values in (
        ["a", "bb", None, "d" * 400, "e"],
        [1, None, 3, 4, 5],
        [1.5, 2.0, None, 4.0, 5.5],
        [[1], [], None, [2, 3], [4]],
    ):
        array = pa.array(values)
        assert hashes(array.slice(1, 3)) == hashes(array)[1:4]


def test_a_uuid_is_its_text():
    made = uuid.UUID("C0FFEE00-1234-4000-8000-0123456789AB")
    assert hashes(pa.array([made.bytes, None], pa.uuid())) == hashes([str(made), None])


def test_nested_values_hash_by_their_elements():
    lists = pa.array([[1, 2], [2, 1], [1, 2, None], [], None, [1, 2]])
    found = hashes(lists)
    assert found[0] == found[5]
    assert len(set(found[:5])) == 5
    assert hashes(lists.cast(pa.large_list(pa.int64()))) == found
    assert hashes(pa.array([[1, 2]], pa.list_(pa.int8(), 2)))[0] == found[0]


def test_the_order_of_fields_and_of_map_entries_does_not_matter():
    one = pa.array([{"a": 1, "b": "x"}], pa.struct([("a", pa.int8()), ("b", pa.string())]))
    other = pa.array([{"a": 1, "b": "x"}], pa.struct([("b", pa.large_string()), ("a", pa.int64())]))
    assert hashes(one) == hashes(other)
    maps = pa.array(
        [[("k", 1), ("l", 2)], [("l", 2), ("k", 1)], [("k", 2), ("l", 1)]], pa.map_(pa.string(), pa.int32())
    )
    found = hashes(maps)
    assert found[0] == found[1] != found[2]
    assert hashes(maps.slice(1)) == found[1:]


def test_a_type_without_canonical_form_is_refused_by_name():
    union = pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])])
    assert not has_canonical_form(union.type)
    assert not has_canonical_form(pa.list_(union.type))
    assert has_canonical_form(pa.map_(pa.string(), pa.list_(pa.int8())))
    with pytest.raises(ShoalError) as caught:
        hashes(union)
    assert caught.value.code == "E_UNSUPPORTED"


def test_combinations_keep_their_columns_apart():
    def tuples(first, second):
        encoded = [ColumnEncoder(HASHER).encode(pa.array(values, pa.string())) for values in (first, second)]
        return [int(h) for h in combine(encoded, HASHER).by_row()]

    found = tuples(["a", "ab", "", None, "x"], ["bc", "c", None, "", "y"])
    assert len(set(found)) == 5
    assert tuples(["y"], ["x"]) != tuples(["x"], ["y"])


def test_combinations_of_codes_hash_like_combinations_of_rows():
    rng = np.random.default_rng(2)
    first, second = pa.array(rng.integers(0, 5, 10_000)), pa.array(rng.integers(0, 7, 10_000)).cast(pa.string())
    encoded = [ColumnEncoder(HASHER).encode(column) for column in (first, second)]
    by_row = combination([column.by_row() for column in encoded], HASHER)
    assert combine(encoded, HASHER).codes is not None
    assert (combine(encoded, HASHER).by_row() == by_row).all()


@pytest.mark.parametrize(
    "values",
    [
        np.random.default_rng(1).integers(0, 100, 20_000),
        np.random.default_rng(1).integers(-5, 10**12, 20_000),
        np.random.default_rng(1).integers(0, 20_000, 20_000).astype("datetime64[D]"),
        np.random.default_rng(1).integers(0, 9, 20_000).astype(float) / 2,
        np.random.default_rng(1).integers(0, 2, 20_000).astype(bool),
        np.random.default_rng(1).integers(0, 15_000, 20_000).astype(str),
    ],
    ids=["few integers", "many integers", "dates", "floats", "booleans", "texts"],
)
def test_the_way_a_batch_is_encoded_never_shows(values):
    array = pa.array(values)
    mask = np.random.default_rng(5).random(len(array)) < 0.1
    array = pa.array(array.to_pylist(), array.type, mask=mask)
    direct = canonical(array, HASHER)
    expected = direct.hashes(HASHER)
    encoder = ColumnEncoder(HASHER)
    for candidate in (array, array.dictionary_encode(), array):  # the third meets what the encoder remembers
        encoded = encoder.encode(candidate)
        assert (encoded.by_row() == expected).all()
        places = np.arange(0, len(encoded.hashes), 97)
        example = {int(h): int(s) for h, s in zip(expected, direct.shapes(np.arange(len(array))), strict=True)}
        for place, shape in zip(places, encoded.shaped.shapes(places), strict=True):
            assert example.get(int(encoded.hashes[place]), int(shape)) == int(shape)


def test_a_span_of_integers_grows_with_later_batches():
    encoder = ColumnEncoder(HASHER)
    for low in (1_000, 0, 90_000, -40_000, 10**9, 500):
        array = pa.array(np.arange(low, low + 5_000))
        assert (encoder.encode(array).by_row() == canonical(array, HASHER).hashes(HASHER)).all()


# the same table through every engine and file format

ROWS = {
    "whole": [7, -3, None, 0, 123456789012],
    "real": [0.5, -2.0, None, 1e-7, 3.25],
    "text": ["Oslo", "", None, "zażółć", "7"],
    "day": [
        dt.date(2020, 2, 29),
        dt.date(1969, 7, 20),
        None,
        dt.date(2000, 1, 1),
        dt.date(2024, 5, 6),
    ],
    "moment": [dt.datetime(2020, 1, 2, 3, 4, 5, 678901 + at) if at != 2 else None for at in range(5)],  # noqa: DTZ001
    "flag": [True, False, None, True, False],
}
TABLE = pa.table(ROWS)


def by_column(table: pa.Table) -> dict[str, list[int]]:
    return {name: hashes(table.column(name).combine_chunks()) for name in table.column_names}


EXPECTED = by_column(TABLE)


def test_parquet_and_arrow_files_keep_every_hash(tmp_path):
    pa.parquet.write_table(TABLE, tmp_path / "t.parquet", coerce_timestamps="us")
    assert by_column(pa.parquet.read_table(tmp_path / "t.parquet")) == EXPECTED


def test_duckdb_keeps_every_hash(tmp_path):
    with duckdb.connect(str(tmp_path / "t.duckdb")) as connection:
        connection.register("source", TABLE)
        connection.execute("CREATE TABLE t AS SELECT * FROM source")
        assert by_column(connection.sql("SELECT * FROM t").to_arrow_table()) == EXPECTED


def test_duckdb_hugeint_and_decimal_agree_with_integers():
    with duckdb.connect() as connection:
        table = connection.sql(
            "SELECT 7::HUGEINT AS h, 7::UHUGEINT AS u, 7.00::DECIMAL(9,2) AS d, 7::TINYINT AS t"
        ).to_arrow_table()
    assert {tuple(found) for found in by_column(table).values()} == {tuple(hashes([7]))}


def test_pandas_and_polars_keep_every_hash():
    assert by_column(pa.Table.from_pandas(TABLE.to_pandas())) == EXPECTED
    assert by_column(pl.from_arrow(TABLE).to_arrow()) == EXPECTED
    frame = pd.DataFrame({"whole": pd.Series(ROWS["whole"], dtype="float64")})  # pandas makes NaN of NULL
    assert by_column(pa.Table.from_pandas(frame))["whole"] == EXPECTED["whole"]


def test_csv_and_json_lines_keep_every_hash_of_typed_columns(tmp_path):
    rows = TABLE.select(["whole", "real", "text", "flag"]).to_pylist()
    (tmp_path / "t.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    (tmp_path / "t.csv").write_text(
        "whole,real,day,flag\n"
        + "\n".join(
            ",".join("" if v is None else str(v).lower() if isinstance(v, bool) else str(v) for v in row)
            for row in zip(*(ROWS[name] for name in ("whole", "real", "day", "flag")), strict=True)
        )
    )
    with duckdb.connect() as connection:
        json_lines = by_column(connection.sql(f"SELECT * FROM read_json('{tmp_path}/t.jsonl')").to_arrow_table())
        csv = by_column(connection.sql(f"SELECT * FROM read_csv('{tmp_path}/t.csv')").to_arrow_table())
    assert json_lines == {name: EXPECTED[name] for name in ("whole", "real", "text", "flag")}
    assert csv == {name: EXPECTED[name] for name in ("whole", "real", "day", "flag")}
    assert by_column(pa.csv.read_csv(tmp_path / "t.csv")) == csv
