"""What happens to the file behind the ledger's back is found out: edits, cuts, swaps, older copies, other files."""

import gc
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from fractions import Fraction

import pytest

from shoal.accounting.accountants import Loss
from shoal.accounting.allowances import Allowance
from shoal.accounting.ledger import Ledger
from shoal.accounting.promises import Promise
from shoal.accounting.spending import opening
from shoal.accounting.spending.asking import Ask
from shoal.accounting.stores import files
from shoal.errors import ShoalError
from shoal.params import Budget

TENTH = Loss(Fraction(1, 10), Fraction(1, 10**9))
BUDGET = Budget(Fraction(2), Fraction(1, 10**6))


@pytest.fixture(autouse=True, params=[False, True], ids=["fresh", "kept"])
def keeps(request, monkeypatch):
    """Whether a ledger keeps its connection; what is done to the file is found out either way."""
    whole = files.FileStore
    monkeypatch.setattr(opening, "FileStore", lambda path, **_: whole(path, keeps=request.param))
    return request.param


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "ledger.db"
    ledger = Ledger.create(path, BUDGET)
    for number in range(4):
        options = {"fingerprint": f"k{number}", "accounts": [Allowance("user:ann", "day")]}
        ledger.reserve(TENTH, user="ann", description=f"query {number}", **options).commit(b"rows")
    ledger.reserve(TENTH, user="bob").fail()
    ledger.reserve(TENTH, user="cy")
    return path


def edit(path, *statements):
    """Change the file as someone with SQLite at hand would, the safeguards out of the way and then put back."""
    connection = sqlite3.connect(path)
    triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for name, _ in triggers:
        connection.execute(f"DROP TRIGGER {name}")
    for statement in statements:
        connection.execute(statement)
    for _, sql in triggers:
        connection.execute(sql)
    connection.commit()
    connection.close()


def assert_found_out(call, *args, **options):
    with pytest.raises(ShoalError) as caught:
        call(*args, **options)
    assert caught.value.code == "E_LEDGER"
    assert "sqlite" not in str(caught.value).lower()
    return caught.value


COLUMNS = [
    "kind",
    "epsilon",
    "delta",
    "rho",
    "rho_delta",
    "user",
    "description",
    "key",
    "noted_at",
    "answer_sha256",
    "hash",
]


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("sequence", [1, 2, 5, 10, 11, 12])
def test_an_edited_field_of_any_row_is_found_out(path, column, sequence):
    edit(path, f"UPDATE entries SET {column} = '0/1' WHERE sequence = {sequence}")
    assert_found_out(Ledger.open, path)


SWAP = (
    "UPDATE entries SET sequence = 99 WHERE sequence = 1",
    "UPDATE entries SET sequence = 1 WHERE sequence = 3",
    "UPDATE entries SET sequence = 3 WHERE sequence = 99",
)
MOVE_TEXT = "UPDATE entries SET user = '', description = user || char(31) || description WHERE sequence = 1"
DOUBLE = f"INSERT INTO entries SELECT 13, 0, {', '.join(COLUMNS)} FROM entries WHERE sequence = 1"
TAMPERING = {
    "a deleted first row": ("DELETE FROM entries WHERE sequence = 1",),
    "a deleted middle row": ("DELETE FROM entries WHERE sequence = 4",),
    "a deleted last row": ("DELETE FROM entries WHERE sequence = 12",),
    "no rows": ("DELETE FROM entries",),
    "two swapped rows": SWAP,
    "all numbers moved up": ("UPDATE entries SET sequence = sequence + 100",),
    "a row twice": (DOUBLE,),
    "an amount of another type": ("UPDATE entries SET epsilon = x'312f3130' WHERE sequence = 1",),
    "an amount of NaN": ("UPDATE head SET epsilon = 'NaN'",),
    "an amount over nothing": ("UPDATE head SET epsilon = '1/0'",),
    "a negative amount": ("UPDATE head SET epsilon = '-1/10'",),
    "an endless amount": (f"UPDATE head SET epsilon = '{'9' * 5000}/1'",),
    "text moved between fields": (MOVE_TEXT,),
    "smaller sums": ("UPDATE head SET epsilon = '0/1', delta = '0/1', rho = '0/1', rho_delta = '0/1'",),
    "an older head": ("UPDATE head SET sequence = 11",),
    "no head": ("DELETE FROM head",),
    "a larger budget": ("UPDATE header SET epsilon = '1000/1'",),
    "no budget": ("UPDATE header SET epsilon = '', delta = ''",),
    "another accountant": ("UPDATE header SET accountant = 'zcdp'",),
    "no header": ("DELETE FROM header",),
    "a dropped table": ("DROP TABLE entries",),
    "one more trigger": ("CREATE TRIGGER t AFTER INSERT ON entries BEGIN UPDATE head SET epsilon = '0/1'; END",),
    "an older version": ("PRAGMA user_version = 1",),
    "no version": ("PRAGMA user_version = 0",),
    "other details": ("UPDATE details SET body = '{}'",),
    "no details": ("DELETE FROM details",),
    "another request": ("UPDATE details SET request = 'r'",),
    "another promise": ('UPDATE header_2 SET promise = \'{"kind":"local"}\'',),
    "an older header": ("UPDATE header_2 SET written = 1",),
    "a larger budget in the state": ("UPDATE state SET epsilon = '1000/1'",),
    "an account of less": ("UPDATE accounts SET epsilon = '0/1'",),
    "no accounts": ("DELETE FROM accounts",),
    "nobody suspended": ("DELETE FROM suspensions",),
    "another clock": ("UPDATE state SET latest = '2000-01-01T00:00:00Z'",),
    "nothing running": ("DELETE FROM running",),
    "another application": ("PRAGMA application_id = 7",),
}


