"""The service without HTTP: the log, its chain, and what is counted."""

from __future__ import annotations

import os
from fractions import Fraction

import pytest
from service_calls import ask, caller, refused
from service_shop import counting

from shoal.service import log, rates


def test_every_charge_has_one_line_and_the_chain_verifies(service):
    for number in range(3):
        ask(service, "ann", counting(0.1, f"n{number}"))
    ask(service, "bob", counting(0.1, "n0"))
    exported = list(log.export(service.store))
    noted = log.anchor(service.store)
    assert log.verify(exported, noted) == len(exported) - 1
    charges = [line["charge"] for line in log.lines(service.store) if line["charge"]]
    ledger = service.datasets.get("visits").ledger
    assert charges == ["{}:{}".format(*ledger.anchor_of(entry.sequence)) for entry in ledger.entries()]
    assert {line["epsilon"] for line in log.lines(service.store) if line["charge"]} == {"1/10"}


def test_a_changed_missing_or_rolled_back_line_is_found(service):
    ask(service, "ann", counting())
    exported = list(log.export(service.store))
    noted = log.anchor(service.store)
    for wrong in (
        [*exported[:-1], exported[-1].replace("ann", "bob")],
        exported[:2] + exported[3:],
        [exported[0].replace('"log":1', '"log":2'), *exported[1:]],
    ):
        with refused("E_LEDGER"):
            log.verify(wrong)
    assert log.verify(exported[:-1])
    with refused("E_LEDGER"):
        log.verify(exported[:-1], noted)


def test_a_line_that_a_death_left_out_is_written_at_the_next_start(opened):
    first = opened()
    from shoal.accounting.accountants import Loss

    ledger = first.datasets.get("visits").ledger
    ledger.reserve(Loss(Fraction(1, 4), Fraction(0)), user="ann", description="SELECT 1").commit(b"x")
    second = opened()
    line = log.lines(second.store)[-1]
    assert (line["actor"], line["epsilon"], line["detail"]) == ("ann", "1/4", "written from the ledger")


@pytest.mark.parametrize("place", ["file"], indirect=True)
def test_an_older_copy_of_a_ledger_is_refused(opened, place):
    service = opened()
    place = place / "ledgers" / "visits.db"
    before = place.read_bytes()
    ask(service, "ann", counting())
    service.close()
    place.write_bytes(before)
    with refused("E_LEDGER"):
        opened()


def test_the_log_cannot_be_changed_through_the_store(service):
    with refused("E_LEDGER"), service.store.writing() as rows:
        rows.run("UPDATE log SET line = 'x'")
    with refused("E_LEDGER"), service.store.writing() as rows:
        rows.run("DELETE FROM log")


def test_refusals_are_logged_in_full_a_hundred_times_an_hour(service):
    before = len(log.lines(service.store))
    for _ in range(105):
        with refused("E_PARSE"):
            ask(service, "ann", "SELECT ,")
    assert len(log.lines(service.store)) - before == 100


@pytest.mark.parametrize("kind", [rates.OwnBuckets, rates.SharedBuckets])
def test_rates_refuse_a_flood(monkeypatch, kind):
    clock = [1000.0]
    monkeypatch.setattr(rates.time, "monotonic", lambda: clock[0])
    buckets = rates.Rates(buckets=kind())
    for _ in range(10):
        buckets.take("ann", "query")
    with refused("E_RATE"):
        buckets.take("ann", "query")
    buckets.take("bob", "query")
    clock[0] += 0.5
    buckets.take("ann", "query")
    with refused("E_RATE"):
        buckets.take("ann", "query")


def test_processes_of_a_service_count_together(monkeypatch):
    monkeypatch.setattr(rates.time, "monotonic", lambda: 1000.0)
    buckets = rates.SharedBuckets()
    children = []
    for _ in range(3):
        child = os.fork()
        if child == 0:
            os._exit(sum(buckets.take("query ann", 2.0, 10.0) for _ in range(8)))
        children.append(child)
    taken = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert sum(taken) == 10
    assert not buckets.take("query ann", 2.0, 10.0)
    assert buckets.take("query bob", 2.0, 10.0)


def test_shared_buckets_forget_the_one_that_was_not_used_for_longest(monkeypatch):
    clock = [1000.0]
    monkeypatch.setattr(rates.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(rates.SharedBuckets, "SETS", 1)
    buckets = rates.SharedBuckets()
    for number in range(buckets.PLACES):
        clock[0] += 1
        assert buckets.take(f"query {number}", 0.0, 1.0)
    clock[0] += 1
    assert buckets.take("query another", 0.0, 1.0)
    assert not any(buckets.take(f"query {number}", 0.0, 1.0) for number in range(1, buckets.PLACES))
    assert buckets.take("query 0", 0.0, 1.0)


def test_explanations_are_counted_in_batches_and_none_is_lost(opened):
    service = opened()
    for _ in range(5):
        service.explain(caller(service, "ann"), "visits", counting())
    service.close()
    with opened(start=False).store.reading() as rows:
        found = rows.all("SELECT person, sum(number) AS number FROM counts WHERE what = 'explain' GROUP BY person")
    assert found == [{"person": "ann", "number": 5}]


@pytest.mark.parametrize("noted", ["foo", "3:abc", "", "3", ":" + "0" * 64, "-1:" + "0" * 64, "3:" + "G" * 64])
def test_what_is_no_anchor_is_not_taken_for_a_log_that_was_changed(service, noted):
    with refused("E_USAGE"):
        log.verify(log.export(service.store), noted)


def test_a_charge_that_is_logged_while_another_process_looks_for_missing_lines_has_one(opened, monkeypatch):
    """Each command of `shoal service` looks for them, also beside a service that runs."""
    service, other = opened(), opened(start=False)
    ledger = other.datasets.ledger("visits")
    ended = ledger.ended
    monkeypatch.setattr(ledger, "ended", lambda: ask(service, "ann", counting()) and ended())
    other._write_missing_lines()
    lines = [line for line in log.lines(service.store) if line["charge"]]
    assert [(line["outcome"], line["via"]) for line in lines] == [("answered", "test")]
