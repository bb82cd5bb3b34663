"""Files of format 1, made by the shoal that wrote them: they open as they are, and the first write extends them."""

from __future__ import annotations

import sqlite3
from fractions import Fraction
from pathlib import Path

import pytest

from shoal.accounting.accountants import Loss
from shoal.accounting.ledger import Ledger
from shoal.accounting.stores.sqlite_tables import FORMAT_1, SCHEMA_SHA256
from shoal.errors import ShoalError
from shoal.params import Budget

SCRIPT = Path(__file__).parent.parent / "format_1.sql"
ANCHOR = (5, "377df6a070874c2109e9d8785fb69c1e798f757e14e61aa3ccebfcac3525207c")
TENTH = Loss(Fraction(1, 10), Fraction(0))


@pytest.fixture
def path(tmp_path):
    """Two charges of ann (answered, failed) and one of bob, which was cut short."""
    path = tmp_path / "ledger.db"
    connection = sqlite3.connect(path)
    connection.executescript(SCRIPT.read_text(encoding="utf-8"))
    connection.close()
    return path


def old_tables(path):
    """Everything of format 1 but the head."""
    connection = sqlite3.connect(path)
    rows = {
        table: connection.execute(f"SELECT * FROM {table} ORDER BY 1 LIMIT 5").fetchall()
        for table in ("header", "entries", "answers")
    }
    schema = {sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master")}
    connection.close()
    return rows, schema >= set(FORMAT_1)


def test_a_file_of_format_1_is_read_as_it_is(path):
    before = path.read_bytes()
    ledger = Ledger.open(path, anchor=ANCHOR)
    assert ledger.anchor == ANCHOR
    assert (ledger.budget, ledger.promise.kind) == (Budget(Fraction(2), Fraction(1, 10**6)), "owner")
    assert [entry.state for entry in ledger.entries()] == ["answered", "failed", "reserved"]
    assert ledger.stored_answer("k") == b"rows"
    assert ledger.suspensions() == []
    assert ledger.accounts() == {}
    assert path.read_bytes() == before


def test_the_first_write_adds_tables_and_a_row_and_changes_nothing_old(path):
    before = old_tables(path)
    ledger = Ledger.open(path)
    ledger.reserve(TENTH, user="ann").commit(b"more")
    assert old_tables(path) == before
    assert ledger.spent[0] == Fraction(4, 10)
    again = Ledger.open(path, anchor=ANCHOR)
    assert again.anchor == (8, ledger.anchor[1])
    assert [entry.sequence for entry in again.entries()] == [1, 3, 5, 7]
    assert again.stored_answer("k") == b"rows"
    with again._store.reading() as transaction:
        assert (transaction.format, transaction.row(6).row.kind) == (2, "format")
        assert transaction.row(6).row.more == {"schema_sha256": SCHEMA_SHA256}


def test_a_refused_spend_upgrades_nothing(path):
    before = path.read_bytes()
    with pytest.raises(ShoalError):
        Ledger.open(path).reserve(Loss(Fraction(9), Fraction(0)))
    assert path.read_bytes() == before


def test_a_session_that_was_open_when_another_upgraded_goes_on(path):
    first, second = Ledger.open(path), Ledger.open(path)
    first.reserve(TENTH)
    second.reserve(TENTH).fail()
    assert second.is_suspended(None)
    assert first.is_suspended(None)
    assert Ledger.open(path).spent[0] == Fraction(5, 10)


def test_a_damaged_file_is_not_upgraded(path):
    connection = sqlite3.connect(path)
    connection.execute("UPDATE head SET epsilon = '0/1'")
    connection.commit()
    connection.close()
    before = path.read_bytes()
    with pytest.raises(ShoalError) as refused:
        Ledger.open(path)
    assert refused.value.code == "E_LEDGER"
    assert path.read_bytes() == before


def test_a_settlement_of_a_charge_of_format_1_is_its_first_write(path):
    ledger = Ledger.open(path)
    ledger._settle(5, "answer", [b"late"], "")
    assert [entry.state for entry in Ledger.open(path).entries()] == ["answered", "failed", "answered"]


def test_the_row_between_the_formats_cannot_be_taken_out(path):
    Ledger.open(path).reserve(TENTH)
    connection = sqlite3.connect(path)
    connection.execute("DROP TRIGGER entries_no_DELETE")
    connection.execute("DELETE FROM entries WHERE kind = 'format'")
    connection.execute(next(sql for sql in FORMAT_1 if "entries_no_DELETE" in sql))
    connection.commit()
    connection.close()
    with pytest.raises(ShoalError, match="changed, moved or removed"):
        Ledger.open(path)
