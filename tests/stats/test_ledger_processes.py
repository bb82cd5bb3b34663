"""The ledger under many processes, under kill -9 at every step of its life, and under fork.

Nothing here is sampled against a law: the counts are exact, and a single violation fails.
"""

import os
import random
import secrets
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path

import psycopg
import pytest
from forked import in_child

from shoal.accounting.accountants import Loss
from shoal.accounting.ledger import Ledger
from shoal.accounting.stores import files
from shoal.accounting.stores.check import check_everything
from shoal.errors import ShoalError
from shoal.params import Budget

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning"),
]

BUDGET = Budget(Fraction(3), Fraction(1, 10**6))
THOUSANDTH = Loss(BUDGET.epsilon / 1000, BUDGET.delta / 1000)


def ending_of(child):
    """0, 1, or minus the signal that killed it."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.fixture(params=["file", "postgresql"])
def path(request, tmp_path):
    """Where a ledger can be made that several processes share."""
    return tmp_path / "ledger.db" if request.param == "file" else request.getfixturevalue("postgres_ledger")


def test_64_clients_of_16_processes_release_exactly_what_the_budget_holds(path):
    ledger = Ledger.create(path, BUDGET)
    clients = Path(__file__).with_name("ledger_clients.py")
    run = subprocess.run([sys.executable, clients, str(path)], check=True, capture_output=True, text=True)
    counts = [tuple(map(int, line.split())) for line in run.stdout.splitlines()]
    assert len(counts) == 16
    assert sum(released for released, _ in counts) == 1000
    assert sum(refused for _, refused in counts) == 16 * 4 * 20 - 1000
    assert ledger.spent == (BUDGET.epsilon, BUDGET.delta)
    assert len(ledger.entries()) == 1000


def test_processes_that_make_one_ledger_at_the_same_time_share_it(tmp_path):
    """Whoever comes second opens what the first has made, and spends on the same budget."""

    def spend(path, start):
        os.read(start, 1)
        Ledger.create_or_open(path, BUDGET).reserve(THOUSANDTH).commit()

    for number in range(5):
        path = tmp_path / f"ledger{number}.db"
        start, go = os.pipe()
        children = [in_child(lambda path=path, start=start: spend(path, start)) for _ in range(8)]
        os.write(go, b"x" * 8)
        assert [ending_of(child) for child in children] == [0] * 8
        assert Ledger.open(path).spent[0] == 8 * THOUSANDTH.epsilon
        os.close(start)
        os.close(go)


@pytest.mark.parametrize("store", ["file", "memory", "postgresql"])
def test_a_thousand_parallel_failures_of_one_user_are_one_failure(request, tmp_path, store):
    path = {"file": lambda: tmp_path / "ledger.db", "postgresql": lambda: request.getfixturevalue("postgres_ledger")}
    ledger = Ledger.in_memory(BUDGET) if store == "memory" else Ledger.create(path[store](), BUDGET)
    with ThreadPoolExecutor(50) as clients:
        runs = list(clients.map(lambda _: ledger.reserve(THOUSANDTH, user="ann"), range(1000)))
        told = Counter(clients.map(lambda run: code_of(run.fail), runs))
    assert told == {"failed": 1, "E_SUSPENDED": 999}
    assert Counter(entry.state for entry in ledger.entries()) == {"failed": 1, "withheld": 999}
    assert len(ledger.suspensions()) == 1
    assert ledger.spent == (BUDGET.epsilon, BUDGET.delta)
    with ledger._store.reading() as transaction:
        check_everything(transaction)


def code_of(fail):
    try:
        fail()
    except ShoalError as error:
        return error.code
    return "failed"


class KilledConnection(sqlite3.Connection):
    """A connection that kills its process, the hard way, just before or just after the n-th statement."""

    statements_left = 0
    after = False

    def execute(self, *args):
        KilledConnection.statements_left -= 1
        if KilledConnection.statements_left == 0 and not KilledConnection.after:
            os.kill(os.getpid(), signal.SIGKILL)
        result = super().execute(*args)
        if KilledConnection.statements_left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return result


class KilledStatements:
    """The same for PostgreSQL. A commit is no statement of its own: it is between the last one and the next."""

    left = 0
    after = False
    unharmed = psycopg.Connection.execute

    def execute(self, *args, **options):
        KilledStatements.left -= 1
        if KilledStatements.left == 0 and not KilledStatements.after:
            os.kill(os.getpid(), signal.SIGKILL)
        result = KilledStatements.unharmed(self, *args, **options)
        if KilledStatements.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return result


def kill_at_statement(number, *, after):
    """From now on in this process, whatever the store."""
    KilledStatements.left, KilledStatements.after = number, after
    psycopg.Connection.execute = KilledStatements.execute
    connect = sqlite3.connect
    KilledConnection.statements_left, KilledConnection.after = number, after
    files.sqlite3.connect = lambda *args, **options: connect(*args, factory=KilledConnection, **options)


def one_release(path, answered):
    """The whole life of a spend; the answer leaves through the pipe, last of all."""
    ledger = Ledger.open(path)
    reservation = ledger.reserve(THOUSANDTH, user=str(os.getpid()), description="SELECT …", fingerprint="q")
    answer = reservation.answer
    if answer is None:
        answer = os.urandom(16)
        reservation.commit(answer)
    os.write(answered, answer)


def new_file(tmp_path, _):
    path = tmp_path / "ledger.db"
    path.unlink(missing_ok=True)
    Ledger.create(path, BUDGET)
    return path


def file_of_format_1(tmp_path, _):
    path = tmp_path / "ledger.db"
    path.unlink(missing_ok=True)
    connection = sqlite3.connect(path)
    connection.executescript((Path(__file__).parent.parent / "unit" / "accounting" / "format_1.sql").read_text())
    connection.close()
    return path


def new_name(_, request):
    path = f"{request.getfixturevalue('postgres_server')[0]}#l{secrets.token_hex(8)}"
    Ledger.create(path, BUDGET)
    return path


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(
    ("made", "earlier", "least"), [(new_file, 0, 60), (file_of_format_1, 3, 90), (new_name, 0, 35)]
)
def test_killed_at_any_statement_no_answer_goes_out_without_a_durable_charge(
    tmp_path, request, made, earlier, least, after
):
    number = 0
    while True:
        number += 1
        path = made(tmp_path, request)
        answers, answered = os.pipe()

        def killed_release(number=number, answered=answered, path=path):
            kill_at_statement(number, after=after)
            one_release(path, answered)

        ended = ending_of(in_child(killed_release))
        first_charges = len(Ledger.open(path).entries()) - earlier  # opens without repair
        stored = Ledger.open(path).stored_answer("q")
        assert ending_of(in_child(lambda answered=answered, path=path: one_release(path, answered))) == 0
        os.close(answered)
        released = os.read(answers, 1000)
        os.close(answers)
        charges = len(Ledger.open(path).entries()) - earlier
        assert first_charges <= 1
        if ended == 0:  # the life was shorter than that many statements, so every step was tried
            assert released == stored * 2
            assert charges == 1
            break
        assert ended == -signal.SIGKILL
        assert len(released) == 16
        assert stored in {None, released}
        assert charges == (1 if stored else first_charges + 1)
    assert number > least


@pytest.mark.parametrize("after", [False, True])
def test_killed_while_it_is_made_a_ledger_is_there_whole_or_not_at_all(tmp_path, after):
    number, ended = 0, -signal.SIGKILL
    while ended == -signal.SIGKILL:
        number += 1
        path = tmp_path / f"ledger{number}.db"

        def killed_creation(number=number, path=path):
            kill_at_statement(number, after=after)
            Ledger.create(path, BUDGET)

        ended = ending_of(in_child(killed_creation))
        ledger = Ledger.open(path) if path.exists() else Ledger.create(path, BUDGET)
        assert ledger.spent == (0, 0)
    assert ended == 0
    assert number > 20


def release_forever(path, reserved_or_released):
    """Say what happened only after it happened. Each process is a user of its own: who dies twice is suspended."""
    ledger, user = Ledger.open(path), str(os.getpid())
    while True:
        reservation = ledger.reserve(Loss(Fraction(1, 10**9), Fraction(0)), user=user)
        os.write(reserved_or_released, struct.pack("ci", b"c", reservation.sequence))
        reservation.commit(b"rows" * 500)
        os.write(reserved_or_released, struct.pack("ci", b"a", reservation.sequence))


def charges_or_code(path):
    try:
        return {entry.sequence for entry in Ledger.open(path).entries()}
    except ShoalError as error:
        return error.code


def test_killed_at_250_random_instants_everything_said_is_in_the_ledger(tmp_path):
    path = tmp_path / "ledger.db"
    Ledger.create(path, BUDGET)
    instants, hot_journals = random.Random(7), 0
    for _ in range(250):
        said, say = os.pipe()
        child = in_child(lambda say=say: release_forever(path, say))
        os.close(say)
        first = os.read(said, struct.calcsize("ci"))  # at work: from here on any instant will do
        time.sleep(instants.random() * 0.02)
        os.kill(child, signal.SIGKILL)
        assert ending_of(child) == -signal.SIGKILL
        hot_journals += (tmp_path / "ledger.db-journal").exists()
        shutil.copy(path, tmp_path / "without-journal.db")
        with os.fdopen(said, "rb") as pipe:
            events = list(struct.iter_unpack("ci", first + pipe.read()))
        states = {entry.sequence: entry.state for entry in Ledger.open(path).entries()}
        assert {sequence for _, sequence in events} <= states.keys()
        assert all(states[sequence] == "answered" for what, sequence in events if what == b"a")
        known = charges_or_code(tmp_path / "without-journal.db")
        assert known == "E_LEDGER" or {sequence for _, sequence in events} <= known
    ledger = Ledger.open(path)
    assert ledger.spent[0] == Fraction(len(ledger.entries()), 10**9)
    assert len(ledger.entries()) >= 250
    assert hot_journals > 0, "no kill hit a commit: the instants are too few"


def test_a_fork_in_the_middle_of_another_threads_spends_harms_nothing(tmp_path):
    path = tmp_path / "ledger.db"
    ledger = Ledger.create(path, BUDGET)
    stop, by_the_thread = threading.Event(), []

    def keep_spending():
        while not stop.is_set() and len(by_the_thread) < 500:
            by_the_thread.append(ledger.reserve(THOUSANDTH))

    thread = threading.Thread(target=keep_spending)
    thread.start()
    children = [in_child(lambda: [ledger.reserve(THOUSANDTH).commit(b"rows") for _ in range(5)]) for _ in range(20)]
    ended = [ending_of(child) for child in children]
    stop.set()
    thread.join()
    assert ended == [0] * 20
    assert len(Ledger.open(path).entries()) == 100 + len(by_the_thread)
    assert ledger.spent[0] == BUDGET.epsilon * (100 + len(by_the_thread)) / 1000
