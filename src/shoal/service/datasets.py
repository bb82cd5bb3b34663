"""Data sets: a source, a catalog, a ledger that the same people share, and a version that the custodian advances."""

from __future__ import annotations

import json
import logging
import threading
import tomllib
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from shoal.accounting.ledger import Ledger
from shoal.accounting.spending.opening import open_store as open_ledger_store
from shoal.catalog import Catalog
from shoal.engines.sources import open_source
from shoal.errors import ShoalError
from shoal.frozen import dataclass
from shoal.service.people import checked_name, not_found
from shoal.service.questions import checked_answer_time
from shoal.service.runners.errand import Place
from shoal.service.upkeep.openings import NotYetError, Opening
from shoal.session import Session

if TYPE_CHECKING:
    from shoal.params import Budget
    from shoal.service.store import Reading, Rows, Store

UNIT = "one person"
MOMENT_SECONDS = 2.0
_LOGGER = logging.getLogger("shoal.service")


@dataclass(frozen=True)
class DataSet:
    """An open data set."""

    name: str
    unit: str
    version: int
    ledger_name: str
    ledger: Ledger
    catalog: Catalog
    session: Session
    share_answers: bool
    source: str
    catalog_text: str
    answer_time: float | None = None
    """When replies leave, if the catalog sets it."""

    def place(self, seconds: float) -> Place:
        """Where a runner finds it."""
        return Place(self.name, self.version, self.source, self.catalog_text, seconds)


@dataclass(frozen=True, slots=True)
class NewDataSet:
    """The arguments of `dataset add`."""

    name: str
    source: str
    catalog_path: str
    budget: Budget | None
    accountant: str = "basic"
    ledger: str | None = None
    unit: str = UNIT
    new_people: bool = False


