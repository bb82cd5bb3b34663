"""A PostgreSQL server that may be trusted with budgets: reached safely, and keeping what it confirms. The door of psycopg."""

from __future__ import annotations

from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import parse_qs, unquote, urlsplit

from shoal.accounting.stores.rows import damaged
from shoal.errors import ShoalError, missing_extra

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

    Connection: TypeAlias = psycopg.Connection[Any]


def with_safe_transport(address: str) -> str:
    """Beyond this machine only over TLS whose certificate is checked, unless the address says otherwise."""
    parts = urlsplit(address)
    options = parse_qs(parts.query)
    host = unquote((options.get("host") or [parts.hostname or ""])[0])
    if host in {"", "localhost", "127.0.0.1", "::1"} or host.startswith("/") or "sslmode" in options:
        return address
    return f"{address}{'&' if parts.query else '?'}sslmode=verify-full"


def connect(address: str) -> Connection:
    """A connection whose every statement is its own transaction unless one is begun."""
    if find_spec("psycopg") is None:
        raise missing_extra("postgresql", "A ledger in PostgreSQL")
    import psycopg

    connection = psycopg.connect(address, autocommit=True, connect_timeout=10, application_name="shoal")
    # Tables are named with their schema; operators are not, and somebody else's "=" must not be found first.
    connection.execute("SET search_path = pg_catalog, pg_temp")
    return connection


@contextmanager
def plain_words() -> Iterator[None]:
    """What the server says never passes through."""
    if find_spec("psycopg") is None:
        raise missing_extra("postgresql", "A ledger in PostgreSQL")
    import psycopg

    try:
        yield
    except psycopg.errors.LockNotAvailable:
        raise ShoalError(
            "E_LEDGER", "The ledger is locked by another process.", hint="Try again in a minute."
        ) from None
    except psycopg.errors.InsufficientPrivilege:
        raise ShoalError(
            "E_LEDGER",
            "This role may not do in the database what a ledger needs, so nothing can be spent.",
            hint="Its owner gives it what is needed: shoal service migrate --store URL --grant ROLE",
        ) from None
    except psycopg.OperationalError:
        raise ShoalError(
            "E_LEDGER",
            "The database with the ledger cannot be reached, so nothing can be spent.",
            hint="Check that the server runs, and the URL.",
        ) from None
    except psycopg.Error:
        raise damaged("the database refuses what a ledger needs") from None


def require_keeping(connection: Connection) -> None:
    """The server keeps what it confirms: it writes to the disk, and is not a copy of another one."""
    ((fsync, pages, standby),) = connection.execute(
        "SELECT current_setting('fsync'), current_setting('full_page_writes'), pg_is_in_recovery()"
    ).fetchall()
    if fsync != "on" or pages != "on":
        raise ShoalError(
            "E_LEDGER",
            "The database server does not keep what it confirms (fsync or full_page_writes is off).",
            hint="Turn both on in postgresql.conf.",
        )
    if standby:
        raise ShoalError("E_LEDGER", "The database server is a standby.", hint="Name the primary server.")


def last_migration(connection: Connection, table: str) -> int:
    """The last migration that the database has, by one of our own tables; 0 where it is missing."""
    ((there,),) = connection.execute("SELECT to_regclass(%s) IS NOT NULL", (table,)).fetchall()
    if not there:
        return 0
    query = f"SELECT coalesce(max(number), 0) FROM {table}"
    ((newest,),) = connection.execute(query).fetchall()
    return int(newest)


def require_one_owner(connection: Connection, *, beginning: bool = False) -> None:
    """Whoever owns the schema can drop what is in it, and whoever owns a table can change its rows: one role, or superusers.

    A schema that somebody else made first would be theirs with everything in it, even if it has all tables that it should.
    So what is `beginning` belongs to this role, to the database's owner or to superusers.
    """
    found = connection.execute(
        """SELECT count(DISTINCT o.role), count(*) FILTER (WHERE r.rolname <> current_user
            AND o.role <> (SELECT datdba FROM pg_database WHERE datname = current_database()))
        FROM (
        SELECT nspowner AS role FROM pg_namespace WHERE nspname = 'shoal'
        UNION SELECT c.relowner FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'shoal'
        UNION SELECT p.proowner FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = 'shoal'
        ) o JOIN pg_roles r ON r.oid = o.role WHERE NOT r.rolsuper"""
    ).fetchall()
    roles, strangers = found[0]
    if roles > 1 or (beginning and strangers):
        raise ShoalError(
            "E_LEDGER",
            "The schema shoal, or a table in it, belongs to another role, which could change what was spent.",
            hint="Give all of it to one role: ALTER SCHEMA shoal OWNER TO ROLE, and ALTER TABLE for each table.",
        )


def timeline_of(connection: Connection) -> int:
    """The number of times the server was failed over or restored, as it counts them."""
    ((number,),) = connection.execute("SELECT timeline_id FROM pg_control_checkpoint()").fetchall()
    return int(number)
