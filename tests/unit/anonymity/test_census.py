"""A census of a few thousand rows: the search against every recoding of its lattice, one by one."""

from __future__ import annotations

from itertools import product

import look_alike
import numpy as np
import pytest

from shoal import anonymity

Q7 = look_alike.NAMES[:7]


@pytest.fixture(scope="module")
def table():
    return look_alike.census()


@pytest.fixture(scope="module")
def folder(tmp_path_factory, table):
    path = tmp_path_factory.mktemp("census")
    look_alike.write(path, table)
    return path


@pytest.fixture(scope="module")
def all_classes(table):
    """For every recoding of seven columns: the class of each row, and the loss of each row, by plain NumPy."""
    labels, losses = [], []
    for column in Q7:
        lines = {line[0]: line for line in look_alike.lines(column)}
        texts = [str(value) for value in table.column(column).to_pylist()]
        height = len(next(iter(lines.values())))
        labels.append([np.unique([lines[t][level] for t in texts], return_inverse=True)[1] for level in range(height)])
        sizes = [{label: sum(line[level] == label for line in lines.values()) for label in {line[level] for line in lines.values()}}
                 for level in range(height)]  # fmt: skip
        losses.append(
            [
                np.array([(sizes[level][lines[t][level]] - 1) / (len(lines) - 1) for t in texts])
                for level in range(height)
            ]
        )
    return labels, losses


def best_of_all(all_classes, rows, k, limit):
    labels, losses = all_classes
    best = None
    for levels in product(*(range(len(column)) for column in labels)):
        key = np.zeros(rows, dtype=np.int64)
        for column, level in zip(labels, levels, strict=True):
            key = key * 128 + column[level]
        _, place, counts = np.unique(key, return_inverse=True, return_counts=True)
        gone = counts[place] < k
        if gone.sum() > limit or gone.all():
            continue
        each = np.mean([column[level] for column, level in zip(losses, levels, strict=True)], axis=0)
        found = (round(float(np.where(gone, 1.0, each).mean()), 12), int(gone.sum()), levels)
        best = found if best is None else min(best, found)
    return best


@pytest.mark.slow
@pytest.mark.parametrize(("k", "suppress"), [(3, 0.0), (5, 0.05), (10, 1.0)])
def test_the_search_finds_the_best_of_two_thousand_recodings_and_looks_at_few(table, folder, all_classes, k, suppress):
    expected = best_of_all(all_classes, table.num_rows, k, int(suppress * table.num_rows))
    found = anonymity.enforce(table, list(Q7), k=k, suppress=suppress, hierarchies=folder)
    assert (round(found.loss, 12), found.suppressed, tuple(found.levels.values())) == expected
    assert found.optimal
    assert found.lattice == 2160
    assert found.checked < 1000


def test_every_demand_at_once_holds_in_the_output(table, folder):
    made = anonymity.enforce(
        folder / "adult_subset.csv", list(Q7), k=2, l=2, t=0.9, k_map=4, presence=0.9, sensitive="occupation",
        population=folder / "adult.csv", suppress=0.2, hierarchies=folder, keep="salary-class",
    )  # fmt: skip
    assert made.after.check(k=2, l=2, t=0.9, k_map=4, presence=0.9).passed
    assert made.suppressed <= 40
    assert made.to_arrow().column_names == [*Q7, "occupation", "salary-class"]


def test_local_recoding_loses_far_less_than_the_best_levels(table, folder):
    best = anonymity.enforce(table, list(Q7), k=5, hierarchies=folder)
    local = anonymity.enforce(table, list(Q7), k=5, hierarchies=folder, recoding="local")
    assert local.loss < best.loss / 3
    assert local.after.k >= 5


def test_one_owner_with_three_copies_of_each_row_changes_nothing(table, folder):
    import pyarrow as pa

    once = anonymity.enforce(table, list(Q7), k=5, suppress=0.05, hierarchies=folder)
    owned = pa.concat_tables([table.append_column("owner", pa.array(range(table.num_rows)))] * 3)
    thrice = anonymity.enforce(owned, list(Q7), k=5, suppress=0.05, hierarchies=folder, owner="owner")
    assert (thrice.levels, thrice.loss, thrice.suppressed) == (once.levels, once.loss, 3 * once.suppressed)
    assert anonymity.measure(owned, list(Q7)).k == 3


def test_a_source_in_a_database_a_file_and_a_frame_is_the_same_table(tmp_path, table):
    import duckdb
    import pyarrow.parquet as pq

    pq.write_table(table, tmp_path / "census.parquet")
    with duckdb.connect(str(tmp_path / "census.duckdb")) as connection:
        connection.execute(f"CREATE TABLE census AS FROM '{tmp_path / 'census.parquet'}'")
    options = {"quasi": ["sex", "age", "race"], "k": 3, "sensitive": "occupation", "suppress": 0.05}
    made = [
        anonymity.enforce(source, **options).to_arrow()
        for source in (table, {"census": table}, tmp_path / "census.parquet", tmp_path / "census.duckdb")
    ]
    assert all(other.equals(made[0]) for other in made[1:])
