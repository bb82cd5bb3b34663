"""Queries run in processes of their own: what happens to one of them is one user's, and is paid for."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from service_shop import counting, new_service, write_folder

from shoal.errors import ShoalError
from shoal.params import budget
from shoal.service.datasets import NewDataSet
from shoal.service.questions import Question
from shoal.service.runners import hired, memory, nursery, planners
from shoal.service.runners.errand import Place
from shoal.service.service import OPERATOR

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes through /proc")


@pytest.fixture(scope="module", autouse=True)
def planted(tmp_path_factory):
    """A nursery whose runners meet misfortunes."""
    with pytest.MonkeyPatch.context() as patch:
        nursery.end()
        patch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)
        patch.setenv("SHOAL_TEST_MARK", str(tmp_path_factory.mktemp("marks") / "died"))
        patch.setattr(nursery, "PRELOAD", (*nursery.PRELOAD, "planted_runner"))
        patch.setattr(hired, "GRACE_SECONDS", 0.2)
        patch.setattr(hired, "LOOK_SECONDS", 0.05)
        yield
        nursery.end()


@pytest.fixture
def opened(tmp_path):
    made = []

    def open_one(**limits):
        made.append(new_service(tmp_path / "home", write_folder(tmp_path / "data"), budget((2.0, 1e-5)), **limits))
        made[-1].start()
        return made[-1]

    yield open_one
    for service in made:
        service.close(5.0)


def ask(service, name, what, dataset="visits"):
    job = service.ask(service.people.trusted(name, "test"), dataset, Question(counting(0.1, what)))
    return service.wait(job.id, 60.0)


def ledger(service):
    return service.datasets.get("visits").ledger


def runners(service):
    return {hired_.pid for hired_ in service._slots.runners if hired_.pid}


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in {"Z", "X"}
    except OSError:
        return True


def eventually(holds) -> bool:
    ends = time.monotonic() + 300
    while time.monotonic() < ends:
        if holds():
            return True
        time.sleep(0.05)
    return False


def test_a_run_whose_process_dies_is_taken_up_once_more_under_the_same_charge(opened):
    service = opened(slots=1)
    job = ask(service, "ann", "dies_once")
    assert (job.state, job.charged, job.runs) == ("answered", True, 2)
    assert ledger(service).spent[0] == Fraction(1, 10)
    assert not ledger(service).is_suspended("ann")
    service.check()


def test_a_second_death_is_one_users_and_is_paid_for(opened):
    service = opened(slots=1)
    job = ask(service, "ann", "dies")
    assert (job.state, job.charged, job.error["code"]) == ("failed", True, "E_EXECUTION")
    assert len(ledger(service).entries()) == 1
    assert ledger(service).is_suspended("ann")
    assert ask(service, "bob", "n").state == "answered"
    service.check()


@pytest.mark.parametrize("what", ["sleeps", "burns"])
def test_a_run_that_never_ends_is_ended_after_its_deadline(opened, what):
    """What works is held to processor seconds, what waits to four times as many on the clock."""
    service = opened(slots=1, time_limit=1.0)
    eventually(lambda: runners(service))
    (before,) = runners(service)
    job = ask(service, "ann", what)
    assert (job.state, job.charged, job.runs, job.error["code"]) == ("failed", True, 1, "E_EXECUTION")
    assert ledger(service).is_suspended("ann")
    assert eventually(lambda: gone(before))
    assert ask(service, "bob", "n").state == "answered"


@pytest.mark.parametrize("what", ["plan_dies", "plan_burns", "plan_hogs"])
def test_a_text_that_cannot_be_planned_is_refused_and_nobody_else_notices(opened, monkeypatch, what):
    """Texts are planned in processes of their own: one that costs its process the life is free, and one person's."""
    monkeypatch.setattr(planners, "PLAN_SECONDS", 0.3)
    service = opened(slots=1, memory_share=2**30)
    ann, bob = (service.people.trusted(name, "test") for name in ("ann", "bob"))
    for act in (
        lambda: service.explain(ann, "visits", counting(0.1, what)),
        lambda: service.ask(ann, "visits", Question(counting(0.1, what))),
        lambda: service.epsilon_for(ann, "visits", counting(0.1, what), 10.0),
    ):
        with pytest.raises(ShoalError) as refused:
            act()
        assert refused.value.code == "E_LIMITS"
    assert service.explain(bob, "visits", counting(0.1))["affordable"]
    assert not ledger(service).entries()
    assert not ledger(service).is_suspended("ann")


