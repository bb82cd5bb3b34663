"""The catalog: what a custodian says, read strictly."""

from __future__ import annotations

from fractions import Fraction

import pytest

import shoal
from shoal.catalog import Catalog, ColumnFacts, Defaults, fold

VISITS = {"tables": {"visits": {"owner": "uid"}}}


def refused(data: object) -> shoal.ShoalError:
    with pytest.raises(shoal.ShoalError) as caught:
        Catalog.load(data)
    assert caught.value.code == "E_CATALOG"
    return caught.value


def test_a_catalog_comes_from_a_dict_a_file_or_itself(tmp_path):
    path = tmp_path / "shoal.toml"
    path.write_text(
        '[tables.visits]\nowner = "uid"\n[tables.visits.columns.spend]\nbounds = [0, 0.1]\n[defaults]\nepsilon = 0.1\n'
    )
    from_file = Catalog.load(path)
    assert Catalog.load(str(path)) == from_file
    assert Catalog.load(from_file) is from_file
    assert from_file.table("VISITS").owner == "uid"
    assert from_file.table("visits").facts("Spend").bounds == (0, Fraction(1, 10))  # exact: no float stands between
    assert from_file.defaults.epsilon == Fraction(1, 10)
    assert from_file.table("nothing") is None


def test_the_whole_of_a_catalog_is_read():
    catalog = Catalog.from_dict(
        {
            "tables": {
                "visits": {
                    "owner": "uid",
                    "owner_kind": "customer",
                    "max_rows_per_owner_and_group": 20,
                    "columns": {"spend": {"bounds": [0, 500]}, "site": {"values": ["a", None], "type": "VARCHAR"}},
                },
                "orders": {"owner": "uid", "view": "SELECT 1 AS uid"},
                "regions": {"public": True},
            },
            "defaults": {
                "epsilon": 1,
                "delta": 1e-6,
                "max_groups_per_owner": 5,
                "population": 1000,
                "max_epsilon_per_query": 2,
            },
        }
    )
    visits, orders, regions = catalog.tables.values()
    assert (visits.owner_kind, visits.max_rows_per_owner_and_group, visits.public) == ("customer", 20, False)
    assert visits.facts("site") == ColumnFacts(values=("a", None), type="VARCHAR")
    assert visits.facts("unknown") == ColumnFacts()
    assert (orders.view, orders.owner_kind) == ("SELECT 1 AS uid", "uid")
    assert regions.public
    assert catalog.defaults == Defaults(Fraction(1), Fraction(1, 10**6), 5, 1000, Fraction(2))


def test_delta_defaults_to_what_the_population_allows_and_never_comes_from_the_data():
    assert Defaults(population=150_000).default_delta == Fraction(1, 15_000_000)
    assert Defaults(population=10).default_delta == Fraction(1, 10**6)
    assert Defaults(delta=Fraction(1, 7), population=10).default_delta == Fraction(1, 7)
    assert Defaults().default_delta is None
    assert not Defaults().answers_plain_sql
    assert Defaults(epsilon=Fraction(1)).answers_plain_sql


