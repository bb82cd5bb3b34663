"""Callers who try for more than they were given: dearer questions, other data sets, longer lives, somebody else's jobs."""

from __future__ import annotations

import socket
import threading
import time
from fractions import Fraction

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from service_calls import refused, spent
from service_shop import CATALOG, counting

from shoal import remembered
from shoal.accounting.accountants import Loss
from shoal.accounting.spending.asking import Request
from shoal.params import budget
from shoal.service import jobs
from shoal.service.acts.planned import Asked
from shoal.service.allowances import Grant
from shoal.service.datasets import NewDataSet
from shoal.service.limits import Limits
from shoal.service.questions import Question
from shoal.service.runners import wire
from shoal.service.runners.runner import Runner
from shoal.service.running import Slots
from shoal.service.service import OPERATOR

POLICY = """
[tables.visits.policies.near]
domain = { age = [0, 99] }
secret = { distance = { age = 5 } }
"""
UNDER_POLICY = "SELECT WITH POLICY OPTIONS(policy = 'near', epsilon = 0.2) SUM(age) AS total FROM visits"


@pytest.fixture
def place(tmp_path):
    """What a caller may do is decided above the store."""
    return tmp_path / "home"


def trusted(service, name):
    return service.people.trusted(name, "test")


def token(service, name, *scope, **limits):
    return service.people.caller(service.create_token(OPERATOR, name, list(scope) or None, **limits)["token"])


# ---- dearer than allowed ---------------------------------------------------------------------------------------------


@pytest.fixture
def with_policy(opened, folder):
    ages = [i % 90 for i in range(600)]
    visits = pq.read_table(folder / "visits.parquet").append_column("age", pa.array(ages))
    pq.write_table(visits, folder / "visits.parquet")
    (folder.parent / "shoal.toml").write_text(CATALOG + POLICY)
    return opened((50.0, 1e-5))


def test_a_policy_cannot_cost_more_than_a_query_may(with_policy):
    with_policy.allow(OPERATOR, Grant("visits", "ann", max_epsilon=Fraction(1, 2)))
    with refused("E_POLICY"):
        with_policy.ask(trusted(with_policy, "ann"), "visits", Question(UNDER_POLICY))
    assert spent(with_policy) == 0


def test_a_policy_waits_for_approval_by_what_it_costs_and_says_so(with_policy):
    service, ann = with_policy, trusted(with_policy, "ann")
    service.allow(OPERATOR, Grant("visits", "ann", approve_above=Fraction(1, 2)))
    explained = service.explain(ann, "visits", UNDER_POLICY)
    job = service.ask(ann, "visits", Question(UNDER_POLICY))
    (approval,) = service.approvals(trusted(service, "carla"))
    assert (job.state, explained["needs_approval"]) == ("approval", True)
    service.decide(trusted(service, "carla"), approval["id"], "approve")
    assert service.wait(job.id, 30).state == "answered"
    told = {explained["price"]["epsilon"], approval["explanation"]["price"]["epsilon"], float(job.epsilon)}
    assert told == {float(spent(service))}
    assert explained["epsilon"] == 0.2


def test_who_audits_and_analyses_asks_what_is_open_to_them_alone(service):
    service.add_user(OPERATOR, "both", ["analyst", "auditor"])
    both = trusted(service, "both")
    answer = service.wait(service.ask(trusted(service, "ann"), "visits", Question(counting())).id, 30).answer
    assert service.budget(both, "visits")["spent"]["epsilon"] == 0.1
    for act in (
        lambda: service.ask(both, "visits", Question(counting(0.3))),
        lambda: service.explain(both, "visits", counting()),
        lambda: service.epsilon_for(both, "visits", counting(), 10.0),
        lambda: service.answer(both, answer),
    ):
        with refused("E_NOT_FOUND"):
            act()
    service.allow(OPERATOR, Grant("visits", "both", max_epsilon=Fraction(1, 5)))
    with refused("E_POLICY"):
        service.ask(both, "visits", Question(counting(0.3)))


