"""The connection to a server, and the only door to the driver. Nothing that the server or the driver says goes any further."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from shoal.engines.base import EngineFailure
from shoal.engines.postgresql.statements import SETTINGS, limits
from shoal.errors import ShoalError, missing_extra

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from shoal.engines.deadline import Deadline

SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"
OPENING_SECONDS = 60.0
"""For what is asked while a session opens: names, types and rights."""


class Server:
    """Where a server is, and how to log in. Its text never holds the password."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.where = _shown(url)

    def __repr__(self) -> str:
        return f"Server({self.where})"

    def connect(self, seconds: float = OPENING_SECONDS) -> Connection:
        """A connection with locked settings; `EngineFailure` where there is none to be had."""
        try:
            from adbc_driver_postgresql import dbapi
        except ImportError:
            raise missing_extra("postgresql", "A PostgreSQL database") from None
        try:
            opened = dbapi.connect(self._url, autocommit=True, conn_kwargs={})
        except Exception:  # noqa: BLE001 - a driver may raise anything, and what it says may hold the password
            opened = None
        if opened is None:
            raise EngineFailure
        connection = Connection(opened)
        try:
            for statement in (*limits(seconds), *SETTINGS):  # limits first: a role may have a short timeout of its own
                connection.run(statement)
        except BaseException:
            connection.close()
            raise
        return connection

    def unreachable(self) -> ShoalError:
        """The error for a server that does not answer."""
        return ShoalError(
            "E_SOURCE",
            f"The PostgreSQL server at {self.where} cannot be reached, or does not let this role in.",
            hint="Check host, port, database and role. The password comes from PGPASSWORD, ~/.pgpass or the URL.",
        )


def _shown(url: str) -> str:
    """Host and database, for messages.

    >>> _shown("postgresql://me:secret@db:5433/shop"), _shown("postgresql://me:1/secret@db/shop")
    ("db:5433, database 'shop'", 'the given URL')
    """
    try:
        parts = urlsplit(url)
        if "@" in url.removeprefix(f"{parts.scheme}://{parts.netloc}"):
            return "the given URL"  # a password with / ? or # that is not escaped: nothing tells where it ends
        host, port, name = parts.hostname, parts.port, unquote(parts.path.lstrip("/"))
    except ValueError:
        return "the given URL"
    place = (host or "the local socket") + (f":{port}" if port else "")
    return f"{place}, database {name!r}" if name else place


class Connection:
    """One session of the server. Statements run in their own thread, so that Ctrl+C is heard and cancels them there."""

    def __init__(self, opened: Any) -> None:
        self._opened = opened
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="shoal-postgresql")

    def run(self, statement: str) -> None:
        """A statement without rows."""
        self._wait(lambda: self._executed(statement))

    def _executed(self, statement: str) -> None:
        with self._opened.cursor() as cursor:
            cursor.adbc_statement.set_sql_query(statement)
            cursor.adbc_statement.execute_update()

    def rows(self, statement: str) -> list[dict[str, Any]]:
        """The few rows of a statement."""
        return [row for batch in self.batches(statement) for row in batch.to_pylist()]

    def batches(self, statement: str) -> Iterator[pa.RecordBatch]:
        """The rows of a statement as they come; the next batch travels while the last one is worked on."""
        cursor = self._wait(self._opened.cursor)
        try:
            self._wait(lambda: cursor.execute(statement))
            reader = self._wait(cursor.fetch_record_batch)
            coming = self._pool.submit(next, reader, None)
            while (batch := self._result(coming)) is not None:
                coming = self._pool.submit(next, reader, None)
                yield batch
        finally:
            with suppress(Exception):  # of a statement that failed there is nothing left to close
                self._pool.submit(cursor.close).result()

    def schema(self, statement: str) -> pa.Schema:
        """The columns of a statement, which is not run."""
        cursor = self._wait(self._opened.cursor)
        try:
            return self._wait(lambda: cursor.adbc_execute_schema(statement))
        finally:
            with suppress(Exception):
                self._pool.submit(cursor.close).result()

    def cancel(self) -> None:
        """Stops whatever runs on the server."""
        with suppress(Exception):  # where nothing runs, there is nothing to stop
            self._opened.adbc_cancel()

    def close(self) -> None:
        """Ends the session, and with it its transaction."""
        with suppress(Exception):
            self._opened.close()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _wait(self, action: Callable[[], Any]) -> Any:
        return self._result(self._pool.submit(action))

    def _result(self, coming: Any) -> Any:
        with suppress(Exception):  # a driver may raise anything, and nothing of it may travel
            try:
                return coming.result()
            except KeyboardInterrupt:
                self.cancel()
                raise
        raise EngineFailure  # out here, so that no context holds what the driver said


def snapshot(server: Server, deadline: Deadline) -> Connection:
    """A connection inside one transaction that only reads; a server that came back meanwhile is asked once more."""
    with suppress(EngineFailure):
        return _begun(server, deadline)
    return _begun(server, deadline)


def _begun(server: Server, deadline: Deadline) -> Connection:
    connection = server.connect(deadline.clock_seconds_left)
    try:
        connection.run(SNAPSHOT)
    except BaseException:
        connection.close()
        raise
    return connection
