"""Large answers through Flight SQL: few at once for each person, and a place is free as soon as its stream has ended."""

from __future__ import annotations

import threading
from contextlib import ExitStack

import pyarrow as pa
import pytest
from service_calls import refused

from shoal.web.flight_sql import streams
from shoal.web.flight_sql.streams import Places

TABLE = pa.table({"a": list(range(10))})


@pytest.fixture(autouse=True)
def short_wait(monkeypatch):
    monkeypatch.setattr(streams, "LONGEST_WAIT", 0.05)


def test_a_person_has_two_places_and_others_have_their_own():
    places = Places()
    with places.one_of("ann"), places.one_of("ann"):
        with refused("E_BUSY"), places.one_of("ann"):
            pass
        with places.one_of("bob"):
            pass
    with places.one_of("ann"):
        pass


def test_a_stream_keeps_its_place_until_it_is_gone():
    places = Places()
    open_ones = [places.stream("ann", lambda: TABLE) for _ in range(2)]
    with refused("E_BUSY"):
        places.stream("ann", lambda: TABLE)
    open_ones.pop()
    with places.one_of("ann"):
        pass


def test_an_answer_that_cannot_be_read_gives_its_place_back():
    places = Places()
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            places.stream("ann", lambda: 1 // 0)
    with places.one_of("ann"), places.one_of("ann"):
        pass


def test_whoever_waits_gets_the_next_place_and_few_may_wait(monkeypatch):
    monkeypatch.setattr(streams, "LONGEST_WAIT", 30.0)
    places, got, waits = Places(), [], threading.Event()

    def wait():
        waits.set()
        with places.one_of("ann"):
            got.append(1)

    thread = threading.Thread(target=wait)
    with ExitStack() as both:
        for _ in range(streams.OPEN_AT_ONCE):
            both.enter_context(places.one_of("ann"))
        thread.start()
        waits.wait()
        while not places._waiting:
            pass
        monkeypatch.setattr(streams, "MOST_WAITING", 1)
        with refused("E_RATE"), places.one_of("ann"):
            pass
        assert not got
    thread.join(30)
    assert got == [1]
