"""Functions that misbehave on some owners' records, on every engine: the same face, words and charge as on the embedded one."""

from __future__ import annotations

import itertools
import os
import sys
import time
import types

import pyarrow as pa
import pytest
from postgres_tables import write

import shoal
from shoal import aggregates as agg

OWNERS = 60
FAILS, PRINTS, NONSENSE, FORGES, ENDLESS, HUGE, HALF = range(1001, 1008)
"""Owners whose records make some function misbehave."""
ENGINES = ["postgresql", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.slow])]


def table(*, with_secrets: bool) -> pa.Table:
    owners = [*range(OWNERS), *(range(FAILS, HALF + 1) if with_secrets else ())]
    return pa.table({"uid": pa.array(owners, pa.int64()), "x": pa.array(owners, pa.int64())})


def noisy(record):
    if record.x == PRINTS:
        print("secret", record)
        os.write(2, b"secret")
    return True


def odd(record):
    if record.x == FAILS:
        raise SystemExit(str(record))
    if record.x == NONSENSE:
        return {"x": object(), "word": "\ud800", "day": "2024-02-30", "n": 2**70}
    if record.x == FORGES:
        return {"x": record.x, "uid": 5, "o": 5, "row": 0, "word": "a", "n": float("nan")}
    return {"x": record.x, "word": "a", "n": 1}


def several(record):
    if record.x == ENDLESS:
        return ({"x": record.x, "word": "a", "n": number} for number in itertools.count())
    if record.x == HUGE:
        return [{"x": record.x, "word": "a" * (1 << 22), "n": 1}] * 10**6
    if record.x == HALF:
        return late(record)
    return [{"x": record.x, "word": record.word, "n": record.n}]


def late(record):
    yield {"x": record.x, "word": "a", "n": 1}
    raise ValueError(str(record))


def together(records):
    """Words that are missing are left out: what is no text and what is too long would be a group of two owners."""
    return [{"word": record.word, "n": record.n} for record in records if record.word is not None]


MADE = {"x": "integer", "word": "text", "day": "date", "n": "integer"}


def pipeline(session):
    made = session.collection("t").filter(noisy).map(odd, MADE)
    spread = made.flat_map(several, {"x": "integer", "word": "text", "n": "integer"}, most=5)
    return spread.per_owner(together, {"word": "text", "n": "integer"}).group_by("word", max_groups_per_owner=1)


def released(session):
    """All that the one who releases sees, values aside."""
    result = pipeline(session).release(c=agg.count(upper=2), n=agg.sum("n", bounds=(0, 3)), epsilon=50, delta=1e-9)
    (entry,) = session.ledger.entries()
    return result.to_arrow().schema, session.spent, entry.state, entry.description, len(result)


def opened(engine, place, **options):
    """A session over one of the two tables on an engine."""
    catalog = {"tables": {"t": {"owner": "uid"}}}
    if engine == "embedded":
        return shoal.connect({"t": table(with_secrets=place == "secrets")}, catalog, budget=(100, 1e-6), **options)
    source, where = place
    catalog = {"tables": {"t": {"owner": "uid", "source": where}}}
    return shoal.connect(source, catalog, budget=(100, 1e-6), **options)


@pytest.fixture(scope="module")
def places(request):
    """`places(engine)`: where the table with and without the misbehaving owners is."""
    known = {}

    def of(engine):
        if engine == "embedded":
            return "secrets", "plain"
        if engine not in known:
            known[engine] = _written(engine, request)
        return known[engine]

    return of


def _written(engine, request):
    made = {"secrets": table(with_secrets=True), "plain": table(with_secrets=False)}
    if engine == "postgresql":
        url, connection = request.getfixturevalue("postgres_database")
        for schema, rows in made.items():
            connection.execute(f"CREATE SCHEMA {schema}")
            write(connection, f"{schema}.t", rows)
        return tuple((url, f"{schema}.t") for schema in made)
    spark = request.getfixturevalue("spark")
    for name, rows in made.items():
        spark.createDataFrame(rows).createOrReplaceTempView(f"t_{name}")
    return tuple((spark, f"t_{name}") for name in made)


@pytest.fixture(scope="module")
def expected(places):
    """What the embedded engine shows."""
    return faces("embedded", places)


