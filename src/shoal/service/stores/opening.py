"""The store at a place: a folder, or the address of a PostgreSQL database."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from shoal.errors import ShoalError
from shoal.service.stores.sqlite import SqliteStore, migrate_file, stopped

if TYPE_CHECKING:
    from shoal.service.store import Store

FILE = "service.db"


def is_database(place: Path | str) -> bool:
    """Whether a place is a database, not a folder."""
    return isinstance(place, str) and place.startswith(("postgresql://", "postgres://"))


def open_store(place: Path | str, identity: str, *, has_anchor: bool = False) -> Store:
    """The existing store, or a new one under this identity."""
    if is_database(place):
        from shoal.service.stores.postgresql import PostgresStore

        return PostgresStore.create(str(place), identity, has_anchor=has_anchor)
    home = Path(place)
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        raise ShoalError("E_USAGE", f"The folder {str(home)!r} cannot be made.") from None
    return SqliteStore.create(home.absolute() / FILE, identity)


def confirm(store: Store) -> None:
    """The log was checked against an anchor, so an earlier failover no longer counts."""
    with_timeline = getattr(store, "confirm", None)
    if with_timeline is not None:
        with_timeline()


def exists(place: Path | str) -> bool:
    """Whether a service exists there."""
    if is_database(place):
        from shoal.accounting.stores.postgresql_server import connect, plain_words, with_safe_transport
        from shoal.service.stores.postgresql import version

        with plain_words(), connect(with_safe_transport(str(place))) as connection:
            return bool(version(connection))
    return (Path(place) / FILE).exists()


def migrate(place: Path | str, identity: str, role: str | None = None) -> int:
    """Applies every migration that a store lacks; returns how many."""
    if is_database(place):
        from shoal.service.stores.postgresql import migrate_database

        return migrate_database(str(place), identity, role)
    if role is not None:
        raise ShoalError("E_USAGE", "Only a database has roles.")
    with stopped(Path(place)):
        return migrate_file(Path(place) / FILE)


def shown(place: Path | str) -> str:
    """A place without a password."""
    if is_database(place):
        from shoal.service.stores.postgresql import without_password

        return without_password(str(place))
    return str(place)
