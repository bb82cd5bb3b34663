"""Hierarchies: what files, rules and the data itself make of values, and what is refused."""

from __future__ import annotations

import datetime as dt
from itertools import pairwise

import pyarrow as pa
import pytest

from shoal import ShoalError, anonymity
from shoal.anonymity import Hierarchy


def labels(hierarchy, value):
    return [hierarchy.label(value, level) for level in range(hierarchy.levels)]


def test_intervals_name_whole_numbers_by_both_ends_and_others_half_open():
    ages = Hierarchy.intervals([5, 10], low=20, high=90)
    assert labels(ages, 34) == ["34", "[30, 34]", "[30, 39]", "*"]
    assert labels(ages, 19)[1:3] == ["< 20", "< 20"]
    assert labels(ages, 90)[1:3] == [">= 90", ">= 90"]
    assert labels(Hierarchy.intervals([0.5, 1]), 1.75) == ["1.75", "[1.5, 2)", "[1, 2)", "*"]
    assert labels(Hierarchy.intervals([10]), -3)[1] == "[-10, -1]"
    assert labels(Hierarchy.intervals([7], origin=4), dt.date(1970, 1, 13))[1] == "[1970-01-12, 1970-01-19)"
    assert len(ages.leaves) == 70


def test_dates_name_months_quarters_years_and_decades():
    born = Hierarchy.dates(["month", "quarter", "year", "decade"])
    assert labels(born, dt.date(1984, 2, 29)) == ["1984-02-29", "1984-02", "1984-Q1", "1984", "1980s", "*"]


def test_masks_replace_one_character_more_on_each_level():
    assert labels(Hierarchy.mask("right", 4), 4217) == ["4217", "421*", "42**", "4***", "*"]
    assert labels(Hierarchy.mask("left", 3), "abc") == ["abc", "*bc", "**c", "*"]


def test_groups_nest_and_a_star_is_the_top():
    places = Hierarchy.groups({"Europe": {"West": ["FR"], "East": ["PL"]}, "Asia": ["JP"], "*": ["XX"]})
    assert labels(places, "FR") == ["FR", "West", "Europe", "*"]
    assert labels(places, "JP") == ["JP", "Asia", "Asia", "*"]
    assert labels(places, "XX") == ["XX", "*", "*", "*"]


def test_an_order_puts_neighbours_together():
    sizes = Hierarchy.order(["S", "M", "L", "XL", "XXL"], sizes=[2, 4])
    assert labels(sizes, "M") == ["M", "S .. M", "S .. XL", "*"]
    assert labels(sizes, "XXL") == ["XXL", "XXL", "XXL", "*"]


def test_null_stays_itself_up_to_the_top():
    assert labels(Hierarchy.intervals([5]), None) == [None, None, "*"]


@pytest.mark.parametrize(
    ("column", "value", "expected"),
    [
        (pa.array(range(100)), 34, ["34", "[30, 34]", "[30, 39]", "[0, 49]", "*"]),
        (pa.array([0.1, 0.2, 0.35, 0.9]), 0.35, ["0.35", "[0, 0.5)", "*"]),
        (pa.array([-5, 0, 5]), -5, ["-5", "[-10, -1]", "*"]),
        (pa.array(["1234", "5678"]), "1234", ["1234", "123*", "12**", "1***", "*"]),
        (pa.array(["a", "b", "c"]), "a", ["a", "*"]),
        (pa.array([1, 2]), 1, ["1", "*"]),
        (
            pa.array([dt.date(2020, 1, 1)]),
            dt.date(2020, 1, 1),
            ["2020-01-01", "2020-01", "2020-Q1", "2020", "2020s", "*"],
        ),
    ],
)
def test_automatic_hierarchies_invent_no_kinship(column, value, expected):
    assert labels(Hierarchy.auto(column), value) == expected


def test_automatic_intervals_halve_down_to_two():
    hierarchy = Hierarchy.auto(pa.array(range(1000)))
    counts = [len({hierarchy.label(value, level) for value in range(1000)}) for level in range(hierarchy.levels)]
    assert counts[0] == 1000
    assert counts[-2:] == [2, 1]
    assert all(few < many <= 5 * few for many, few in pairwise(counts))


@pytest.mark.parametrize("delimiter", [";", ",", "\t"])
def test_files_are_read_whatever_stands_between_the_labels(tmp_path, delimiter):
    (tmp_path / "h.csv").write_text(f'FR{delimiter}"We{delimiter}st"\nPL{delimiter}East\n', encoding="utf-8")
    hierarchy = Hierarchy.read(tmp_path / "h.csv")
    assert hierarchy.leaves == ("FR", "PL")
    assert labels(hierarchy, "FR") == ["FR", f"We{delimiter}st", "*"]


def test_what_was_written_is_read_again(tmp_path):
    hierarchy = Hierarchy.groups({"Europe": ["FR", "D;E"], "Asia": ["JP"]})
    hierarchy.write(tmp_path / "h.csv")
    again = Hierarchy.read(tmp_path / "h.csv")
    assert [labels(again, leaf) for leaf in again.leaves] == [labels(hierarchy, leaf) for leaf in hierarchy.leaves]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "empty"),
        ("a;x;*\nb;*\n", "Line 2"),
        ("a;x;*\na;y;*\n", "Line 2"),
        ("a;x;p;*\nb;x;q;*\n", "Line 2"),
    ],
)
def test_files_that_contradict_themselves_are_refused_with_their_line(tmp_path, content, said):
    (tmp_path / "h.csv").write_text(content, encoding="utf-8")
    with pytest.raises(ShoalError, match=said) as refused:
        Hierarchy.read(tmp_path / "h.csv")
    assert refused.value.code == "E_HIERARCHY"