def faces(engine, places):
    found = []
    for place in places(engine):
        with opened(engine, place) as session:
            found.append(released(session))
    return found


def test_the_embedded_engine_shows_one_face_on_neighbours(expected):
    assert expected[0] == expected[1]


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_shows_the_face_of_the_embedded_one_on_neighbours(engine, places, expected, capfd):
    assert faces(engine, places) == expected
    assert "secret" not in "".join(capfd.readouterr())


DEADLY = {
    "dies": lambda record: os._exit(0) if record.x == FAILS else True,
    "wants all memory": lambda record: len(bytearray(1 << 62)) > 0 if record.x == FAILS else True,
    "hangs": lambda record: time.sleep(60 * (record.x == FAILS)) is None,
}


def tripped(engine, place, function):
    """What is told when a process dies, and afterwards."""
    told = []
    with opened(engine, place) as session:
        kept = session.collection("t", function_timeout=0.2).filter(function)
        for _ in range(2):
            with pytest.raises(shoal.ShoalError) as caught:
                kept.release(n=agg.count(upper=1), epsilon=1)
            assert caught.value.__context__ is None
            told.append(str(caught.value))
        return told, session.spent


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("way", DEADLY)
def test_a_process_that_dies_is_told_once_in_the_same_words_and_then_the_user_is_suspended(engine, way, places):
    told, spent = tripped(engine, places(engine)[0], DEADLY[way])
    assert (told, spent) == tripped("embedded", places("embedded")[0], DEADLY[way])
    assert [text.split(":")[0] for text in told] == ["E_EXECUTION", "E_SUSPENDED"]
    assert spent[0] == 1


SEEN: list = []
NUMBERS = iter(())
NOWHERE = types.ModuleType("module_of_this_process_alone")
exec("def known_here_only(record):\n    return True\n", NOWHERE.__dict__)  # noqa: S102 - a module without a file


async def waiting(record):
    return record


def counting(record):
    global SEEN  # noqa: PLW0603 - the mistake itself
    SEEN = [record]
    return True


def many(record):
    yield record


WRONG = {
    "holds a list": lambda s: s.collection("t").filter(lambda r, seen=[]: seen.append(r) is None),
    "changes a global": lambda s: s.collection("t").filter(lambda r: SEEN.append(r) is None),
    "writes a global": lambda s: s.collection("t").filter(counting),
    "holds a generator": lambda s: s.collection("t").filter(lambda r, numbers=NUMBERS: r.x in numbers),
    "holds a file": lambda s: s.collection("t").filter(lambda r, file=sys.stdout: file.write(r)),
    "a coroutine": lambda s: s.collection("t").filter(waiting),
    "a generator where one record is due": lambda s: s.collection("t").map(many, {"n": "integer"}),
    "an unknown type": lambda s: s.collection("t").map(lambda r: {"n": r.x}, {"n": "numbers"}),
    "forges the owner": lambda s: s.collection("t").map(lambda r: {"uid": r.x}, {"uid": "integer"}),
    "groups by the owner": lambda s: s.collection("t").group_by("uid"),
    "an unknown field": lambda s: s.collection("t").group_by("y"),
    "cannot be loaded": lambda s: (
        s.collection("t").filter(NOWHERE.known_here_only).release(n=agg.count(upper=1), epsilon=1)
    ),
}


def refusals(session, monkeypatch):
    monkeypatch.setitem(sys.modules, NOWHERE.__name__, NOWHERE)
    NOWHERE.known_here_only.__module__ = NOWHERE.__name__
    told = {}
    for name, wrong in WRONG.items():
        with pytest.raises(shoal.ShoalError) as caught:
            wrong(session)
        told[name] = str(caught.value)
    return told, session.spent


@pytest.mark.parametrize("engine", ENGINES)
def test_what_is_wrong_is_refused_in_the_same_words_for_nothing(engine, places, monkeypatch):
    with opened("embedded", "secrets") as here, opened(engine, places(engine)[0]) as there:
        expected = refusals(here, monkeypatch)
        assert refusals(there, monkeypatch) == expected
    told, spent = expected
    assert spent == (0.0, 0.0)
    codes = {text.split(":")[0] for text in told.values()}
    assert codes == {"E_CROSS_USER", "E_USAGE", "E_UID_EXPOSED", "E_UID_FORGED", "E_UNKNOWN_COLUMN"}