@pytest.mark.parametrize("statements", TAMPERING.values(), ids=TAMPERING.keys())
def test_tampering_is_found_out(path, statements):
    edit(path, *statements) if "DROP" not in statements[0] else edit_without_safeguards(path, statements)
    assert_found_out(Ledger.open, path)


def edit_without_safeguards(path, statements):
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.close()


def test_a_ledger_of_a_newer_version_is_said_to_be_that(path):
    edit(path, "PRAGMA user_version = 3")
    error = assert_found_out(Ledger.open, path)
    assert "made by a newer shoal" in error.message
    assert "Upgrade" in error.hint
    assert "new ledger" not in str(error)


def test_safeguards_that_were_taken_away_are_missed(path):
    edit_without_safeguards(path, ("DROP TRIGGER entries_no_UPDATE",))
    assert_found_out(Ledger.open, path)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entries SET epsilon = '0/1'",
        "DELETE FROM entries",
        "UPDATE pieces SET body = x''",
        "UPDATE details SET body = '{}'",
        "DELETE FROM details",
        "UPDATE header_2 SET promise = ''",
        "DELETE FROM state",
        "UPDATE header SET epsilon = '9/1'",
        "DELETE FROM header",
        "DELETE FROM head",
    ],
)
def test_rows_cannot_be_changed_through_an_ordinary_connection(path, statement):
    with pytest.raises(sqlite3.IntegrityError):
        edit_without_safeguards(path, (statement,))
    Ledger.open(path)


def test_a_changed_or_removed_answer_is_not_replayed(path):
    edit(path, "UPDATE pieces SET body = x'00' WHERE reservation = 1", "DELETE FROM pieces WHERE reservation = 3")
    ledger = Ledger.open(path)
    assert_found_out(ledger.stored_answer, "k0")
    assert_found_out(ledger.reserve, TENTH, fingerprint="k1")
    assert ledger.stored_answer("k2") == b"rows"


def test_an_edit_under_a_running_session_is_found_out_by_its_next_spend(path):
    ledger = Ledger.open(path)
    edit(path, "UPDATE head SET epsilon = '0/1'")
    assert_found_out(ledger.reserve, TENTH)


def test_an_older_copy_under_a_running_session_is_found_out(path, tmp_path):
    shutil.copy(path, tmp_path / "yesterday.db")
    ledger = Ledger.open(path)
    ledger.reserve(TENTH)
    shutil.copy(tmp_path / "yesterday.db", path)
    assert_found_out(ledger.reserve, TENTH)


def test_another_ledger_in_its_place_is_found_out(path, tmp_path):
    ledger = Ledger.open(path)
    Ledger.create(tmp_path / "new.db", BUDGET)
    shutil.copy(tmp_path / "new.db", path)
    assert_found_out(ledger.reserve, TENTH)


