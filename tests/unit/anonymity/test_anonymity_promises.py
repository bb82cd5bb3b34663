"""What an anonymized table promises: columns, types, order, transformations, compositions, refusals."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal import ShoalError, anonymity
from shoal.anonymity import Hierarchy
from shoal.anonymity.searching.quality import kl_of_classes

PEOPLE = pa.table(
    {
        "uid": [1, 2, 3, 4, 5, 6],
        "zip": [4217, 4217, 4219, 1742, 1742, 1691],
        "age": [34, 34, 39, 75, 75, 77],
        "dx": ["flu", "cold", "flu", "flu", "cold", "HIV"],
        "note": ["a", "b", "c", "d", "e", "f"],
    }
)
LADDERS = {"zip": Hierarchy.intervals([10, 1000]), "age": Hierarchy.intervals([5, 10])}


def test_the_example_of_the_thesis():
    table = pa.table({"zip": [4217, 4217, 1742, 1691, 9755], "age": [34, 39, 75, 77, 13]})
    ladders = {"zip": Hierarchy.intervals([1000]), "age": Hierarchy.intervals([5, 10])}
    found = anonymity.enforce(table, ["zip", "age"], k=2, hierarchies=ladders, suppress=0.2)
    assert (found.levels, found.suppressed) == ({"zip": 1, "age": 2}, 1)
    assert found.to_arrow().to_pylist() == [
        {"zip": "[1000, 1999]", "age": "[70, 79]"},
        {"zip": "[1000, 1999]", "age": "[70, 79]"},
        {"zip": "[4000, 4999]", "age": "[30, 39]"},
        {"zip": "[4000, 4999]", "age": "[30, 39]"},
    ]


def test_columns_nobody_named_are_left_out_and_listed():
    found = anonymity.enforce(
        PEOPLE, ["zip", "age"], k=2, sensitive="dx", keep="note", owner="uid", hierarchies=LADDERS
    )
    assert found.to_arrow().column_names == ["zip", "age", "dx", "note"]
    assert found.left_out == ("uid",)
    assert anonymity.enforce(PEOPLE, "zip", k=2, hierarchies={"zip": LADDERS["zip"]}).left_out == (
        "uid",
        "age",
        "dx",
        "note",
    )


def test_a_column_at_level_0_keeps_its_type_and_others_are_text():
    table = pa.table({"a": pa.array([1, 1, 2, 2], pa.int32()), "b": [1, 2, 1, 2]})
    found = anonymity.enforce(table, ["a", "b"], k=2, hierarchies={"a": Hierarchy.flat(), "b": Hierarchy.flat()})
    assert [field.type for field in found.to_arrow().schema] == [pa.int32(), pa.string()]


def test_an_owner_that_is_kept_is_a_random_number_and_costs_what_profile_k_says():
    table = pa.table({"uid": ["x", "x", "y", "z", "z", "z"], "a": [1, 2, 1, 2, 1, 2]})
    found = anonymity.enforce(table, "a", k=2, owner="uid", keep_owner=True)
    published = found.to_arrow()
    assert published.column_names == ["a", "uid"]
    assert set(published.column("uid").to_pylist()) == {1, 2, 3}
    assert (found.after.k, found.after.profile_k) == (2, 1)


def test_owners_count_once_however_many_rows_they_have():
    three_times = pa.concat_tables([PEOPLE] * 3)
    once = anonymity.enforce(PEOPLE, ["zip", "age"], k=2, hierarchies=LADDERS)
    thrice = anonymity.enforce(three_times, ["zip", "age"], k=2, hierarchies=LADDERS, owner="uid")
    assert (thrice.levels, thrice.loss) == (once.levels, once.loss)
    assert anonymity.measure(three_times, ["zip", "age"]).k == 3
    assert anonymity.measure(three_times, ["zip", "age"], owner="uid").k == 1


def test_rows_suppressed_before_are_dropped_first_and_counted():
    table = pa.table({"a": ["x", "x", "*"], "b": ["y", "y", "*"]})
    found = anonymity.enforce(table, ["a", "b"], k=2)
    assert (found.suppressed, found.earlier, found.to_arrow().num_rows, found.loss) == (0, 1, 2, 0.0)


def test_finer_counts_the_rows_that_fail_at_one_level_less():
    found = anonymity.enforce(PEOPLE, ["zip", "age"], k=2, hierarchies=LADDERS)
    assert found.finer == {name: rows for name, rows in found.finer.items() if rows > 0}
    assert set(found.finer) == {name for name, level in found.levels.items() if level}


def test_a_search_that_is_stopped_says_how_far_from_the_best_it_may_be():
    table = pa.table(
        {name: [(i * p) % 17 for i in range(200)] for name, p in zip("abcdef", (3, 5, 7, 11, 13, 2), strict=True)}
    )
    found = anonymity.enforce(table, list("abcdef"), k=3, suppress=0.3, time_limit=0)
    assert found.optimal is False
    assert 0 <= found.bound <= found.loss
    best = anonymity.enforce(table, list("abcdef"), k=3, suppress=0.3)
    assert found.bound <= best.loss <= found.loss
    assert best.optimal
    assert best.bound == best.loss


def test_weights_decide_which_column_pays():
    table = pa.table({"a": [1, 1, 2, 2], "b": [1, 2, 1, 2]})
    assert anonymity.enforce(table, ["a", "b"], k=2, weights={"a": 2}).levels == {"a": 0, "b": 1}
    assert anonymity.enforce(table, ["a", "b"], k=2, weights={"b": 2}).levels == {"a": 1, "b": 0}


def test_demands_on_several_columns_may_differ():
    table = pa.table({"a": [1, 1, 2, 2], "s": list("xyxy"), "r": list("ppqq")})
    found = anonymity.enforce(table, "a", sensitive=["s", "r"], l={"s": 2})
    assert found.levels == {"a": 0}
    assert anonymity.enforce(table, "a", sensitive=["s", "r"], l=2).levels == {"a": 1}


def test_kullback_leibler_of_the_example():
    assert round(kl_of_classes([[4, 2], [1, 1]], [], [2, 2], 4), 6) == 0.042475


def test_a_table_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    found = anonymity.enforce(PEOPLE, ["zip", "age"], k=2, hierarchies=LADDERS)
    found.write(tmp_path / "out.parquet")
    assert pq.read_table(tmp_path / "out.parquet").equals(found.to_arrow())

    def full(*_args, **_kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pyarrow.parquet.write_table", full)
    with pytest.raises(ShoalError, match="No space left"):
        found.write(tmp_path / "other.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["out.parquet"]
    with pytest.raises(ShoalError, match="E_USAGE"):
        found.write(tmp_path / "out.txt")


# transformations


def test_a_transformation_is_applied_to_next_months_data(tmp_path):
    found = anonymity.enforce(PEOPLE, ["zip", "age"], k=2, hierarchies=LADDERS)
    found.transformation.save(tmp_path / "t.toml")
    later = pa.table({"zip": [4211, 4218, 9999], "age": [31, 39, 50]})
    with pytest.raises(ShoalError, match=r"suppress=0\.3334 would be enough") as refused:
        anonymity.apply(later, tmp_path / "t.toml")
    assert refused.value.code == "E_DEMANDS"
    made = anonymity.apply(later, tmp_path / "t.toml", suppress=0.4)
    assert (made.recoding, made.suppressed, made.after.k) == ("fixed", 1, 2)


def test_local_cuts_are_applied_to_values_between_and_drop_those_outside(tmp_path):
    table = pa.table({"age": [10, 12, 40, 52], "sex": ["f", "f", "m", "m"]})
    found = anonymity.enforce(table, ["age", "sex"], k=2, recoding="local")
    assert found.to_arrow().column("age").to_pylist()[0] == "[10, 12]"
    found.transformation.save(tmp_path / "t.toml")
    made = anonymity.apply(pa.table({"age": [11, 10, 99], "sex": ["f", "f", "m"]}), tmp_path / "t.toml", suppress=0.5)
    assert made.suppressed == 1
    assert made.to_arrow().to_pylist() == [{"age": "[10, 12]", "sex": "f"}] * 2


@pytest.mark.parametrize(
    "content", ["", "format = 2", "format = 1\nrecoding = 'global'", "[", "format = 1\nunknown = 3"]
)
def test_damaged_transformations_are_refused(tmp_path, content):
    (tmp_path / "t.toml").write_text(content, encoding="utf-8")
    with pytest.raises(ShoalError, match="E_USAGE"):
        anonymity.Transformation.read(tmp_path / "t.toml")


def test_two_recodings_that_are_2_anonymous_each_are_not_so_together():
    table = pa.table({"zip": [1, 1, 2, 2], "age": [1, 2, 1, 2], "dx": ["a", "b", "c", "d"]})
    flat = {"zip": Hierarchy.flat(), "age": Hierarchy.flat()}
    by_zip = anonymity.enforce(table, ["zip", "age"], k=2, hierarchies=flat, weights={"zip": 9}).transformation
    by_age = anonymity.enforce(table, ["zip", "age"], k=2, hierarchies=flat, weights={"age": 9}).transformation
    assert (by_zip.levels, by_age.levels) == ({"zip": 0, "age": 1}, {"zip": 1, "age": 0})
    found = anonymity.compose(table, [by_zip, by_age], sensitive="dx")
    assert (found.k, found.unique, found.sensitive["dx"].homogeneous) == (1, 4, 4)
    assert anonymity.compose(table, [by_zip, by_zip]).k == 2


def test_what_one_release_suppressed_shows_in_the_other():
    table = pa.table({"a": [1, 1, 2], "b": [1, 1, 1]})
    one = anonymity.enforce(table, "a", k=2, suppress=0.4, hierarchies={"a": Hierarchy.flat()}).transformation
    two = anonymity.enforce(table, "b", k=2).transformation
    found = anonymity.compose(table, [one, two])
    assert (found.rows, found.k) == (3, 1)


def test_numbers_that_are_none_are_values_of_their_own():
    table = pa.table({"x": [1.5, float("nan"), float("nan"), 2.5, None, None, float("inf"), float("inf")]})
    for recoding in ("global", "local"):
        made = anonymity.enforce(table, "x", k=2, recoding=recoding)
        assert made.after.k >= 2
        again = anonymity.apply(table, made.transformation)
        assert again.to_arrow().equals(made.to_arrow())


def test_frames_of_other_libraries_are_read_and_returned():
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    for frame in (pd.DataFrame({"a": [1, 1, 2]}), pl.DataFrame({"a": [1, 1, 2]}), pl.LazyFrame({"a": [1, 1, 2]})):
        made = anonymity.enforce(frame, "a", k=2, suppress=0.4, hierarchies={"a": Hierarchy.flat()})
        assert made.to_pandas()["a"].tolist() == made.to_polars()["a"].to_list() == [1, 1]


def test_more_recodings_than_fit_into_memory_end_with_a_gap():
    columns = {f"c{n}": [(row * (2 * n + 3)) % (11 + n) for row in range(300)] for n in range(14)}
    made = anonymity.enforce(pa.table(columns), list(columns), k=3, suppress=0.2, time_limit=0.5)
    assert made.lattice > 20_000_000
    assert made.after.k >= 3
    assert 0 <= made.bound <= made.loss


# refusals


def test_demands_that_nothing_meets_name_the_one_that_fails():
    with pytest.raises(ShoalError) as refused:
        anonymity.enforce(pa.table({"a": [1, 2]}), "a", k=3)
    assert refused.value.code == "E_DEMANDS"
    assert "at least 3 owners" in refused.value.message
    assert "No suppression would be enough" in str(refused.value.hint)


def test_the_suppression_that_would_suffice_is_said():
    table = pa.table({"a": ["x"] * 8 + ["y"] * 4, "s": list("pppppppp") + list("pqrs")})
    with pytest.raises(ShoalError, match=r"suppress=0\.6667 would be enough"):
        anonymity.enforce(table, "a", sensitive="s", recursive=(2, 2))
    found = anonymity.enforce(table, "a", sensitive="s", recursive=(2, 2), suppress=0.6667)
    assert found.suppressed == 8


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({}, "E_USAGE"),
        ({"k": 1}, "E_USAGE"),
        ({"k": 2, "suppress": 1.5}, "E_USAGE"),
        ({"k": 2, "suppress": -0.1}, "E_USAGE"),
        ({"k": 2, "suppress": float("nan")}, "E_USAGE"),
        ({"k": 2, "weights": {"zip": 0}}, "E_USAGE"),
        ({"k": 2, "weights": {"dx": 1}}, "E_USAGE"),
        ({"k": 2, "recoding": "none"}, "E_USAGE"),
        ({"k": 2, "quality": "none"}, "E_USAGE"),
        ({"k": 2, "keep_owner": True}, "E_USAGE"),
        ({"k": 2, "keep": "zip"}, "E_USAGE"),
        ({"k": 2, "owner": "zip"}, "E_USAGE"),
        ({"k": 2, "time_limit": -1}, "E_USAGE"),
        ({"l": 2}, "E_USAGE"),
        ({"t": 1.5, "sensitive": "dx"}, "E_USAGE"),
        ({"k_map": 5}, "E_USAGE"),
        ({"presence": (0.5, 0.1), "population": PEOPLE}, "E_USAGE"),
        ({"presence": 0.5, "population": PEOPLE.slice(1)}, "E_USAGE"),
        ({"k": 2, "sensitive": "nothing"}, "E_UNKNOWN_COLUMN"),
        ({"k": 2, "table": "nothing"}, "E_UNKNOWN_TABLE"),
    ],
)
def test_wrong_arguments_are_refused(options, code):
    with pytest.raises(ShoalError) as refused:
        anonymity.enforce(PEOPLE, "zip", **options)
    assert refused.value.code == code


def test_an_empty_table_is_refused():
    with pytest.raises(ShoalError, match="E_DEMANDS"):
        anonymity.enforce(pa.table({"a": pa.array([], pa.int64())}), "a", k=2)


# policies


def test_a_policy_holds_tables_to_limits(tmp_path):
    (tmp_path / "p.toml").write_text(
        '[[anonymity]]\ntable = "people"\nquasi = ["zip"]\nk = 2\nmax_share_below_k = 0.5\nmax_risk = 1\n'
        '[[anonymity]]\ntable = "pe*"\nquasi = ["zip"]\nsensitive = "dx"\nl = 2\n'
        '[[anonymity]]\ntable = "nobody"\nquasi = ["zip"]\nk = 2\n',
        encoding="utf-8",
    )
    verdict = anonymity.check({"people": PEOPLE}, tmp_path / "p.toml")
    assert [finding.broken for finding in verdict.findings] == [False, False, True, True]
    assert "No table matches nobody" in verdict.findings[-1].sentence
    assert not verdict.passed


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[other]\nk = 2",
        "[[anonymity]]\nquasi = ['a']",
        "[[anonymity]]\nk = 2",
        "[[anonymity]]\nquasi = ['a']\nk = 2\ntypo = 3",
        "[[anonymity]]\nquasi = ['a']\nmax_share_below_k = 0.1",
        "[[anonymity]]\nquasi = ['a']\nk = 2\nmax_risk = 3",
        "[[anonymity]]\nquasi = 5\nk = 2",
    ],
)
def test_policies_that_are_not_understood_are_refused(tmp_path, content):
    (tmp_path / "p.toml").write_text(content, encoding="utf-8")
    with pytest.raises(ShoalError, match="E_USAGE"):
        anonymity.read_policy(tmp_path / "p.toml")
