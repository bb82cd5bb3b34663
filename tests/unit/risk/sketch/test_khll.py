from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.errors import ShoalError
from shoal.risk import Sketch, UnkeyedSketchWarning

KEY = b"0123456789abcdef"


def sketch_of(values, owners=None, **options) -> Sketch:
    sketch = Sketch(key=KEY, **options)
    sketch.update(values, owners)
    return sketch


def data(name: str, rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    values = {
        "unique": lambda: rng.permutation(rows),
        "two": lambda: rng.integers(0, 2, rows),
        "zipf": lambda: rng.zipf(1.3, rows) % 10**9,
        "uniform": lambda: rng.integers(0, rows // 30, rows),
        "texts": lambda: rng.integers(0, rows // 3, rows).astype(str),
    }[name]()
    return values, rng.integers(0, rows // 4, rows)


KINDS = ["unique", "two", "zipf", "uniform", "texts"]


def test_counts_are_exact_while_nothing_is_sampled():
    sketch = sketch_of(["a", "a", "a", "b", None, None], [1, 2, 2, 1, 3, None])
    assert sketch.rows == 5
    assert sketch.distinct_values().to_dict() == {"value": 3, "low": 3, "high": 3}
    assert sketch.owners().value == 3
    assert sketch.share_below(2).value == 2 / 3
    assert sketch.share_below(2, of="rows").value == 2 / 5
    assert sketch.share_below(2, of="owners").value == 2 / 3
    assert sketch.share_below(3).exact


def test_without_owners_every_row_is_one():
    sketch = sketch_of(["a", "a", "b"])
    assert sketch.owners().value == 3
    assert sketch.share_below(2).value == 0.5
    assert sketch.share_below(2, of="owners").value == sketch.share_below(2, of="rows").value == 1 / 3


@pytest.mark.parametrize("kind", KINDS)
def test_a_hundred_shards_in_any_order_give_the_bytes_of_one_pass(kind):
    values, owners = data(kind, 30_000)
    whole = sketch_of(values, owners, k=256, m=64).to_bytes()
    for seed in range(2):
        rng = np.random.default_rng(seed)
        of_shard = rng.integers(0, 100, len(values))
        shards = [sketch_of(values[of_shard == n], owners[of_shard == n], k=256, m=64) for n in range(100)]
        merged = Sketch(256, 64, key=KEY)
        for n in rng.permutation(100):
            merged.merge(Sketch.from_bytes(shards[n].to_bytes()))
        assert merged.to_bytes() == whole


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 30)), min_size=1, max_size=300),
    st.integers(1, 300),
    st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_batches_of_any_size_give_the_same_bytes(rows, size, owned):
    values, owners = np.array([v for v, _ in rows]), np.array([o for _, o in rows])
    whole = sketch_of(values, owners if owned else None, k=16, m=16)
    parts = Sketch(16, 16, key=KEY)
    for start in range(0, len(rows), size):
        parts.update(values[start : start + size], owners[start : start + size] if owned else None)
    assert parts.to_bytes() == whole.to_bytes()


@given(st.lists(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 30)), max_size=60), min_size=3, max_size=3))
@settings(max_examples=40, deadline=None)
def test_merging_is_commutative_and_associative(parts):
    def made(place: int, salt: int = 0) -> Sketch:
        # Each shard has owners of its own, so that no two are the same shard, whichever values the sketch keeps.
        values = [v for v, _ in parts[place]] + [1_000 + place + salt]
        owners = [o + 1_000 * place for _, o in parts[place]] + [999 + 1_000 * place]
        return sketch_of(values, owners, k=16, m=16)

    left = made(0).merge(made(1)).merge(made(2)).to_bytes()
    right = made(0).merge(made(1).merge(made(2))).to_bytes()
    turned = made(2).merge(made(0)).merge(made(1)).to_bytes()
    assert left == right == turned


@pytest.mark.parametrize("kind", KINDS)
def test_merging_a_sketch_with_itself_changes_nothing(kind):
    sketch = sketch_of(*data(kind, 5_000), k=64, m=32)
    before = sketch.to_bytes()
    assert sketch.merge(sketch).to_bytes() == before
    assert sketch.merge(Sketch.from_bytes(before)).to_bytes() == before