def test_nobody_floods_a_custodian_with_questions(service):
    service.allow(OPERATOR, Grant("visits", "ann", approve_above=Fraction(1, 10)))
    ann = trusted(service, "ann")
    for number in range(jobs.WAITING_PER_PERSON):
        assert service.ask(ann, "visits", Question(counting(0.2, f"n{number}"))).state == "approval"
    with refused("E_BUSY"):
        service.ask(ann, "visits", Question(counting(0.2)))
    assert len(service.approvals(trusted(service, "carla"))) == jobs.WAITING_PER_PERSON


# ---- more than the token at hand -------------------------------------------------------------------------------------


def test_a_token_makes_none_that_lives_longer(service):
    short = token(service, "ann", days=1)
    assert service.create_token(short, days=366)["expires"] == short.expires
    assert service.create_token(trusted(service, "ann"), days=366)["expires"] > short.expires


def test_a_custodians_token_for_one_data_set_does_not_reach_beyond_it(service, folder):
    catalog = str(folder.parent / "shoal.toml")
    service.add_dataset(OPERATOR, NewDataSet("others", str(folder), catalog, budget((1, 0)), new_people=True))
    narrow = token(service, "carla", datasets=["others"])
    for act in (
        lambda: service.create_token(narrow, "ann"),
        lambda: service.add_user(narrow, "eve", ["custodian"]),
        lambda: service.retire_user(narrow, "ann"),
        lambda: service.log(narrow),
        lambda: service.export_log(narrow),
        lambda: service.metrics(narrow),
        lambda: service.raise_budget(narrow, "others", budget((9, 0)), "more"),
        lambda: service.add_dataset(narrow, NewDataSet("third", str(folder), catalog, budget((1, 0)), new_people=True)),
    ):
        with refused("E_FORBIDDEN"):
            act()
    for act in (service.refresh, service.retire_dataset):
        with refused("E_NOT_FOUND"):
            act(narrow, "visits")
    service.refresh(narrow, "others")
    with refused("E_NOT_FOUND"):
        service.revoke_token(narrow, token(service, "ann").token)
    assert {each["user"] for each in service.tokens(narrow)} == {"carla"}


@pytest.mark.parametrize("person", ["ann", "carla"])
def test_a_token_lists_and_revokes_itself_and_those_that_can_do_no_more(service, person):
    whole = trusted(service, person)
    smallest = token(service, person, "explain", datasets=["visits"])
    alike = token(service, person, "explain", datasets=["visits"])
    wider = [
        token(service, person, "explain", "read", datasets=["visits"]),
        token(service, person, "explain"),
        token(service, person, "explain", datasets=["visits", "others"]),
        token(service, person),
    ]
    assert {each["id"] for each in service.tokens(smallest)} == {smallest.token, alike.token}
    for other in wider:
        with refused("E_NOT_FOUND"):
            service.revoke_token(smallest, other.token)
    service.revoke_token(smallest, alike.token)
    service.revoke_token(smallest, smallest.token)
    assert {each["id"] for each in service.tokens(whole)} >= {each.token for each in wider}


def test_a_token_sees_and_ends_jobs_within_its_limits_alone(opened, folder):
    service = opened(start=False)
    catalog = str(folder.parent / "shoal.toml")
    service.add_dataset(OPERATOR, NewDataSet("others", str(folder), catalog, budget((1, 0)), new_people=True))
    service.allow(OPERATOR, Grant("others", "ann"))
    job = service.ask(trusted(service, "ann"), "visits", Question(counting()))
    with refused("E_NOT_FOUND"):
        service.job(token(service, "ann", datasets=["others"]), job.id)
    with refused("E_FORBIDDEN"):
        service.cancel(token(service, "ann", "explain", "read"), job.id)
    service.start()
    done = service.wait(job.id, 30)
    assert service.answer_of(token(service, "ann", "read"), done).result.columns == ["n"]
    with refused("E_FORBIDDEN"):
        service.answer_of(token(service, "ann", "explain"), done)
    with refused("E_NOT_FOUND"):
        service.answer_of(token(service, "ann", datasets=["others"]), done)


def test_a_token_for_one_data_set_shows_no_question_about_another(opened):
    service = opened(start=False)
    service.allow(OPERATOR, Grant("visits", "ann", approve_above=Fraction(1, 100)))
    assert service.ask(trusted(service, "ann"), "visits", Question(counting())).state == "approval"
    assert len(service.approvals(token(service, "ann", datasets=["visits"]))) == 1
    assert service.approvals(token(service, "ann", datasets=["others"])) == []
    assert service.approvals(token(service, "carla", datasets=["others"])) == []
    assert service.approvals(trusted(service, "bob")) == []


