"""Which store a ledger's name means: a file's path, or postgresql://user@host/database#name."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from shoal.accounting.accountants import accountant as accountant_named
from shoal.accounting.promises import Promise
from shoal.accounting.stores.files import FileStore, MemoryStore, create_file
from shoal.accounting.stores.rows import Header, amount_text, canonical
from shoal.errors import ShoalError

if TYPE_CHECKING:
    from shoal.accounting.stores.base import Store
    from shoal.params import Budget


def new_header(budget: Budget | None, accountant: str, promise: Promise | None) -> Header:
    """The header of a ledger to be made, checked."""
    rule, about = accountant_named(accountant), promise or Promise.owner()
    if budget is not None:
        rule.check(budget)
    if about.kind not in {"owner", "policy"}:
        raise ShoalError("E_USAGE", "A ledger promises owners or a policy.")
    if about.kind == "policy" and accountant != "basic":
        raise ShoalError("E_USAGE", "A ledger of a policy adds up by the basic accountant.")
    amounts = ("", "") if budget is None else (amount_text(budget.epsilon), amount_text(budget.delta))
    return Header(secrets.token_hex(16), *amounts, accountant, canonical(about.to_data()))


def start_in_memory(header: Header) -> MemoryStore:
    """A new ledger without a file."""
    store = MemoryStore(may_fork=not header.epsilon)
    store.start(header)
    return store


def start_store(path: str | os.PathLike[str], header: Header) -> None:
    """A new ledger where the path says; an existing one is never replaced."""
    if is_database(path):
        from shoal.accounting.stores.postgresql import create

        create(os.fspath(path), header)
    else:
        create_file(Path(path), header)


def open_store(path: str | os.PathLike[str], anchor: object, *, keeps: bool = False) -> Store:
    """The store of an existing ledger. A database that failed over is opened with an anchor only; a file may be kept open."""
    if is_database(path):
        from shoal.accounting.stores.postgresql import PostgresStore

        return PostgresStore(os.fspath(path), has_anchor=anchor is not None)
    return FileStore(Path(path), keeps=keeps)


def exists(path: str | os.PathLike[str]) -> bool:
    """Whether there is something at the path."""
    if is_database(path):
        from shoal.accounting.stores.postgresql import exists_in

        return exists_in(os.fspath(path))
    return Path(path).exists()


def is_database(path: str | os.PathLike[str]) -> bool:
    """Whether a ledger's name is a URL of PostgreSQL."""
    return isinstance(path, str) and path.startswith(("postgresql://", "postgres://"))
