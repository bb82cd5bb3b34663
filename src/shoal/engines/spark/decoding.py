"""Values that a reader of Spark refuses: looked for when a session opens, so that no query fails on them after its charge.

A sound file may hold times that Spark cannot read. Milliseconds in parquet and seconds in ORC may lie beyond what 64 bits of
microseconds reach, and days before 1582 fail where the session's rebase mode is EXCEPTION. A table that a program makes row by row
may fail on one of them as well. The columns in question are read once to their end, whatever a query would ask. Where files have
come since, they are read again before a charge.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shoal.engines.spark.jobs import SparkJobs
from shoal.engines.spark.types import is_read, named
from shoal.errors import ShoalError

if TYPE_CHECKING:
    from collections.abc import Sequence

TIMES = frozenset({"DATE", "TIMESTAMP"})
HINT = (
    "Times must fit into microseconds (years -290,308 to 294,247), and days before 1582 need another rebase mode than EXCEPTION. "
    "Write the table again without such values; a column of times in parquet can be read as BIGINT to find them."
)


class SparkDecoding(SparkJobs):
    """Which columns were read to their end, of which files."""

    _f: Any
    _decoded: dict[str, tuple[Any, tuple[str, ...], object]]
    """By table: its frame, the columns that were read, and the files that they were in."""

    def _decode(self, table: str, frame: Any, *, whole: bool) -> None:
        """E_SOURCE where some row cannot be read; `whole` is for rows that a program makes, in which any column can fail."""
        names = tuple(
            field.name
            for field in frame.schema.fields
            if (type_ := named(field.dataType)) in TIMES or (whole and is_read(type_))
        )
        if names:
            files = self._files(frame)
            self._refuse_undecodable(table, frame, names)
            self._decoded[table] = frame, names, files

    def _decode_new_files(self, table: str) -> None:
        """The same again if the files of a table are others than those that were read."""
        if table not in self._decoded:
            return
        frame, names, files = self._decoded[table]
        now = self._files(frame)
        if now != files:
            self._refuse_undecodable(table, frame, names)
            self._decoded[table] = frame, names, now

    def _refuse_undecodable(self, table: str, frame: Any, names: Sequence[str]) -> None:
        if self._is_decodable(frame, names):
            return
        failed = [name for name in names if not self._is_decodable(frame, [name])]
        if failed:
            listed = ", ".join(map(repr, failed))
            raise ShoalError("E_SOURCE", f"Spark cannot read the table {table!r} to its end: {listed}.", hint=HINT)

    def _is_decodable(self, frame: Any, names: Sequence[str]) -> bool:
        """Whether every value can be read. A hash needs the values; counts and null tests do not."""
        hashed = self._f.max(self._f.xxhash64(*(self._f.col(ticked(name)) for name in names)))
        return self._quietly(frame.select(hashed).collect) is not None

    def _files(self, frame: Any) -> object:
        """Something that is equal while the files are the same ones; a classic session has the names in Java, by the million."""
        fresh = frame.select("*")  # a frame keeps the plan it was asked with first, and that plan its files
        if not hasattr(fresh, "_jdf"):
            return tuple(self._quietly(fresh.inputFiles) or ())
        found = self._quietly(fresh._jdf.inputFiles)  # noqa: SLF001 - Python would fetch them one by one
        if found is None:
            return None
        return len(found), self._quietly(lambda: self._spark._jvm.java.util.Arrays.hashCode(found))  # noqa: SLF001 - same


def ticked(name: str) -> str:
    """A name as Spark reads it whatever is in it."""
    return "`" + name.replace("`", "``") + "`"