@pytest.mark.parametrize(
    "make",
    [
        lambda: Hierarchy.intervals([5, 12]),
        lambda: Hierarchy.intervals([]),
        lambda: Hierarchy.intervals(["x"]),
        lambda: Hierarchy.intervals([5], low=9, high=3),
        lambda: Hierarchy.dates(["year", "month"]),
        lambda: Hierarchy.dates(["fortnight"]),
        lambda: Hierarchy.mask("middle"),
        lambda: Hierarchy.mask("right", 0),
        lambda: Hierarchy.groups({}),
        lambda: Hierarchy.groups({"a": ["x"], "b": ["x"]}),
        lambda: Hierarchy.order(["a", "b"], sizes=[2, 3]),
        lambda: Hierarchy.order(["a", "a"]),
        lambda: Hierarchy.read("/no/such/file"),
        lambda: Hierarchy.of(5),
    ],
)
def test_wrong_rules_are_refused(make):
    with pytest.raises(ShoalError, match="E_HIERARCHY"):
        make()


def test_a_folder_has_files_by_column_and_rules_in_toml(tmp_path):
    (tmp_path / "adult_hierarchy_sex.csv").write_text("F;*\nM;*\n", encoding="utf-8")
    (tmp_path / "hierarchies.toml").write_text(
        '[age]\nintervals = [5, 10]\n[zip]\nmask = "right"\n[born]\ndates = ["year"]\n[income]\norder = 8\n',
        encoding="utf-8",
    )
    table = pa.table(
        {
            "sex": ["F", "M"],
            "age": [31, 38],
            "zip": ["4217", "4299"],
            "born": [dt.date(1990, 1, 2), dt.date(1990, 5, 5)],
            "income": [1, 2],
        }
    )
    found = anonymity.enforce(table, table.column_names, k=2, hierarchies=tmp_path)
    assert (
        found.to_arrow().to_pylist()
        == [{"sex": "*", "age": "[30, 39]", "zip": "42**", "born": "1990", "income": "1 .. 2"}] * 2
    )


@pytest.mark.parametrize(
    "content",
    ["age = 5", "[age]\n", "[age]\nintervals = 5", "[age]\nintervals = [5]\nmask = 'right'", "[age]\nwidth = 5", "["],
)
def test_wrong_toml_is_refused(tmp_path, content):
    (tmp_path / "h.toml").write_text(content, encoding="utf-8")
    with pytest.raises(ShoalError, match="E_HIERARCHY"):
        anonymity.enforce(pa.table({"age": [1, 2]}), "age", k=2, hierarchies=tmp_path / "h.toml")


def test_values_that_a_hierarchy_lacks_are_counted_and_never_named():
    with pytest.raises(ShoalError) as refused:
        anonymity.enforce(pa.table({"a": ["x", "secret", "hidden"]}), "a", k=2, hierarchies={"a": {"g": ["x"]}})
    assert refused.value.code == "E_HIERARCHY"
    assert "lacks 2 of" in refused.value.message
    assert "secret" not in str(refused.value)


def test_a_rule_that_does_not_fit_the_values_says_how_many():
    with pytest.raises(ShoalError, match="does not fit 1 of") as refused:
        anonymity.enforce(pa.table({"a": ["3", "secret"]}), "a", k=2, hierarchies={"a": Hierarchy.intervals([5])})
    assert "secret" not in str(refused.value)


def test_a_hierarchy_for_a_column_nobody_recodes_is_refused():
    with pytest.raises(ShoalError, match="E_HIERARCHY"):
        anonymity.enforce(pa.table({"a": [1, 2]}), "a", k=2, hierarchies={"b": Hierarchy.intervals([5])})


def test_a_top_that_is_one_label_keeps_its_name_and_another_gets_a_star_above_it(tmp_path):
    (tmp_path / "a.csv").write_text("x;all\ny;all\n", encoding="utf-8")
    (tmp_path / "b.csv").write_text("x;p\ny;q\n", encoding="utf-8")
    assert labels(Hierarchy.read(tmp_path / "a.csv"), "x") == ["x", "all"]
    assert labels(Hierarchy.read(tmp_path / "b.csv"), "x") == ["x", "p", "*"]
    found = anonymity.enforce(pa.table({"a": ["x", "y"]}), "a", k=2, hierarchies={"a": tmp_path / "a.csv"})
    assert found.to_arrow().column("a").to_pylist() == ["all", "all"]
    found.transformation.save(tmp_path / "t.toml")
    again = anonymity.apply(pa.table({"a": ["x", "y"]}), tmp_path / "t.toml")
    assert again.to_arrow().equals(found.to_arrow())


def test_a_damaged_file_is_named_with_its_column(tmp_path):
    (tmp_path / "a.csv").write_text("x;*\nx;*\n", encoding="utf-8")
    with pytest.raises(ShoalError, match=r"Line 2 of the hierarchy of 'a' in 'a\.csv'"):
        anonymity.enforce(pa.table({"a": ["x", "x"]}), "a", k=2, hierarchies=tmp_path)


def test_intervals_with_both_limits_list_the_whole_numbers_between(tmp_path):
    Hierarchy.intervals([5, 10], low=30, high=40).write(tmp_path / "age.csv")
    lines = (tmp_path / "age.csv").read_text(encoding="utf-8").splitlines()
    assert (len(lines), lines[4]) == (10, "34;[30, 34];[30, 39];*")