def test_versions_of_a_catalog_differ_when_it_does():
    versions = {Catalog.from_dict(VISITS).version, Catalog.from_dict({"tables": {"visits": {"owner": "id"}}}).version}
    assert len(versions) == 2
    assert Catalog.from_dict(VISITS).version == Catalog.from_dict(VISITS).version


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (7, "a dict"),
        ([], "a dict"),
        ({}, "names no tables"),
        ({"tables": []}, "names no tables"),
        ({"table": {}}, "The catalog has the unknown key 'table'"),
        ({"tables": {"visits": 7}}, "a section"),
        ({"tables": {"visits": {}}}, "either owner"),
        ({"tables": {"visits": {"owner": "uid", "public": True}}}, "either owner"),
        ({"tables": {"visits": {"public": False}}}, "either owner"),
        ({"tables": {"visits": {"public": "yes"}}}, "true or false"),
        ({"tables": {"visits": {"owner": ""}}}, "name of a column"),
        ({"tables": {"visits": {"owner": 7}}}, "name of a column"),
        ({"tables": {"visits": {"owner": "uid", "onwer": "x"}}}, "onwer"),
        ({"tables": {"visits": {"owner": "uid", "view": 7}}}, "must be strings"),
        ({"tables": {"visits": {"owner": "uid", "owner_kind": 7}}}, "must be strings"),
        ({"tables": {"visits": {"owner": "uid", "max_rows_per_owner_and_group": 0}}}, "whole number"),
        ({"tables": {"visits": {"owner": "uid", "max_rows_per_owner_and_group": 2.5}}}, "whole number"),
        ({"tables": {"visits": {"owner": "uid", "max_rows_per_owner_and_group": True}}}, "whole number"),
        ({"tables": {"visits": {"owner": "uid"}, "VISITS": {"owner": "uid"}}}, "twice"),
        ({"tables": {"visits": {"owner": "uid", "columns": {"x": {"bound": [0, 1]}}}}}, "unknown key 'bound'"),
        ({"tables": {"visits": {"owner": "uid", "columns": {"x": {"bounds": [1, 0]}}}}}, "lower ≤ upper"),
        ({"tables": {"visits": {"owner": "uid", "columns": {"x": {"bounds": [0]}}}}}, "two finite numbers"),
        (
            {"tables": {"visits": {"owner": "uid", "columns": {"x": {"bounds": [0, float("nan")]}}}}},
            "two finite numbers",
        ),
        (
            {"tables": {"visits": {"owner": "uid", "columns": {"x": {"bounds": [0, float("inf")]}}}}},
            "two finite numbers",
        ),
        ({"tables": {"visits": {"owner": "uid", "columns": {"x": {"bounds": ["a", "b"]}}}}}, "two finite numbers"),
        ({"tables": {"visits": {"owner": "uid", "columns": {"x": {"values": "abc"}}}}}, "a list"),
        (
            {"tables": {"visits": {"owner": "uid", "columns": {"x": {"values": list(range(100_001))}}}}},
            "at most 100000",
        ),
        ({"tables": {"visits": {"owner": "uid", "columns": 7}}}, "columns"),
        (VISITS | {"defaults": {"epsilon": 0}}, "defaults.epsilon"),
        (VISITS | {"defaults": {"epsilon": "one"}}, "defaults.epsilon"),
        (VISITS | {"defaults": {"epsilon": True}}, "defaults.epsilon"),
        (VISITS | {"defaults": {"delta": 0.5}}, "defaults.delta"),
        (VISITS | {"defaults": {"max_groups_per_owner": 0}}, "defaults.max_groups_per_owner"),
        (VISITS | {"defaults": {"population": 1.5}}, "defaults.population"),
        (VISITS | {"defaults": {"max_epsilon_per_query": -1}}, "defaults.max_epsilon_per_query"),
        (VISITS | {"defaults": {"epsilon": 3, "max_epsilon_per_query": 2}}, "above"),
        (VISITS | {"defaults": {"min_epsilon_per_query": 3, "max_epsilon_per_query": 2}}, "above"),
        (VISITS | {"defaults": {"min_epsilon_per_query": 3, "epsilon": 2}}, "above"),
        (VISITS | {"defaults": {"min_epsilon_per_query": 0}}, "defaults.min_epsilon_per_query"),
        (VISITS | {"defaults": {"eps": 3}}, "unknown key 'eps'"),
        (VISITS | {"defaults": 7}, "a section"),
    ],
)
def test_what_contradicts_itself_or_is_not_known_is_refused(data, words):
    assert words in refused(data).message


def test_files_that_are_no_catalogs_are_refused(tmp_path):
    assert "cannot be read" in refused(tmp_path / "missing.toml").message
    (tmp_path / "bad.toml").write_text("tables = [")
    assert "not valid TOML" in refused(tmp_path / "bad.toml").message
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    refused(tmp_path / "bytes.toml")


def test_names_are_compared_without_case_in_ascii_only():
    assert fold("Visits_2") == "visits_2"
    assert fold("ÄÖİ") == "ÄÖİ"