def test_an_older_copy_is_found_out_at_the_start_only_with_an_anchor(path, tmp_path):
    shutil.copy(path, tmp_path / "yesterday.db")
    ledger = Ledger.open(path)
    ledger.reserve(TENTH)
    anchor = ledger.anchor
    Ledger.open(path, anchor=anchor)
    shutil.copy(tmp_path / "yesterday.db", path)
    Ledger.open(path)
    assert_found_out(Ledger.open, path, anchor=anchor)


@pytest.mark.parametrize("kept", [0, 1, 15, 16, 99, 100, 4095, 4096, 5000, 8192, -4096, -1, 10**6])
def test_a_truncated_or_lengthened_file_is_found_out(path, kept):
    whole = path.read_bytes()
    path.write_bytes(whole[:kept] if kept < len(whole) else whole + bytes(4096))
    assert_found_out(Ledger.open, path)


def opened_or_refused(path):
    try:
        ledger = Ledger.open(path)
    except ShoalError as error:
        return error.code
    return ledger.spent, ledger.budget


def test_flipped_bytes_never_let_more_be_spent(path):
    whole = path.read_bytes()
    spent = Ledger.open(path).spent
    for position in range(0, len(whole), 61):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 0x55]) + whole[position + 1 :])
        assert opened_or_refused(path) in {"E_LEDGER", (spent, BUDGET)}


@pytest.mark.parametrize(
    "content", [b"", b"hello", b"PAR1" * 1000, b"SQLite format 3\x00" + b"\xff" * 5000, os.urandom(9000)]
)
def test_a_foreign_file_is_refused_and_left_alone(tmp_path, content):
    path = tmp_path / "foreign"
    path.write_bytes(content)
    assert_found_out(Ledger.open, path)
    assert path.read_bytes() == content


def test_a_database_of_someone_else_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "other.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE entries (sequence INTEGER)")
    connection.commit()
    connection.close()
    before = path.read_bytes()
    assert_found_out(Ledger.open, path)
    assert path.read_bytes() == before


def test_places_that_hold_no_file_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path, tmp_path / "missing.db", tmp_path / "missing" / "ledger.db", tmp_path / "pipe", "a\0b"):
        assert_found_out(Ledger.open, place)
    for place in (tmp_path, tmp_path / "missing" / "ledger.db", tmp_path / "pipe", "a\0b"):
        assert_found_out(Ledger.create, place, BUDGET)
    assert [left.name for left in tmp_path.iterdir()] == ["pipe"]


def test_a_ledger_that_vanishes_is_not_made_anew(path):
    ledger = Ledger.open(path)
    path.unlink()
    assert_found_out(ledger.reserve, TENTH)
    assert not path.exists()


def test_a_ledger_stays_where_it_was_opened(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ledger = Ledger.open(path.name)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    ledger.reserve(TENTH)
    assert Ledger.open(path).spent == ledger.spent


def test_looking_changes_nothing(path):
    before = path.read_bytes()
    ledger = Ledger.open(path)
    assert ledger.spent
    assert ledger.remaining
    assert ledger.entries()
    assert ledger.stored_answer("k0")
    assert path.read_bytes() == before


def test_every_connection_is_durable(path):
    with Ledger.open(path)._store._connected() as connection:
        assert connection.execute("PRAGMA synchronous").fetchone() == (3,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)


def test_a_write_ahead_log_is_turned_back_into_one_file(path):
    edit_without_safeguards(path, ("PRAGMA journal_mode = WAL",))
    Ledger.open(path).reserve(TENTH)
    assert list(path.parent.iterdir()) == [path]


def test_a_ledger_held_by_another_process_is_reported_as_busy(path, monkeypatch):
    monkeypatch.setattr(files, "BUSY_SECONDS", 0.1)
    ledger = Ledger.open(path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert "locked" in assert_found_out(ledger.reserve, TENTH).message
    other.execute("ROLLBACK")
    other.close()
    ledger.reserve(TENTH)


FULL_DISK = """
import resource, sys
from fractions import Fraction
from shoal.accounting.accountants import Loss
from shoal.accounting.ledger import Ledger
from shoal.errors import ShoalError
ledger = Ledger.open(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
try:
    while True:
        ledger.reserve(Loss(Fraction(1, 10**6), Fraction(0)), description="x" * 3000)
except ShoalError as error:
    print(error.code, error.message)
"""


@pytest.mark.parametrize("room", [0, 20_000, 100_000])
def test_when_the_disk_is_full_nothing_is_reserved_and_the_ledger_stays_whole(path, room):
    size = path.stat().st_size if room else 0
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(path), str(size + room)], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("E_LEDGER The ledger cannot be read and written")
    ledger = Ledger.open(path)
    assert ledger.spent[0] == Fraction(6, 10) + Fraction(len(ledger.entries()) - 6, 10**6)


@pytest.mark.slow
def test_a_hundred_thousand_rows_are_checked_in_about_a_second(tmp_path, quickest):
    ledger = Ledger.create(tmp_path / "ledger.db", Budget(Fraction(10**6), Fraction(1, 10)))
    ask = {"description": "SELECT COUNT(*) FROM visits" * 5, "promise": Promise.owner(), "cost": None, "accounts": ()}
    with ledger._store.writing() as transaction:
        pen = ledger._pen(transaction)
        for number in range(100_000):
            pen.charge(Ask(TENTH, "ann", fingerprint=f"k{number}", request=None, resume=False, **ask))
        transaction.put_head(pen.head)
    assert quickest(lambda: Ledger.open(tmp_path / "ledger.db"), below=2) < 3
    again = Ledger.open(tmp_path / "ledger.db")
    assert again.spent[0] == 10**4


def connections(monkeypatch):
    """How often a connection was made."""
    made, connect = [], sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *args, **options: made.append(1) or connect(*args, **options))
    return made


