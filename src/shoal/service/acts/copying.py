"""Backs up a service in a folder and restores it: an older copy is a refund unless what it lacks is booked."""

from __future__ import annotations

import shutil
from contextlib import closing, contextmanager
from itertools import count
from typing import TYPE_CHECKING

from shoal.accounting.accountants import Loss
from shoal.accounting.ledger import Ledger
from shoal.errors import ShoalError
from shoal.service import log
from shoal.service.acts.core import OPERATOR, Core
from shoal.service.store import moment
from shoal.service.stores.opening import FILE
from shoal.service.stores.sqlite import SqliteStore, copy_file, stopped

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from shoal.accounting.stores.check import Anchor
    from shoal.params import Budget
    from shoal.service.people import Caller


class Copying(Core):
    """What an operator does before the machine breaks."""

    def backup(self, caller: Caller, folder: Path) -> str:
        """A copy of store and ledgers as they are now, and the anchor of its log."""
        caller.require_everywhere("admin")
        copy = getattr(self.store, "backup", None)
        if copy is None:
            raise ShoalError(
                "E_USAGE", "Only a service in a folder can be copied this way.", hint="PostgreSQL: use pg_dump."
            )
        with self.store.writing() as rows:
            log.write(rows, caller.name, caller.via, "backup", detail=folder.name)
        anchor = log.anchor(self.store)
        _made(folder)
        copy(folder / FILE)  # before the ledgers: a charge made in between is written to the log at the next start
        for name, ledger in self.datasets.ledgers().items():
            ledger.backup(folder / "ledgers" / f"{name}.db")
        return anchor


def _made(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700)
        (folder / "ledgers").mkdir(mode=0o700)
    except OSError:
        raise ShoalError("E_USAGE", f"The folder {str(folder)!r} cannot be made, or is there already.") from None


def restore(folder: Path, home: Path, anchor: str | None, loss: Budget | None, because: str) -> int:
    """Restores a copy over a stopped service and keeps the old one next to it. Returns the number of lines in its log.

    Whatever is known to be missing from the copy, or cannot be ruled out, is booked as a loss or refused. E_USAGE while the
    service runs: what it charges from then on would be in the folder that was put aside.
    """
    with stopped(home):
        return _restored(folder, home, anchor, loss, because)


def _restored(folder: Path, home: Path, anchor: str | None, loss: Budget | None, because: str) -> int:
    with closing(SqliteStore(folder / FILE)) as copied:
        lines = log.verify(log.export(copied))
        places = _ledgers(copied)
        lacking = _lacking(folder, home, places, anchor, list(log.export(copied)))
    if lacking and loss is None:
        raise ShoalError(
            "E_LEDGER",
            "The copy is older than what is noted, or nothing is known about what was spent since it was made.",
            hint="Give the newest --anchor that was noted, or book what is missing: --loss EPS,DELTA --because TEXT",
        )
    if loss is not None and (home / FILE).exists():
        _require_enough(folder, home, places, loss)
    booked = {} if loss is None else {name: places[name] for name in lacking or places}
    with _laid_out(folder, home) as scratch:
        if loss is not None:
            _book(scratch, booked, lacking, loss, because)
    return lines


def _ledgers(store: SqliteStore) -> dict[str, str]:
    with store.reading() as rows:
        return {row["name"]: row["place"] for row in rows.all("SELECT name, place FROM ledgers ORDER BY name")}


def _lacking(
    folder: Path, home: Path, places: dict[str, str], anchor: str | None, exported: list[str]
) -> dict[str, Anchor | None]:
    """Ledgers of the copy that lack something, each with its newest known row."""
    if (home / FILE).exists():
        with closing(SqliteStore(home / FILE)) as present:
            known = {name: Ledger.open(home / place) for name, place in _ledgers(present).items()}
        _require_known(known, places)
        return {
            name: ledger.anchor
            for name, ledger in known.items()
            if name in places and not _reaches(Ledger.open(folder / places[name]), ledger.anchor)
        }
    if anchor is None:
        return dict.fromkeys(places)
    try:
        log.verify(exported, anchor)
    except ShoalError:
        return dict.fromkeys(places)
    return {}


def _require_known(known: dict[str, Ledger], places: dict[str, str]) -> None:
    """A ledger that the copy does not have would be gone, and with it what was spent from it."""
    for name, ledger in sorted(known.items()):
        if name not in places and any(ledger.spent):
            epsilon, delta = ledger.spent
            raise ShoalError(
                "E_LEDGER",
                f"The copy was made before the ledger {name}, from which epsilon = {float(epsilon):g}, delta = {float(delta):g} "
                "were spent: it would be forgotten.",
                hint="Restore a copy that has it. Nothing was changed.",
            )


def _require_enough(folder: Path, home: Path, places: dict[str, str], loss: Budget) -> None:
    """Where the ledgers are still there to be read, what the copy lacks is known: to book less would be a refund."""
    with closing(SqliteStore(home / FILE)) as present:
        spent = {name: Ledger.open(home / place).spent for name, place in _ledgers(present).items()}
    for name in sorted(spent.keys() & places.keys()):
        copied = Ledger.open(folder / places[name])
        booked = copied.spent_with(Loss(loss.epsilon, loss.delta))
        if booked[0] < spent[name][0] or booked[1] < spent[name][1]:
            told = [f"epsilon = {float(e):g}, delta = {float(d):g}" for e, d in (spent[name], copied.spent)]
            raise ShoalError(
                "E_LEDGER",
                f"The ledger {name} has spent {told[0]} and the copy only {told[1]}: the loss is larger than that.",
                hint="Book at least the difference: --loss EPS,DELTA",
            )


def _reaches(ledger: Ledger, newest: Anchor) -> bool:
    return ledger.anchor[0] >= newest[0] and (not newest[0] or ledger.anchor_of(newest[0]) == newest)


@contextmanager
def _laid_out(folder: Path, home: Path) -> Iterator[Path]:
    """A copy of the copy, which becomes the service when everything about it is done: whole or not at all."""
    scratch = _unused(home.with_name(f".{home.name}.restoring-{moment()}"))
    _made(scratch)
    try:
        for source in (folder / FILE, *sorted((folder / "ledgers").glob("*.db"))):
            copy_file(source, scratch / source.relative_to(folder))
        yield scratch
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise
    if home.exists():
        home.rename(_unused(home.with_name(f"{home.name}.replaced-{moment()}")))
    scratch.rename(home)


def _unused(path: Path) -> Path:
    """The path, or its first free numbered name: two copies may be restored within a second."""
    numbered = (path.with_name(f"{path.name}-{number}") for number in count(2))
    return path if not path.exists() else next(other for other in numbered if not other.exists())


def _book(home: Path, places: dict[str, str], lacking: dict[str, Anchor | None], loss: Budget, because: str) -> None:
    with closing(SqliteStore(home / FILE)) as store:
        for name, place in places.items():
            ledger = Ledger.open(home / place)
            ledger.book_loss(Loss(loss.epsilon, loss.delta), because=because, anchor=lacking.get(name))
            with store.writing() as rows:
                log.write(
                    *(rows, OPERATOR.name, OPERATOR.via, "loss booked"),
                    cost=(loss.epsilon, loss.delta),
                    ledger=name,
                    detail=because,
                )