def test_overlapping_shards_leave_values_and_owners_as_they_are():
    """Rows are counted and add; everything else is a set."""
    values, owners = data("zipf", 5_000)
    whole, part = sketch_of(values, owners, k=64, m=32), sketch_of(values[:100], owners[:100], k=64, m=32)
    again = Sketch.from_bytes(whole.to_bytes()).merge(part)
    assert again.distinct_values() == whole.distinct_values()
    assert again.share_below(5) == whole.share_below(5)
    assert again.owners() == whole.owners()
    assert again.rows == whole.rows + 100


def test_all_kinds_of_input_give_the_same_sketch():
    values, owners = [3, 1, None, 2, 3], ["a", "b", "c", "d", "e"]
    expected = sketch_of(values, owners).to_bytes()
    table = pa.table({"v": values, "o": owners})
    chunked = pa.chunked_array([[3, 1], [None, 2, 3]])
    assert sketch_of(table.column("v"), table.column("o")).to_bytes() == expected
    assert sketch_of(chunked, owners).to_bytes() == expected
    assert sketch_of(pl.Series(values), pl.Series(owners)).to_bytes() == expected
    assert sketch_of(pd.Series(values, dtype="Int32"), pd.Series(owners)).to_bytes() == expected
    assert sketch_of(pd.Series(values), np.array(owners)).to_bytes() == expected
    assert sketch_of(np.array([3.0, 1.0, np.nan, 2.0, 3.0]), owners).to_bytes() == expected


def test_sliced_and_dictionary_arrays_are_read_at_their_place():
    values = pa.array(["x", "a", "b", None, "a", "y"]).dictionary_encode().slice(1, 4)
    assert sketch_of(values, [1, 2, 3, 4]).to_bytes() == sketch_of(["a", "b", None, "a"], [1, 2, 3, 4]).to_bytes()


def test_a_combination_is_a_value():
    sketch = Sketch(key=KEY)
    sketch.update_combination([["a", "ab", None], ["bc", "c", None]], [1, 2, 3])
    assert sketch.distinct_values().value == 3
    with pytest.raises(ShoalError):
        sketch.update_combination([["a"]], [1])


