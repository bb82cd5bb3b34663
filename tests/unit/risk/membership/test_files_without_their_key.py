"""A key hides what a hash is of, and nothing else: who holds the files and knows some rows reads others, exactly.

The pages say so (docs/theory/sketches.md); this is the attack that they speak of. No test can make it fail while sketches merge.
"""

from __future__ import annotations

import numpy as np
import pytest

from shoal.risk.sketch.khll import Sketch

VICTIM, NEIGHBOUR, TWIN, PATIENT = 17, 100, 101, 102
INSIDERS = {NEIGHBOUR: "é" * 20, TWIN: "é" * 21, PATIENT: "é" * 22}
"""People who know their own rows, and who wrote a note of a length that nobody else's has."""


def files(*, sick: bool) -> dict[str, bytes]:
    """A sketch of each column, under a key that nobody here will have."""
    rng = np.random.default_rng(1)
    people = np.arange(2_000)
    columns = {
        "place": rng.integers(0, 80, len(people)),
        "born": rng.integers(0, 20_000, len(people)),
        "illness": rng.integers(0, 60, len(people)),
        "note": np.array([INSIDERS.get(person, "none") for person in people]),
    }
    columns["place"][NEIGHBOUR] = columns["place"][VICTIM]
    columns["born"][TWIN] = columns["born"][VICTIM]
    columns["illness"][VICTIM] = columns["illness"][PATIENT] + (0 if sick else 1)
    made = {}
    for name, values in columns.items():
        sketch = Sketch(key=b"a long secret of the operator")
        sketch.update(values, people)
        made[name] = sketch.to_bytes()
    return made


def owners_by_value(data: bytes) -> list[tuple[int, set[int]]]:
    """The shape of each kept value and the hashes of its owners, where they are a list: nothing here needs a key."""
    sketch = Sketch.from_bytes(data)
    sets = sketch.owners_of_value
    sets.settle()
    listed = {number: set[int]() for number in range(len(sketch.hashes))}
    for number, owner in zip(sets.list_sets.tolist(), sets.list_owners.tolist(), strict=True):
        listed[number].add(owner)
    return [(int(sketch.shapes[number]), owners) for number, owners in listed.items() if owners]


def with_owner(data: bytes, owner: int) -> set[int]:
    """All who share a value with somebody."""
    return next(owners for _, owners in owners_by_value(data) if owner in owners)


@pytest.mark.parametrize("sick", [True, False])
def test_who_knows_a_few_rows_reads_the_illness_of_another(sick):
    held = files(sick=sick)
    by_length = {shape & 63: owners for shape, owners in owners_by_value(held["note"])}
    neighbour, twin, patient = (next(iter(by_length[len(note.encode())])) for note in INSIDERS.values())
    (victim,) = with_owner(held["place"], neighbour) & with_owner(held["born"], twin) - {neighbour, twin, patient}
    assert (victim in with_owner(held["illness"], patient)) is sick
