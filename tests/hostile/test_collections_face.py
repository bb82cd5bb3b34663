"""What a function does on one owner's record shows nowhere but in that owner's own contribution."""

from __future__ import annotations

import os
import sys
import time

import pytest

import shoal
from shoal import aggregates as agg
from shoal.engines.python_rows import batches
from shoal.engines.python_rows import tables as tables_of_functions

pytestmark = pytest.mark.slow

CATALOG = {"tables": {"t": {"owner": "uid"}}}
SECRET = 666


def tables(*, with_secret: bool) -> dict:
    """Two hundred owners, and one whose record makes functions misbehave."""
    owners = [*range(200), *([SECRET] if with_secret else [])]
    return {"t": {"uid": owners, "x": owners}}


def fails(record):
    if record.x == SECRET:
        raise SystemExit(str(record))
    return {"n": 1}


def prints(record):
    if record.x == SECRET:
        print("secret", record)
        sys.stderr.write("secret")
        os.write(2, b"secret")
    return {"n": 1}


class Hostile(int):
    """A number whose class runs code when somebody looks at it."""

    def __float__(self):
        raise SystemExit


def gives_hostile_values(record):
    return {"n": Hostile(1) if record.x == SECRET else 1}


def gives_nonsense(record):
    return {"n": object() if record.x == SECRET else 1}


def forges_an_owner(record):
    return {"n": 1, "uid": 5, "o": 5, "row": 0} if record.x == SECRET else {"n": 1}


@pytest.mark.parametrize("function", [fails, prints, gives_hostile_values, gives_nonsense, forges_an_owner])
def test_an_owner_more_changes_no_face(function, capfd):
    seen = []
    for with_secret in (False, True):
        with shoal.connect(tables(with_secret=with_secret), catalog=CATALOG, budget=(10, 1e-6)) as session:
            result = (
                session.collection("t").map(function, {"n": "double"}).release(n=agg.count("n", upper=1), epsilon=1)
            )
            (entry,) = session.ledger.entries()
            seen.append((result.to_arrow().schema, len(result), session.spent, entry.state, entry.description))
    assert seen[0] == seen[1]
    assert "secret" not in "".join(capfd.readouterr())


@pytest.mark.parametrize(
    "function",
    [
        lambda record: os._exit(0) if record.x == SECRET else True,
        lambda record: time.sleep(60 * (record.x == SECRET)) is None,
        lambda record: record.x != SECRET or bytearray(1 << 62),
    ],
    ids=["dies", "hangs", "wants all memory"],
)
def test_a_process_that_dies_hangs_or_has_no_memory_is_one_generic_failure_that_stays_charged(function):
    with shoal.connect(tables(with_secret=True), catalog=CATALOG, budget=(10, 1e-6)) as session:
        kept = session.collection("t", function_timeout=0.5).filter(function)
        with pytest.raises(shoal.ShoalError) as error:
            kept.release(n=agg.count(upper=1), epsilon=1)
        assert error.value.code == "E_EXECUTION"
        assert error.value.__context__ is None
        assert session.spent[0] == 1


LONG, SMALL = "x" * 50_000, 64 << 20


def rows_of_one(*, with_victim: bool) -> dict:
    """Two hundred owners with one text each, and one whose texts are more than a small worker can hold."""
    owners = [*range(200), *([SECRET] * 1500 if with_victim else [])]
    return {"t": {"uid": owners, "word": [LONG if owner == SECRET else "x" for owner in owners]}}


def length(record):
    return {"n": len(record.word)}


def number(records):
    return [{"n": len(records)}]


@pytest.mark.parametrize("function", [length, number])
def test_an_owner_whose_records_no_worker_can_hold_changes_no_face(monkeypatch, function):
    """The release ended, after its charge, if that owner was there."""
    monkeypatch.setattr(tables_of_functions.PythonTables, "_memory", lambda _: SMALL)
    monkeypatch.setattr(batches, "ROOM_OF_OWNER", SMALL // 2)
    monkeypatch.setattr(batches, "ROOM_OF_PART", SMALL // 16)
    faces = []
    for there in (True, False):
        with shoal.connect(rows_of_one(with_victim=there), CATALOG) as session:
            rows = session.collection("t")
            made = (rows.map if function is length else rows.per_owner)(function, {"n": "integer"})
            answer = made.release(s=agg.sum("n", bounds=(0, 9)), epsilon=1)
            faces.append((answer.to_arrow().schema, session.spent))
    assert faces[0] == faces[1]