def test_one_person_has_no_more_than_half_of_those_who_plan(opened):
    service = opened(slots=1)
    desk = service._planners
    with desk._taken("ann"):
        assert desk._busy == {"ann": 1}
        assert service.explain(service.people.trusted("bob", "test"), "visits", counting(0.1))["affordable"]
    assert not desk._busy
    assert not desk._waiting


def test_a_run_gets_its_share_of_memory_and_no_more(opened):
    service = opened(slots=1, memory_share=2 * 2**30)
    job = ask(service, "ann", "hogs")
    assert (job.state, job.charged, job.error["code"]) == ("failed", True, "E_EXECUTION")
    assert ledger(service).is_suspended("ann")
    assert ask(service, "bob", "n").state == "answered"


def test_an_idle_runner_that_is_killed_is_replaced_without_a_word(opened):
    service = opened(slots=1)
    eventually(lambda: runners(service))
    (before,) = runners(service)
    os.kill(before, signal.SIGKILL)
    assert eventually(lambda: gone(before))
    job = ask(service, "ann", "n")
    assert (job.state, job.runs) == ("answered", 1)
    assert runners(service) != {before}


def test_a_runner_whose_statement_was_given_up_is_not_asked_another(opened, monkeypatch):
    """It still planned the first, and what it asked to be charged for that was charged to whoever came next, who was suspended."""
    service = opened(slots=1)
    ask(service, "ann", "before")
    keep, looks = service.store.keep, [signal.SIGSTOP, signal.SIGCONT]
    (pid,) = runners(service)

    def out_of_reach():
        if threading.current_thread().name == "shoal-slot-0" and looks:
            with suppress(ProcessLookupError):
                os.kill(pid, looks.pop(0))
            if looks:
                raise ShoalError("E_LEDGER", "The store cannot be reached.")
        keep()

    monkeypatch.setattr(service.store, "keep", out_of_reach)
    assert ask(service, "ann", "n").error["code"] == "E_LEDGER"
    assert ask(service, "bob", "m").state == "answered"
    assert pid not in runners(service)
    entries = ledger(service).entries()
    assert [(entry.user, entry.state) for entry in entries] == [("ann", "answered"), ("bob", "answered")]


