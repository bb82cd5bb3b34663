"""Data sets are opened beside each other: one whose source hangs costs nobody but those who ask it."""

from __future__ import annotations

import shutil
import threading
from dataclasses import replace

import pytest
from service_calls import ask, caller, refused
from service_shop import counting

from shoal.cli.serving.serve import prepare
from shoal.engines import sources
from shoal.errors import ShoalError
from shoal.params import budget
from shoal.service import datasets
from shoal.service.allowances import Grant
from shoal.service.datasets import NewDataSet
from shoal.service.questions import Question
from shoal.service.service import OPERATOR
from shoal.service.upkeep import openings
from shoal.service.upkeep.openings import NotYetError, Opening


@pytest.fixture
def hanging(monkeypatch):
    """Sources named `other` do not answer until this is set."""
    go_on, open_source = threading.Event(), datasets.open_source

    def slow(source, *about):
        if source.endswith("other"):
            assert go_on.wait(60)
        return open_source(source, *about)

    monkeypatch.setattr(datasets, "open_source", slow)
    monkeypatch.setattr(datasets, "MOMENT_SECONDS", 0.1)
    yield go_on
    go_on.set()


def test_a_source_that_hangs_keeps_nobody_from_other_data_sets(opened, folder, hanging, monkeypatch):
    """Slots, planners and requests waited for it, whatever they were to do."""
    service = opened()
    shutil.copytree(folder, folder.parent / "other")
    new = NewDataSet("other", str(folder.parent / "other"), str(folder.parent / "shoal.toml"), budget((1.0, 0.0)))
    hanging.set()
    service.add_dataset(OPERATOR, replace(new, new_people=True))
    service.allow(OPERATOR, Grant("other", "everyone"))
    hanging.clear()
    service.refresh(OPERATOR, "other")
    monkeypatch.setattr(openings, "PATIENCE_SECONDS", 0.2)
    for number in range(4):
        assert ask(service, "ann", counting(0.1, f"n{number}"), seconds=60).state == "answered"
    assert [each.name for each in service.datasets.newest()] == ["visits"]
    with refused("E_SOURCE"):
        service.datasets.get("other")
    hanging.set()
    monkeypatch.setattr(openings, "PATIENCE_SECONDS", 60.0)
    assert service.datasets.get("other").version == 2
    assert {each.name for each in service.datasets.newest()} == {"visits", "other"}


def test_questions_that_waited_for_a_source_that_hangs_hold_their_slot_once(opened, folder, hanging, monkeypatch):
    """As after a restart: each of them held a slot for thirty seconds, and nobody else was answered."""
    monkeypatch.setattr(openings, "PATIENCE_SECONDS", 5.0)
    first = opened(start=False)
    shutil.copytree(folder, folder.parent / "other")
    new = NewDataSet("other", str(folder.parent / "other"), str(folder.parent / "shoal.toml"), budget((1.0, 0.0)))
    hanging.set()
    first.add_dataset(OPERATOR, replace(new, new_people=True))
    first.allow(OPERATOR, Grant("other", "everyone"))
    held = [first.ask(caller(first, "ann"), "other", Question(counting(0.1, f"n{number}"))) for number in range(4)]
    job = first.ask(caller(first, "ann"), "visits", Question(counting()))
    first.close(5.0)
    hanging.clear()
    service = opened(slots=1)
    assert service.wait(job.id, 14.0).state == "answered"
    assert {service.wait(each.id, 0).error["code"] for each in held} == {"E_SOURCE"}


def test_few_wait_for_what_takes_long(monkeypatch):
    """Each holds a thread that others need."""
    monkeypatch.setattr(openings, "LONG_SECONDS", 0.0)
    monkeypatch.setattr(openings, "MOST_WAITING", 1)
    go_on, found = threading.Event(), []
    opening = Opening(1, lambda: go_on.wait(60), is_first=True)
    opening.start()
    waiting = threading.Thread(target=lambda: found.append(opening.result()))
    waiting.start()
    while not opening._waiting:
        pass
    with pytest.raises(NotYetError):
        opening.result()
    go_on.set()
    waiting.join()
    assert (found, opening.result(), opening.is_over) == ([True], True, True)


@pytest.mark.parametrize("error", [ShoalError("E_SOURCE", "It is gone."), ValueError("a bug")])
def test_what_cannot_be_opened_says_so_to_everybody(error):
    def fails():
        raise error

    opening = Opening(1, fails, is_first=True)
    opening.start()
    for _ in range(2):
        with pytest.raises(type(error), match=str(error.args[0])[:5]):
            opening.result()


def test_everybody_writes_while_a_data_set_is_added_whose_source_takes_long(opened, folder, monkeypatch):
    """Whoever added it held the lock of the store, and the service's own writers gave up after thirty seconds."""
    service, open_source, written = opened(start=False), datasets.open_source, []

    def write():
        with service.store.writing() as rows:
            written.append(rows.tick())

    def slow(*about):
        if threading.current_thread() is threading.main_thread():
            writer = threading.Thread(target=write)
            writer.start()
            writer.join(20)
            assert written
        return open_source(*about)

    monkeypatch.setattr(datasets, "open_source", slow)
    new = NewDataSet("other", str(folder), str(folder.parent / "shoal.toml"), budget((1.0, 0.0)), new_people=True)
    service.add_dataset(OPERATOR, new)
    with refused("E_USAGE"):
        service.add_dataset(OPERATOR, new)
    assert len(written) == 1


def away(folder):
    """The source cannot be opened any more."""
    (folder / "visits.parquet").rename(folder / "elsewhere")


def test_an_allowance_can_be_withdrawn_while_the_source_is_away(opened, folder):
    opened(start=False)
    away(folder)
    service = opened(start=False)
    service.withdraw(caller(service, "carla"), "visits", "group:research")
    with refused("E_NOT_FOUND"):
        service.explain(caller(service, "ann"), "visits", counting())


def test_a_file_that_is_gone_between_two_looks_is_a_source_that_cannot_be_read(folder, monkeypatch):
    """As of somebody who replaces a folder: whoever asked was told of a bug in shoal."""
    files = list(folder.iterdir())
    monkeypatch.setattr(sources, "data_files", lambda _: away(folder) or {path.stem: [path] for path in files})
    with pytest.raises(ShoalError, match="E_SOURCE"):
        sources.open_source(str(folder))


def test_a_service_starts_again_while_the_source_is_away(tmp_path, folder, capsys):
    """It was opened for the sake of a word about its budget, which the ledger knows."""
    named = (tmp_path / "home", str(folder), folder.parent / "shoal.toml")
    prepare(*named, "3,1e-5", None, quiet=False)
    away(folder)
    prepare(*named, "4,1e-5", None, quiet=False)
    assert "keeps its budget (epsilon 3, delta 1e-05)" in capsys.readouterr().err