class DataSets:
    """The data sets of a service, opened on first use and again after a refresh."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._open: dict[str, DataSet] = {}
        self._ledgers: dict[str, Ledger] = {}
        self._openings: dict[str, Opening[DataSet]] = {}
        self._closed = False
        self._lock = threading.RLock()

    # ---- adding --------------------------------------------------------------------------------------------------

    def add(self, new: NewDataSet) -> DataSet:
        """A new data set, opened once before it is recorded: what cannot be opened is refused."""
        checked_name(new.name, "data set")
        text = _read_text(new.catalog_path)
        catalog, _ = read_catalog(text)
        source = _absolute(new.source)
        kinds = sorted({t.owner_kind for t in catalog.tables.values() if t.owner_kind is not None})
        with self._store.reading() as rows:
            _require_new(rows, new.name)
        # This may take long, and nobody waits for it to write.
        Session(open_source(source, catalog), catalog, Ledger.in_memory()).close()
        with self._store.writing() as rows:
            _require_new(rows, new.name)
            ledger = self._ledger_for(rows, new, kinds)
            rows.run(
                "INSERT INTO datasets VALUES (?, ?, ?, ?, ?, ?, 1, ?, '')",
                *(new.name, source, text, str(Path(new.catalog_path).absolute()), ledger, new.unit, rows.now()),
            )
        return self.get(new.name)

    def _ledger_for(self, rows: Rows, new: NewDataSet, kinds: list[str]) -> str:
        known = {row["name"]: row for row in rows.all("SELECT * FROM ledgers")}
        name = new.ledger or new.name
        checked_name(name, "ledger")
        if name in known:
            self._require_same_budget(known[name]["place"], new)
            both = sorted({*kinds, *json.loads(known[name]["kinds"])})
            rows.run("UPDATE ledgers SET kinds = ? WHERE name = ?", json.dumps(both), name)
            return name
        if new.budget is None:
            raise ShoalError("E_USAGE", "A new ledger needs a budget.", hint="Write --budget 3,1e-5.")
        taken = {kind: ledger for ledger, row in known.items() for kind in json.loads(row["kinds"])}
        shared = next((kind for kind in kinds if kind in taken), None)
        if shared is not None and not new.new_people:
            raise ShoalError(
                "E_POLICY",
                f"Owners of the kind '{shared}' have the ledger '{taken[shared]}'; a second one would be a second budget.",
                hint=f"Use it: --ledger {taken[shared]}. If these are other people, say --new-people.",
            )
        place = self._store.new_ledger(name)
        address = self._store.ledger_address(place)
        made = Ledger.create_or_open(address, new.budget, new.accountant)
        if made.budget != new.budget or made.accountant != new.accountant or made.entries():
            raise ShoalError(
                "E_LEDGER", f"There is a ledger '{name}' already, and it is another one.", hint="Use --ledger."
            )
        rows.run("INSERT INTO ledgers VALUES (?, ?, ?)", name, place, json.dumps(kinds))
        return name

    def _require_same_budget(self, place: str, new: NewDataSet) -> None:
        """A ledger that is there keeps its budget: who names one must name that."""
        if new.budget is not None and Ledger.open(self._store.ledger_address(place)).budget != new.budget:
            raise ShoalError(
                "E_USAGE", f"The ledger '{new.ledger or new.name}' has another budget.", hint="Leave out --budget."
            )

    def refresh(self, rows: Rows, name: str) -> None:
        """The custodian says that data or catalog changed: a new version, whose answers are new."""
        found = rows.one("SELECT catalog_path FROM datasets WHERE name = ? AND retired = ''", name)
        if found is None:
            raise not_found("data set")
        text = _read_text(found["catalog_path"])
        read_catalog(text)
        rows.run("UPDATE datasets SET version = version + 1, catalog = ? WHERE name = ?", text, name)

    def retire(self, rows: Rows, name: str) -> None:
        """Nobody can query it any more; its name and ledger stay."""
        if not rows.run("UPDATE datasets SET retired = ? WHERE name = ? AND retired = ''", rows.now(), name):
            raise not_found("data set")

    # ---- opening -------------------------------------------------------------------------------------------------

    def names(self) -> list[str]:
        """Data sets that can be queried."""
        with self._store.reading() as rows:
            return [row["name"] for row in rows.all("SELECT name FROM datasets WHERE retired = '' ORDER BY name")]

    def versions(self) -> dict[str, int]:
        """The version of each data set that can be queried."""
        with self._store.reading() as rows:
            return {r["name"]: r["version"] for r in rows.all("SELECT name, version FROM datasets WHERE retired = ''")}

    def newest(self) -> list[DataSet]:
        """Data sets that are open in their newest version. The others begin to be opened, and resources of older ones are released.

        The first attempt is waited for a moment.
        """
        wanted = self.versions()
        for name in [name for name, version in wanted.items() if self._known(name, version) is None]:
            with suppress(ShoalError):
                opening = self._opening(name)
                if opening.is_first:
                    opening.wait(MOMENT_SECONDS)
        with self._lock:
            for name in self._open.keys() - wanted.keys():
                self._open.pop(name).session.close()
        found = (self._known(name, version) for name, version in wanted.items())
        return [each for each in found if each is not None]

    def get(self, name: str) -> DataSet:
        """The data set, open, in its newest version."""
        version = self._row(name)["version"]
        known = self._known(name, version)
        while known is None:
            opening = self._opening(name)
            try:
                known = opening.result()
            except NotYetError:
                _LOGGER.warning("the data set %s takes long to be opened", name)
                raise not_open() from None
            known = known if opening.version >= version else None
        return known

    def is_awaited(self, name: str) -> bool:
        """Whether it can be queried as soon as it is open."""
        version = self.versions().get(name)
        return version is not None and self._known(name, version) is None

    def _row(self, name: str) -> dict[str, Any]:
        found = self._store.known(
            ("data set", name),
            lambda rows: rows.one("SELECT * FROM datasets WHERE name = ? AND retired = ''", name),
        )
        if found is None:
            raise not_found("data set")
        return found

    def _known(self, name: str, version: int) -> DataSet | None:
        known = self._open.get(name)
        return known if known is not None and known.version == version else None

    def _opening(self, name: str) -> Opening[DataSet]:
        """The attempt that goes on, or a new one."""
        row = self._row(name)
        ledger = self.ledger(row["ledger"])
        with self._lock:
            current = self._openings.get(name)
            if current is None or current.is_over:
                is_first = current is None or current.version != row["version"]
                current = Opening(row["version"], lambda: self._opened_anew(row, ledger), is_first=is_first)
                self._openings[name] = current
                current.start()
            return current

    def _opened_anew(self, row: dict[str, Any], ledger: Ledger) -> DataSet:
        """In a thread of its own, which asks nothing of the store: that would keep a connection for it."""
        name = row["name"]
        known = self._known(name, row["version"])
        if known is not None:
            return known
        with self._lock:
            older = self._open.pop(name, None)
        if older is not None:  # first: two versions of one file cannot be open at once
            older.session.close()
        try:
            opened = _opened(row, ledger)
        except ShoalError as error:
            _LOGGER.error("the data set %s cannot be opened: %s", name, error)  # noqa: TRY400 - the text says it
            raise not_open() from None
        with self._lock:
            if not self._closed:
                self._open[name] = opened
        if self._closed:
            opened.session.close()
        return opened

    def confirm_unspent(self) -> None:
        """The log is complete and has no charge of these ledgers: after a failover they are opened as new."""
        with self._store.reading() as rows:
            names = rows.all("SELECT name, place FROM ledgers WHERE name NOT IN (SELECT ledger FROM logged_charges)")
        for row in names:
            address = self._store.ledger_address(row["place"])
            with open_ledger_store(address, "whole").reading() as transaction:
                first = (0, transaction.header().hash)
            self._ledgers[row["name"]] = Ledger.open(address, first)

    def ledger(self, name: str) -> Ledger:
        """An open ledger; one that lacks a charge recorded in the log is refused."""
        with self._lock:
            if name not in self._ledgers:
                with self._store.reading() as rows:
                    (found,) = rows.all("SELECT place FROM ledgers WHERE name = ?", name)
                    last = rows.one(
                        "SELECT charge, anchor FROM logged_charges WHERE ledger = ? ORDER BY charge DESC LIMIT 1", name
                    )
                noted = None if last is None else (int(last["charge"]), str(last["anchor"]))
                self._ledgers[name] = Ledger.open(self._store.ledger_address(found["place"]), noted, keeps=True)
            return self._ledgers[name]

    def ledger_of(self, name: str) -> str:
        """The name of the ledger of a data set, also of one that was retired."""
        with self._store.reading() as rows:
            (found,) = rows.all("SELECT ledger FROM datasets WHERE name = ?", name)
        return str(found["ledger"])

    def ledgers(self) -> dict[str, Ledger]:
        """Every ledger, open."""
        with self._store.reading() as rows:
            names = [row["name"] for row in rows.all("SELECT name FROM ledgers ORDER BY name")]
        return {name: self.ledger(name) for name in names}

    def close(self) -> None:
        """Closes the sources."""
        with self._lock:
            self._closed = True
            for opened in self._open.values():
                opened.session.close()
            self._open.clear()
            self._ledgers.clear()


def _require_new(rows: Rows, name: str) -> None:
    if rows.one("SELECT name FROM datasets WHERE name = ?", name):
        raise ShoalError("E_USAGE", f"There is a data set '{name}' already, or there was one.")


def _opened(row: dict[str, Any], ledger: Ledger) -> DataSet:
    catalog, service = read_catalog(row["catalog"])
    session = Session(open_source(row["source"], catalog), catalog, ledger)
    share = bool(service.get("share_answers", True))
    about = (row["name"], row["unit"], row["version"], row["ledger"])
    answer_time = service.get("answer_time")
    return DataSet(*about, ledger, catalog, session, share, row["source"], row["catalog"], answer_time)


def shares_answers_now(rows: Reading, dataset: DataSet) -> bool:
    """Whether one person's answers are for others, too: the catalog may have changed since the data set was opened."""
    found = rows.one("SELECT version, catalog FROM datasets WHERE name = ? AND retired = ''", dataset.name)
    if found is None or found["version"] == dataset.version:
        return found is not None and dataset.share_answers
    return bool(read_catalog(found["catalog"])[1].get("share_answers", True))