# ---- what a budget says ----------------------------------------------------------------------------------------------


def test_nobody_sees_that_a_run_was_taken_up_again(opened):
    """A process may die of one person's rows and not of the rest: that it did, and the answer came all the same, is not told."""
    faces = []
    for number, dies in enumerate((False, True)):
        service = opened((8.0, 1e-5))
        ledger = service.datasets.get("visits").ledger
        for what in ("a", "b"):
            request = Request(f"{number}{what}", "0" * 64)
            asked = {"user": "ann", "description": counting(0.1, what), "request": request}
            charge = ledger.reserve(Loss(Fraction(1, 10), Fraction(0)), **asked)
            if dies:
                charge = ledger.reserve(Loss(Fraction(1, 10), Fraction(0)), **asked, resume=True)
            charge.commit(b"an answer")
        told = service.budget(trusted(service, "ann"), "visits")
        faces.append((sorted(told), [(each["sequence"], each["state"]) for each in told["entries"]][-2:]))
        service.close(5.0)
    assert faces[1][0] == faces[0][0]
    assert "anchor" not in faces[0][0]
    assert faces[0][1] == [(1, "answered"), (2, "answered")]
    assert faces[1][1] == [(3, "answered"), (4, "answered")]


def test_what_one_person_asks_makes_nothing_faster_for_another(opened, folder):
    """Plans and calibrations are remembered: half a second less would tell that a question, or its ε, was somebody else's, too."""
    open_limits = CATALOG.replace("max_rows_per_owner_and_group = 5", "").replace("max_groups_per_owner = 3", "")
    (folder.parent / "shoal.toml").write_text(f"{open_limits}\npopulation = 10000000\n")
    service = opened(start=False)
    sql = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 0.1) site, COUNT(*) AS n FROM visits GROUP BY site"
    ours, theirs = socket.socketpair()
    runner, found = Runner(theirs), []
    try:
        with ours, theirs:
            for name in ("ann", "bob", "bob", "ann"):
                asked = Asked(service.datasets.get("visits"), name, sql)
                runner.answer({"plan": service._plans._errand("explained", asked).to_dict(), "errand": 1}, b"")
                assert "planned" in wire.receive(ours)[0]
                found.append([each.cache_info()[:2] for each in remembered._everything])
    finally:
        remembered.remember_for(remembered.NOBODY)
    misses = [[number for _, number in each] for each in found]
    assert sum(number > 0 for number in misses[0]) > 3
    assert found[1] == found[0]
    assert (misses[2], misses[3]) == (misses[1], misses[0])


# ---- what a source says ----------------------------------------------------------------------------------------------


def test_a_source_that_cannot_be_read_tells_an_analyst_nothing_of_itself(service, folder):
    ann, ledger = trusted(service, "ann"), service.datasets.get("visits").ledger
    service.wait(service.ask(ann, "visits", Question(counting())).id, 30)
    visits = pq.read_table(folder / "visits.parquet")
    pq.write_table(visits.slice(5), folder / "visits.parquet")
    changed = service.wait(service.ask(ann, "visits", Question(counting(0.2))).id, 30).error
    service.refresh(OPERATOR, "visits")
    broken = pa.array([b"\xff"] + [b"s1"] * 599, pa.binary()).view(pa.string())
    pq.write_table(visits.set_column(1, "site", broken), folder / "visits.parquet")
    with refused("E_SOURCE") as unreadable:
        service.ask(ann, "visits", Question(counting(0.2)))
    assert changed == unreadable.value.to_dict()
    assert str(folder) not in str(changed)
    assert ledger.spent[0] == Fraction(1, 10)


# ---- what is free ------------------------------------------------------------------------------------------------------


def test_questions_over_public_tables_leave_slots_to_others(opened):
    service = opened(start=False, slots=4)
    for name, number in (("ann", 1), ("ann", 2), ("bob", 3), ("carla", 4)):
        service.ask(trusted(service, name), "visits", Question(f"SELECT site, {number} AS k FROM sites"))
    service.ask(trusted(service, "ann"), "visits", Question(counting()))
    with service.store.writing() as rows:
        taken = [jobs.take_next(rows, Limits(slots=4).free_slots) for _ in range(4)]
    assert [(job.person, job.is_free) if job else None for job in taken] == [
        ("ann", True),
        ("bob", True),
        ("ann", False),
        None,
    ]