def test_an_unkeyed_sketch_warns_and_a_keyed_one_does_not():
    with pytest.warns(UnkeyedSketchWarning, match="whoever holds it"):
        Sketch(key=None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Sketch(key=KEY)
        Sketch()


def test_without_a_key_the_process_has_one():
    first, second = Sketch(), Sketch()
    assert first.key_id == second.key_id is not None
    first.update(["a"], [1])
    second.update(["a"], [2])
    assert first.merge(second).distinct_values().value == 1


def test_only_sketches_merge():
    with pytest.raises(ShoalError):
        sketch_of([1], [1]).merge(b"not a sketch")


def test_sketches_under_different_keys_refuse_to_merge():
    with pytest.raises(ShoalError) as caught:
        sketch_of([1], [1]).merge(Sketch(key=b"another key"))
    assert caught.value.code == "E_SKETCH"


def test_keyed_and_unkeyed_refuse_to_merge():
    with pytest.warns(UnkeyedSketchWarning):
        unkeyed = Sketch(key=None)
    with pytest.raises(ShoalError, match="keys"):
        unkeyed.merge(Sketch(key=KEY))


def test_the_key_is_not_in_the_bytes_and_hashes_depend_on_it():
    one = sketch_of(["a"], [1])
    other = Sketch(key=b"another key")
    other.update(["a"], [1])
    assert KEY not in one.to_bytes()
    assert one.hashes[0] != other.hashes[0]
    assert one.key_id in repr(one)
    assert KEY.decode() not in repr(one)


def test_owners_hash_under_another_key_than_values():
    sketch = sketch_of(["ann"], ["ann"])
    assert sketch.owners_of_value.settle() is None
    assert sketch.owners_of_value.list_owners[0] != sketch.hashes[0]


def test_different_sizes_refuse_to_merge():
    with pytest.raises(ShoalError, match="sizes"):
        sketch_of([1], [1]).merge(Sketch(k=1024, key=KEY))


def test_rows_and_owners_refuse_to_mix():
    sketch = sketch_of([1], [1])
    with pytest.raises(ShoalError):
        sketch.update([1])
    with pytest.raises(ShoalError):
        sketch.merge(sketch_of([2]))
    assert sketch.merge(Sketch(key=KEY)).rows == 1


@pytest.mark.parametrize(
    "sizes", [(8, 512), (2**21, 512), (2048, 500), (2048, 8), (2048, 2**17), (2.5, 512), (True, 512)]
)
def test_impossible_sizes_are_refused(sizes):
    with pytest.raises(ShoalError) as caught:
        Sketch(*sizes, key=KEY)
    assert caught.value.code == "E_USAGE"


@pytest.mark.parametrize("key", [b"", "text", 7])
def test_impossible_keys_are_refused(key):
    with pytest.raises(ShoalError):
        Sketch(key=key)


def test_lengths_must_agree_and_values_be_of_one_type():
    sketch = Sketch(key=KEY)
    with pytest.raises(ShoalError, match="lengths"):
        sketch.update([1, 2], [1])
    with pytest.raises(ShoalError, match="one type"):
        sketch.update([1, "a"], [1, 2])
    assert sketch.rows == 0


@pytest.mark.parametrize("k", [0, -1, 2.5, True, "5"])
def test_a_threshold_is_a_whole_number(k):
    with pytest.raises(ShoalError):
        sketch_of([1], [1]).share_below(k)


def test_a_share_is_of_something_known():
    with pytest.raises(ShoalError):
        sketch_of([1], [1]).share_below(2, of="people")


def test_an_empty_sketch_has_measures():
    sketch = Sketch(key=KEY)
    assert sketch.distinct_values().value == 0
    assert sketch.share_below(5).value == 0
    assert sketch.owners().value == 0
    assert sketch.to_dict()["rows"] == 0
    assert Sketch.from_bytes(sketch.to_bytes()).to_bytes() == sketch.to_bytes()
    sketch.update([], [])
    assert sketch.distinct_values().value == 0


def test_a_sketch_read_without_its_key_can_be_merged_but_not_updated():
    packed = sketch_of([1], [1]).to_bytes()
    read = Sketch.from_bytes(packed)
    with pytest.raises(ShoalError, match="without its key"):
        read.update([2], [2])
    with pytest.raises(ShoalError, match="another key"):
        Sketch.from_bytes(packed, key=b"wrong")
    keyed = Sketch.from_bytes(packed, key=KEY)
    keyed.update([2], [2])
    assert read.merge(sketch_of([2], [2])).to_bytes() == keyed.to_bytes()


def test_the_sample_holds_the_smallest_hashes_and_all_their_rows():
    values, owners = data("uniform", 20_000)
    sketch = sketch_of(values, owners, k=64, m=32)
    everything = sketch_of(values, owners, k=4096, m=32)
    assert (sketch.hashes == everything.hashes[:64]).all()
    assert (sketch.rows_of_value == everything.rows_of_value[:64]).all()
    assert (sketch.shapes == everything.shapes[:64]).all()
    assert sketch.rows == everything.rows == 20_000


def test_memory_stays_within_the_registers_whatever_the_rows():
    values, owners = data("uniform", 200_000)
    sketch = sketch_of(values % 500, owners, k=256, m=256)
    assert len(sketch.to_bytes()) <= 256 * 256 + 256 * 20 + 4096 + 200


def test_to_dict_tells_people_everything_but_hashes():
    sketch = sketch_of(*data("zipf", 5_000), k=64)
    told = sketch.to_dict()
    assert told["k"] == 64
    assert told["key_id"] == sketch.key_id
    assert set(told["below"]) == {"2", "5", "10", "50", "100"}
    assert not any(str(int(hashed)) in repr(told) for hashed in sketch.hashes)
