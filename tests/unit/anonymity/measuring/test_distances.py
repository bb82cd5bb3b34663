"""Earth mover's distances against the linear program that defines them, and quick forms against exact ones."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from shoal import anonymity
from shoal.anonymity import Hierarchy

PLACES = {"west": {"coast": ["a", "b"], "hill": ["c"]}, "east": {"plain": ["d", "e", "f"]}}
TREE = Hierarchy.groups(PLACES)
VALUES = ["a", "b", "c", "d", "e", "f"]


def least_cost(part, whole, ground):
    """Moves that turn one distribution into the other, at the least cost."""
    size = len(part)
    supply = np.array([np.repeat(np.eye(size)[i], size) for i in range(size)])
    demand = np.array([np.tile(np.eye(size)[j], size) for j in range(size)])
    found = linprog(ground.ravel(), A_eq=np.vstack((supply, demand)), b_eq=np.concatenate((part, whole)))
    return found.fun


def ground_of(name, values):
    size = len(values)
    if name == "equal":
        return 1.0 - np.eye(size)
    if name == "ordered":
        return np.abs(np.subtract.outer(range(size), range(size))) / max(size - 1, 1)
    height = TREE.levels - 1
    return np.array(
        [
            [next(h for h in range(height + 1) if TREE.label(a, h) == TREE.label(b, h)) / height for b in values]
            for a in values
        ]
    )


@settings(deadline=None, max_examples=40)
@given(
    rows=st.lists(st.tuples(st.integers(0, 2), st.sampled_from(VALUES)), min_size=1, max_size=20),
    name=st.sampled_from(["equal", "ordered", "tree"]),
)
def test_t_is_the_least_cost_of_moving_a_class_to_the_table(rows, name):
    table = pa.table({"q": [q for q, _ in rows], "s": [s for _, s in rows]})
    found = anonymity.measure(table, "q", "s", distance={"s": TREE if name == "tree" else name}).sensitive["s"]
    values = sorted({s for _, s in rows})
    whole = np.array([sum(s == value for _, s in rows) for value in values]) / len(rows)
    costs = []
    for q in {q for q, _ in rows}:
        inside = [s for other, s in rows if other == q]
        part = np.array([inside.count(value) for value in values]) / len(inside)
        costs.append(least_cost(part, whole, ground_of(name, values)))
    assert found.t == pytest.approx(max(costs), abs=1e-7)
    exact = [found.ground.exact(found.held.of_class(n), found.held.held.tolist()) for n in range(found.held.count)]
    assert found.ground.by_class(found.held) == pytest.approx([float(each) for each in exact], abs=1e-12)