def test_a_connection_is_kept_while_the_file_is_the_same(path, tmp_path, keeps, monkeypatch):
    ledger = Ledger.open(path)
    made = connections(monkeypatch)
    for _ in range(3):
        ledger.reserve(TENTH, user="dan").commit(b"rows")
    assert len(made) == (0 if keeps else 6)
    assert not list(path.parent.glob("*-journal"))
    copy = tmp_path / "copy.db"
    shutil.copy(path, copy)
    copy.replace(path)  # another file, of the same content
    made.clear()
    ledger.reserve(TENTH, user="dan").commit(b"rows")
    assert len(made) == (1 if keeps else 2)
    assert Ledger.open(path).spent == ledger.spent


def test_a_connection_on_which_something_failed_is_not_kept(path, keeps, monkeypatch):
    ledger = Ledger.open(path)
    with pytest.raises(ZeroDivisionError), ledger._store.writing():
        raise ZeroDivisionError
    made = connections(monkeypatch)
    ledger.reserve(TENTH, user="dan")
    assert len(made) == 1
    ledger.reserve(TENTH, user="dan")
    assert len(made) == (1 if keeps else 2)


def test_a_look_inside_a_transaction_has_its_own_connection(path):
    store = Ledger.open(path)._store
    with store.writing() as outer, store.reading() as inner:
        assert outer.head() == inner.head()
    with store.writing() as again:
        assert again.head()


def test_threads_take_turns_at_a_connection(path):
    ledger, wrong = Ledger.open(path), []

    def spend():
        try:
            for _ in range(5):
                ledger.reserve(Loss(Fraction(1, 1000), Fraction(0)), user="dan").commit(b"rows")
        except Exception as error:  # noqa: BLE001 - whatever it was
            wrong.append(error)

    threads = [threading.Thread(target=spend) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len([entry for entry in Ledger.open(path).entries() if entry.user == "dan"]) == 30


def test_a_forked_process_has_its_own_connection(path):
    ledger = Ledger.open(path)
    ledger.reserve(TENTH, user="dan").commit(b"rows")
    child = os.fork()
    if child == 0:
        ended = 1
        try:
            ledger.reserve(TENTH, user="child").commit(b"rows")
            ended = 0
        finally:
            os._exit(ended)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    ledger.reserve(TENTH, user="dan").commit(b"rows")
    assert [entry.user for entry in Ledger.open(path).entries()][-3:] == ["dan", "child", "dan"]


def test_a_ledger_that_nobody_has_any_more_keeps_nothing_open(path, keeps):
    ledger = Ledger.open(path)
    kept = ledger._store._kept
    assert (kept._connection is not None) is keeps
    del ledger
    gc.collect()
    assert kept._connection is None