def not_open() -> ShoalError:
    """What the asker sees: the reason a source cannot be read names its files, and may depend on one of its rows."""
    return ShoalError(
        "E_SOURCE",
        "The data set cannot be read at the moment. Nothing was charged.",
        hint="Ask the data custodian: the service's own log says why.",
    )


def read_catalog(text: str) -> tuple[Catalog, dict[str, Any]]:
    """A catalog, and what its [service] section says."""
    try:
        data = tomllib.loads(text, parse_float=Fraction)
    except tomllib.TOMLDecodeError as error:
        raise ShoalError("E_CATALOG", f"The catalog is not valid TOML: {error}.") from None
    service = data.get("service", {})
    if not isinstance(service, dict) or not service.keys() <= {"share_answers", "answer_time"}:
        said = "In the catalog, [service] knows share_answers = true or false, and answer_time in seconds."
        raise ShoalError("E_CATALOG", said)
    if "answer_time" in service:
        service["answer_time"] = checked_answer_time(service["answer_time"], "E_CATALOG")
    return Catalog.from_dict(data), service


def _read_text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError):
        raise ShoalError(
            "E_CATALOG", f"The catalog file {path!r} cannot be read.", hint="shoal init writes a first one."
        ) from None


def _absolute(source: str) -> str:
    """A source as it is recorded: an absolute path, or an address without a password."""
    if "://" not in source:
        return str(Path(source).absolute())
    parts = urlsplit(source)
    if parts.password is not None or "password=" in parts.query.lower():
        raise ShoalError(
            "E_USAGE",
            "The address of a source is written down, and has no password in it.",
            hint="Leave the password to ~/.pgpass or PGPASSWORD.",
        )
    return source
