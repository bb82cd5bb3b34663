"""Recodings against a brute force over the whole lattice, and promises kept in the output."""

from __future__ import annotations

import brute
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal import ShoalError, anonymity
from shoal.anonymity import Hierarchy

GROUPS = {"low": {"x": ["0", "1"], "y": ["2"]}, "high": {"z": ["3", "4"]}}
A = Hierarchy.groups(GROUPS)
B = Hierarchy.intervals([2, 4])
SCHEMA = pa.schema([("a", pa.string()), ("b", pa.int64()), ("s", pa.int64()), ("owner", pa.int64())])


def ladders_of(rows):
    """The same hierarchies as dicts: column → level → value → label."""
    a = {None, *(row["a"] for row in rows)} if any(row["a"] is None for row in rows) else set()
    leaves = {*a, "0", "1", "2", "3", "4"}
    b = {row["b"] for row in rows}
    return {
        "a": [{leaf: A.label(leaf, level) for leaf in leaves} for level in range(A.levels)],
        "b": [
            {value: value if level == 0 else B.label(value, level, "integer") for value in b}
            for level in range(B.levels)
        ],
    }


@st.composite
def tables(draw, most=16):
    size = draw(st.integers(1, most))
    owners = draw(st.sampled_from([1, 3, 6, 100]))
    letter = st.sampled_from(["0", "1", "2", "3", "4", None])
    return [
        {
            "a": draw(letter),
            "b": draw(st.integers(0, 7)),
            "s": draw(st.sampled_from([None, 1, 2, 3])),
            "owner": draw(st.integers(1, owners)),
        }
        for _ in range(size)
    ]


ON_VALUES = {
    "l": st.integers(1, 3),
    "entropy_l": st.sampled_from([1, 2, 3]),
    "recursive": st.sampled_from([(1, 1), (2, 2), (3, 2), (4, 3)]),
    "t": st.sampled_from([0.1, 0.25, 0.5, 0.75]),
}


@st.composite
def demands(draw, population=False):
    found = {}
    if draw(st.booleans()):
        found["k"] = draw(st.integers(2, 4))
    for name in draw(st.sets(st.sampled_from(sorted(ON_VALUES)), max_size=2)):
        found[name] = draw(ON_VALUES[name])
    if population:
        name = draw(st.sampled_from(["k_map", "presence"]))
        found[name] = draw(
            st.integers(2, 6) if name == "k_map" else st.sampled_from([(0, 0.5), (0, 0.75), (0.2, 0.8), (0.25, 1)])
        )
    return found or {"k": 2}


def arrow(rows):
    return pa.Table.from_pylist(rows, SCHEMA)


def enforce(rows, asked, *, owned, **options):
    return anonymity.enforce(
        arrow(rows),
        quasi=["a", "b"],
        sensitive="s",
        owner="owner" if owned else None,
        hierarchies={"a": A, "b": B},
        **asked,
        **options,
    )


def refused(error):
    """No recoding fits: nothing more to look at."""
    assert error.code == "E_DEMANDS"


def numbered(rows):
    return [row | {"owner": number} for number, row in enumerate(rows)]


def check_against_brute_force(rows, people, asked, suppress, *, owned, distance="ordered"):
    plain, crowd = (rows, people) if owned else (numbered(rows), people and numbered(people))
    expected = brute.best(
        plain, crowd, ladders_of(rows + (people or [])), asked, distance, int(suppress * len(rows) + 1e-9)
    )
    options = {} if people is None else {"population": arrow(people)}
    try:
        found = enforce(rows, asked, owned=owned, suppress=suppress, distance={"s": distance}, **options)
    except ShoalError as error:
        refused(error)
        assert expected is None
        return
    assert expected is not None
    assert found.optimal
    assert (tuple(found.levels.values()), found.suppressed) == (expected[2], expected[1])
    assert found.loss == pytest.approx(float(expected[0]))
    assert found.after.check(**asked).passed
    assert found.to_arrow().num_rows == len(rows) - found.suppressed


@pytest.mark.slow
@settings(deadline=None, max_examples=200)
@given(
    rows=tables(),
    asked=demands(),
    suppress=st.sampled_from([0.0, 0.1, 0.3, 1.0]),
    owned=st.booleans(),
    distance=st.sampled_from(["equal", "ordered"]),
)
def test_the_best_recoding_is_the_best_of_all(rows, asked, suppress, owned, distance):
    check_against_brute_force(rows, None, asked, suppress, owned=owned, distance=distance)


@settings(deadline=None, max_examples=100)
@given(
    rows=tables(most=8),
    others=tables(most=8),
    asked=demands(population=True),
    suppress=st.sampled_from([0.0, 0.25, 1.0]),
    owned=st.booleans(),
)
def test_the_best_recoding_within_a_population_is_the_best_of_all(rows, others, asked, suppress, owned):
    values = {row["b"] for row in rows}
    people = [*rows, *(row | {"owner": row["owner"] + 1000} for row in others if row["b"] in values)]
    check_against_brute_force(rows, people, asked, suppress, owned=owned)


@settings(deadline=None, max_examples=60)
@given(rows=tables(), asked=demands(), quality=st.sampled_from(["discernibility", "class_size"]))
def test_other_qualities_find_their_best_too(rows, asked, quality):
    try:
        found = enforce(rows, asked, owned=False, suppress=0.3, quality=quality)
    except ShoalError as error:
        refused(error)
        return
    ladders, plain, scores = ladders_of(rows), numbered(rows), []
    for i in range(len(ladders["a"])):
        for j in range(len(ladders["b"])):
            kept = brute.evaluate(
                plain, None, lambda row, i=i, j=j: {"a": ladders["a"][i][row["a"]], "b": ladders["b"][j][row["b"]]},
                asked, "ordered", int(0.3 * len(rows) + 1e-9),
            )  # fmt: skip
            if kept is not None:
                sizes = [len(part) for part in brute.classes_of(kept, ["a", "b"]).values()]
                gone = len(rows) - len(kept)
                scores.append(
                    sum(size**2 for size in sizes) + gone * len(rows)
                    if quality == "discernibility"
                    else len(rows) / (len(sizes) + (gone > 0)) / asked.get("k", 1)
                )
    assert found.quality[quality] == pytest.approx(min(scores))


