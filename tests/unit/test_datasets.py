from __future__ import annotations

import tomllib

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from shoal import datasets


@pytest.fixture(scope="module")
def tables():
    return datasets.shop()


def test_the_same_seed_gives_the_same_tables_and_another_seed_does_not():
    assert datasets.shop(500, seed=3) == datasets.shop(500, seed=3)
    assert datasets.shop(500, seed=3)["visits"] != datasets.shop(500, seed=4)["visits"]


def test_the_shop_is_made_in_less_than_five_seconds(tmp_path, quickest):
    assert quickest(lambda: datasets.write_shop(tmp_path), below=5) < 5


def test_the_schema_is_the_documented_one(tables):
    assert tables["customers"].schema.equals(
        pa.schema({"uid": pa.int64(), "region": pa.string(), "age": pa.int32(), "income": pa.float64()})
    )
    assert tables["visits"].schema.equals(
        pa.schema({"uid": pa.int64(), "site": pa.string(), "day": pa.date32(), "spend": pa.float64()})
    )
    assert tables["regions"].schema.equals(pa.schema({"region": pa.string(), "continent": pa.string()}))


def test_owners_have_many_rows_and_unevenly(tables):
    per_owner = np.bincount(tables["visits"]["uid"].to_numpy())[1:]
    assert per_owner.min() >= 1
    assert np.median(per_owner) < 8
    assert per_owner.max() > 100 * np.median(per_owner)


def test_every_visit_belongs_to_a_customer(tables):
    assert pc.all(pc.is_in(tables["visits"]["uid"], value_set=tables["customers"]["uid"])).as_py()


def test_exactly_one_customer_visited_the_singled_out_site(tables):
    visits = tables["visits"]
    there = visits.filter(pc.equal(visits["site"], datasets.SINGLED_OUT_SITE))
    assert there.num_rows == 3
    assert pc.count_distinct(there["uid"]).as_py() == 1


def test_the_catalog_is_toml_and_names_every_table(tables):
    catalog = tomllib.loads(datasets.SHOP_CATALOG)
    assert set(catalog["tables"]) == set(tables)


def test_a_written_shop_can_be_read_back(tmp_path, tables):
    datasets.write_shop(tmp_path / "new folder", tables)
    for name, table in tables.items():
        assert pq.read_table(tmp_path / "new folder" / "data" / f"{name}.parquet") == table
    assert (tmp_path / "new folder" / "shoal.toml").read_text(encoding="utf-8") == datasets.SHOP_CATALOG
