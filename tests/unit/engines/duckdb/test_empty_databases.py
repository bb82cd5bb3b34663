"""Databases that hold nothing: locked, kept for the next statement only where a process says so, and never after a failure."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pytest

from shoal.engines.duckdb import filled

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Every database that was opened, in a process that has kept none so far."""
    found: list[object] = []

    class Counted(filled._Database):
        def __init__(self) -> None:
            super().__init__()
            found.append(self)

    monkeypatch.setattr(filled, "_kept", filled._Kept())
    monkeypatch.setattr(filled, "_Database", Counted)
    return found


def test_each_statement_has_its_own_unless_the_process_keeps_one(opened: list[object]) -> None:
    for _ in range(3):
        with filled.empty_database() as connection:
            connection.execute("SELECT 1")
    assert len(opened) == 3
    filled.keep_one()
    for _ in range(3):
        with filled.empty_database() as connection:
            connection.execute("SELECT 1")
    assert len(opened) == 4


def test_nothing_of_a_statement_is_left_for_the_next(opened: list[object]) -> None:
    filled.keep_one()
    with filled.empty_database() as connection:
        connection.register("released_0", pa.table({"a": [1]}))
        connection.execute("CREATE TEMP TABLE left_here AS SELECT * FROM released_0")
        assert connection.execute("SELECT a FROM left_here").fetchall() == [(1,)]
    with filled.empty_database() as connection:
        for name in ("released_0", "left_here"):
            with pytest.raises(duckdb.CatalogException):
                connection.execute(f"SELECT * FROM {name}")
    assert len(opened) == 1


def test_one_in_which_something_failed_is_not_used_again(opened: list[object]) -> None:
    filled.keep_one()
    with pytest.raises(duckdb.Error), filled.empty_database() as connection:
        connection.execute("SELECT error('planted')").fetchall()
    with filled.empty_database() as connection:
        connection.execute("SELECT 1")
    assert len(opened) == 2


def test_two_statements_at_once_never_share_one(opened: list[object]) -> None:
    filled.keep_one()
    with filled.empty_database() as one, filled.empty_database() as other:
        one.execute("CREATE TABLE mine AS SELECT 1 AS a")
        with pytest.raises(duckdb.CatalogException):
            other.execute("SELECT * FROM mine")
    assert len(opened) == 2


def test_a_kept_one_is_as_locked_as_a_new_one(opened: list[object], tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a\n1\n")
    filled.keep_one()
    for _ in range(2):
        with filled.empty_database() as connection:
            for statement in (f"SELECT * FROM '{tmp_path}/a.csv'", "SET threads = 2", "INSTALL httpfs"):
                with pytest.raises(duckdb.Error):
                    connection.execute(statement)
    assert len(opened) == 1


def test_one_is_given_up_after_a_thousand_statements(opened: list[object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filled, "MOST_USED", 2)
    filled.keep_one()
    for _ in range(5):
        with filled.empty_database() as connection:
            connection.execute("SELECT 1")
    assert len(opened) == 3


def test_a_forked_child_uses_none_of_its_parent(opened: list[object]) -> None:
    filled.keep_one()
    with filled.empty_database() as connection:
        connection.execute("SELECT 1")
    if (child := os.fork()) == 0:
        os._exit(0 if not filled._kept._idle else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(opened) == 1