@pytest.mark.slow
@settings(deadline=None, max_examples=80)
@given(rows=tables(most=30), asked=demands(), owned=st.booleans(), seed=st.randoms(use_true_random=False))
def test_local_recoding_keeps_its_demands_covers_every_value_and_ignores_the_order_of_rows(rows, asked, owned, seed):
    try:
        found = enforce(rows, asked, owned=owned, recoding="local", keep=())
    except ShoalError as error:
        refused(error)
        return
    assert found.suppressed == 0
    assert found.after.check(**asked).passed
    shuffled = list(rows)
    seed.shuffle(shuffled)
    assert enforce(shuffled, asked, owned=owned, recoding="local").to_arrow().equals(found.to_arrow())
    cuts = found.transformation.local
    for place, column in enumerate(("a", "b")):
        leaves = cuts.columns[place].leaves
        for low, high, label in zip(cuts.low[:, place], cuts.high[:, place], cuts.label[:, place], strict=True):
            assert covered(cuts.columns[place].labels[label], column) == set(leaves[low : high + 1])


def covered(label, column):
    """The leaves that a published label means, read back from its text."""
    if label is None:
        return {None}
    if column == "b":
        if not label.startswith("["):
            return {label}
        low, high = (int(end) for end in label.strip("[]").split(","))
        return Between(low, high)
    names = {"low": {"0", "1", "2"}, "high": {"3", "4"}, "x": {"0", "1"}, "y": {"2"}, "z": {"3", "4"}, "NULL": {None}}
    found = set()
    for name in label.split(" | "):
        if name == "*":
            return Everything()
        found |= names.get(name, {name})
    return found


class Between:
    def __init__(self, low, high):
        self.low, self.high = low, high

    def __eq__(self, leaves):
        numbers = [int(leaf) for leaf in leaves]
        return (min(numbers), max(numbers)) == (self.low, self.high)

    __hash__ = None


class Everything:
    def __eq__(self, leaves):
        return {"0", "1", "2", "3", "4"} <= leaves

    __hash__ = None


@settings(deadline=None, max_examples=50)
@given(rows=tables(most=10), others=tables(most=10), asked=demands(population=True), owned=st.booleans())
def test_local_recoding_within_a_population_keeps_its_demands(rows, others, asked, owned):
    people = arrow([*rows, *(row | {"owner": row["owner"] + 1000} for row in others)])
    try:
        found = enforce(rows, asked, owned=owned, recoding="local", population=people)
    except ShoalError as error:
        refused(error)
        return
    assert found.after.check(**asked).passed
    again = anonymity.apply(arrow(rows), found.transformation, owner="owner" if owned else None, population=people)
    assert again.to_arrow().equals(found.to_arrow())


@settings(deadline=None, max_examples=60)
@given(rows=tables(), asked=demands(), owned=st.booleans(), recoding=st.sampled_from(["global", "local"]))
def test_a_saved_transformation_gives_the_same_bytes(tmp_path_factory, rows, asked, owned, recoding):
    try:
        found = enforce(rows, asked, owned=owned, recoding=recoding, suppress=0.3 if recoding == "global" else 0.0)
    except ShoalError as error:
        refused(error)
        return
    folder = tmp_path_factory.mktemp("saved")
    found.transformation.save(folder / "t.toml")
    again = anonymity.apply(
        arrow(rows), anonymity.Transformation.read(folder / "t.toml"), owner="owner" if owned else None, suppress=0.3
    )
    found.write(folder / "one.parquet")
    again.write(folder / "two.parquet")
    assert (folder / "one.parquet").read_bytes() == (folder / "two.parquet").read_bytes()
    assert again.after.check(**asked).passed


@settings(deadline=None, max_examples=40)
@given(rows=tables(), asked=demands(), seed=st.randoms(use_true_random=False))
def test_shuffled_rows_give_the_same_table(rows, asked, seed):
    shuffled = list(rows)
    seed.shuffle(shuffled)
    try:
        found = enforce(rows, asked, owned=True, suppress=0.3)
    except ShoalError as error:
        with pytest.raises(ShoalError, match=error.code):
            enforce(shuffled, asked, owned=True, suppress=0.3)
        return
    assert enforce(shuffled, asked, owned=True, suppress=0.3).to_arrow().equals(found.to_arrow())


@settings(deadline=None, max_examples=40)
@given(rows=tables(), asked=demands(), suppress=st.sampled_from([0.0, 0.3]))
def test_boxes_find_the_same_best_as_the_lattice(monkeypatch_module, rows, asked, suppress):
    try:
        expected = enforce(rows, asked, owned=False, suppress=suppress)
    except ShoalError as error:
        refused(error)
        return
    with monkeypatch_module.context() as patch:
        patch.setattr("shoal.anonymity.searching.search.MOST_NODES", 1)
        found = enforce(rows, asked, owned=False, suppress=suppress)
    assert found.optimal
    assert (found.levels, found.suppressed) == (expected.levels, expected.suppressed)
    assert found.bound == pytest.approx(found.loss)


@pytest.fixture(scope="module")
def monkeypatch_module():
    with pytest.MonkeyPatch.context() as patch:
        yield patch