def test_questions_that_name_a_long_time_leave_slots_to_others(opened):
    service = opened(start=False, slots=4)
    looks_short = ' -- "answer_time": null'
    for number in range(4):
        sql = counting(what=f"n{number}") + looks_short
        service.ask(trusted(service, "ann"), "visits", Question(sql, answer_time=3600.0))
    service.ask(trusted(service, "bob"), "visits", Question(counting()))
    with service.store.writing() as rows:
        taken = [jobs.take_next(rows, Limits(slots=4).free_slots) for _ in range(4)]
    assert [job.person if job else None for job in taken] == ["ann", "bob", "ann", None]


@pytest.fixture
def in_slots(monkeypatch):
    """Jobs that are in slots, in the order in which they came; each stays there until the test ends."""
    come, leave = [], threading.Event()

    def stay(self, job, runner, after):
        come.append((job.person, job.id))
        leave.wait(300)

    monkeypatch.setattr(Slots, "_run", stay)
    yield come
    leave.set()


@pytest.mark.parametrize("is_free", [True, False])
def test_whoever_cancels_holds_no_more_slots_than_before(opened, in_slots, is_free):
    """A cancelled run stays in its slot: what the data took must not be seen. It still counts against its asker."""
    service = opened(slots=4)
    ann, bob = trusted(service, "ann"), trusted(service, "bob")
    for number in range(4):
        free = Question(f"SELECT site, {number} AS k FROM sites")
        long = Question(counting(what=f"n{number}"), answer_time=3600.0)
        service.ask(ann, "visits", free if is_free else long)
    room = 1 if is_free else 2
    wait_until(lambda: len(in_slots) >= room)
    for _, job in list(in_slots):
        service.cancel(ann, job)
    service.ask(bob, "visits", Question(counting()))
    wait_until(lambda: "bob" in [person for person, _ in in_slots] or len(in_slots) == 4)
    assert [person for person, _ in in_slots] == ["ann"] * room + ["bob"]


def test_a_slot_whose_job_was_cancelled_is_not_free(opened, monkeypatch):
    monkeypatch.setattr("shoal.service.running.FREE_SECONDS", 3.0)
    inside, seen, whole = set(), [], Slots._run

    def counted(self, job, runner, after):
        inside.add(job.id)
        seen.append(len(inside))
        try:
            whole(self, job, runner, after)
        finally:
            inside.discard(job.id)

    monkeypatch.setattr(Slots, "_run", counted)
    service = opened()
    ann = trusted(service, "ann")
    many = ", ".join(f"sites AS s{number}" for number in range(32))
    endless = [
        Question(f"SELECT COUNT(*) AS n{number} FROM {many} WHERE s0.site || s1.town > s31.town || s30.site")
        for number in range(2)
    ]
    first = service.ask(ann, "visits", endless[0])
    wait_until(lambda: service.job(ann, first.id).state == "running")
    service.cancel(ann, first.id)
    second = service.ask(ann, "visits", endless[1])
    assert service.wait(second.id, 120).state == "failed"
    assert seen == [1, 1]


def wait_until(happened):
    ends = time.monotonic() + 120
    while not happened():
        assert time.monotonic() < ends
        time.sleep(0.05)


def test_a_question_over_public_tables_has_little_time(opened, monkeypatch):
    monkeypatch.setattr("shoal.service.running.FREE_SECONDS", 0.5)
    service = opened()
    many = ", ".join(f"sites AS s{number}" for number in range(32))
    sql = f"SELECT COUNT(*) AS n FROM {many} WHERE s0.site || s1.town > s31.town || s30.site"
    job = service.ask(trusted(service, "ann"), "visits", Question(sql))
    ended = service.wait(job.id, 60)
    assert (ended.state, ended.error["code"], ended.charged) == ("failed", "E_EXECUTION", False)
    answered = service.ask(trusted(service, "ann"), "visits", Question(counting()))
    assert service.wait(answered.id, 30).state == "answered"