def test_runners_end_with_a_service_that_is_killed():
    program = (
        "import time; from shoal.service.runners import nursery; channel, pid = nursery.new_runner(2**30);"
        "print(nursery._nursery[1].pid, pid, flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        pids = [int(text) for text in process.stdout.readline().split()]
        assert not any(gone(pid) for pid in pids)
        process.kill()
    assert eventually(lambda: all(gone(pid) for pid in pids))


def test_a_runner_holds_no_ledger_and_no_store(opened, tmp_path):
    service = opened(slots=1)
    ask(service, "ann", "n")
    (pid,) = runners(service)
    held = [str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir()]
    assert not [name for name in held if name.startswith(str(tmp_path / "home"))]


def test_a_refresh_lets_go_of_files_in_every_process(opened, tmp_path):
    import duckdb

    service = opened(slots=1)
    place = tmp_path / "visits.duckdb"

    def write(rows: int) -> None:
        with duckdb.connect(str(tmp_path / "new.duckdb")) as connection:
            table = pa.table({"uid": list(range(rows)), "site": ["s"] * rows})
            pq.write_table(table, tmp_path / "v.parquet")
            connection.execute(f"CREATE TABLE visits AS FROM '{tmp_path / 'v.parquet'}'")
        (tmp_path / "new.duckdb").replace(place)

    def holders(name: str) -> list[Path]:
        pids = ["self", *map(str, runners(service))]
        links = [link for pid in pids for link in Path(f"/proc/{pid}/fd").iterdir()]
        return [link for link in links if link.is_symlink() and link.readlink().name == name]

    def may_write(link: Path) -> bool:
        flags = (link.parent.parent / "fdinfo" / link.name).read_text().partition("flags:")[2].split()[0]
        return int(flags, 8) & os.O_ACCMODE != os.O_RDONLY

    write(100)
    catalog = tmp_path / "one.toml"
    catalog.write_text('[tables.visits]\nowner = "uid"\n')
    service.add_dataset(OPERATOR, NewDataSet("one", str(place), str(catalog), budget((2.0, 1e-5)), new_people=True))
    carla = service.people.trusted("carla", "test")
    job = service.wait(service.ask(carla, "one", Question(counting(1.0, "n"))).id, 60)
    assert job.state == "answered"
    open_now = holders("visits.duckdb")
    assert open_now
    assert not any(map(may_write, open_now))
    write(5000)
    service.refresh(OPERATOR, "one")
    assert eventually(lambda: not holders("visits.duckdb (deleted)"))
    again = service.wait(service.ask(carla, "one", Question(counting(1.0, "n"))).id, 60)
    assert service.answer(carla, again.answer)[2].to_dicts()[0]["n"] > 4000


def test_shares_of_memory_are_even_and_never_too_small():
    assert memory.share(1) == max(memory.LEAST, int(memory.machine() * 0.8))
    assert memory.share(10**6) == memory.LEAST


def test_the_processor_time_of_a_process_is_read_and_nobodys_is_none():
    before = time.process_time()
    assert before <= memory.processor_seconds(os.getpid()) <= time.process_time()
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    assert (memory.processor_seconds(process.pid), memory.processor_seconds(0)) == (0.0, 0.0)


@pytest.mark.skipif(not hasattr(os, "SCHED_BATCH"), reason="this system has no such turns")
def test_runners_give_way_to_those_who_reply_and_keep_a_place_that_was_chosen_for_them(opened):
    service = opened(slots=1)
    assert ask(service, "ann", "n").state == "answered"
    here = os.sched_getscheduler(0)
    expected = os.SCHED_BATCH if here == os.SCHED_OTHER else here
    assert {os.sched_getscheduler(process) for process in runners(service)} == {expected}


def test_a_question_that_was_planned_is_not_planned_again_where_it_runs(opened):
    """Planning is most of the wait for many questions. After a new version of the data set everything is planned anew."""
    service = opened(slots=1)
    assert ask(service, "ann", "plans_again").state == "answered"
    service._plans._known.clear()
    job = service.ask(service.people.trusted("bob", "test"), "visits", Question(counting(0.1, "plans_again_too")))
    assert service.wait(job.id, 60.0).state == "answered"


def test_a_plan_of_another_process_is_made_again(opened, monkeypatch):
    service = opened(slots=1)
    monkeypatch.setattr(service._plans, "made", lambda _: b"")
    job = ask(service, "ann", "plans_again")
    assert (job.state, job.charged, job.error["code"]) == ("failed", False, "E_INTERNAL")
    monkeypatch.setattr(service._plans, "made", lambda _: b"not a plan")
    assert ask(service, "ann", "n").state == "answered"


def test_a_process_that_hangs_on_another_data_set_is_replaced_by_one_that_opens_what_is_asked(tmp_path, monkeypatch):
    """Every statement waited twenty minutes for a source that it did not need."""
    monkeypatch.setattr(hired, "OPENING_SECONDS", 0.3)
    folder = write_folder(tmp_path / "data")
    catalog = (tmp_path / "shoal.toml").read_text()
    visits, hangs = (Place(name, 1, str(folder), catalog, 300.0) for name in ("visits", "hangs"))
    one = hired.Hired(0)
    try:
        one.make_ready([hangs, visits])
        first = one.pid
        one._open_first(visits)
        assert (one._is_open, one._told, gone(first)) == (True, {"visits": 1}, True)
        one.make_ready([hangs, visits])  # not again, for a while
        one._open_first(visits)
        assert (one._is_open, one._told) == (True, {"visits": 1})
    finally:
        one.kill()
