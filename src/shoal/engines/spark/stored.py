"""Tables of a Spark session that are files of the machine: tasks read these themselves (`files`)."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from shoal.engines.spark.decoding import ticked
from shoal.engines.spark.files import File, Stored, shared_out
from shoal.engines.spark.plans import reads_files
from shoal.engines.spark.tables import SparkTables, planned
from shoal.engines.spark.task import looking_function, told_of
from shoal.engines.spark.types import named
from shoal.errors import ShoalError
from shoal.sql.functions.forms import LONGEST_TEXT

if TYPE_CHECKING:
    from shoal.engines.reading import Need
    from shoal.engines.spark.files import Part

MOST_FILES = 1_000
"""Asking Spark for the names of more takes longer than a task."""
LEFT_TO_SPARK = (
    "spark.sql.parquet.fieldId.read.enabled",
    "spark.sql.files.ignoreCorruptFiles",
    "spark.sql.files.ignoreMissingFiles",
)
"""With one of these, columns are not found by their names, or files that cannot be read are passed over."""


class StoredTables(SparkTables):
    """Which tables are files, and what tasks know of them."""

    _looked: dict[tuple[str, ...], tuple[File, ...]]
    """What executors said about files, kept where the driver sees the same ones, and asked again where it does not."""

    _seen_here: set[tuple[str, ...]]
    """Those that the driver saw, too."""

    def _stored(self, need: Need) -> Stored | None:
        """The columns of a table that may be files; None for one that Spark has to read."""
        if need.owner is None or need.table in self._named_rows or self._fragile[need.table] is not None:
            return None
        schema = self._frames[need.table].schema
        columns = ((name, _plain(schema[name].dataType)) for name in self._read(need))
        return Stored(tuple(columns), need.owner, LONGEST_TEXT, need.conjuncts)

    def _parts(self, need: Need) -> tuple[tuple[Part, ...], ...] | None:
        """What each task reads of the files of a table; None where Spark has to read it."""
        stored = self._stored(need)
        paths = None if stored is None else self._quietly(lambda: self._paths(need))
        if stored is None or not paths:
            return None
        key, seen = (*paths, *map(str, stored.columns)), _seen(paths)
        files = self._looked.get(key)
        if files is None or [file.seen for file in files] != seen:
            if not seen and key in self._seen_here:
                raise _gone(need.table)
            files = self._quietly(lambda: self._found(paths, stored))
            if files is None:
                return None
            self._looked[key] = files
        if [file.seen for file in files] == seen:
            self._seen_here.add(key)
        return shared_out(files, self._parallelism())

    def _paths(self, need: Need) -> list[str] | None:
        """The files of a table that is nothing but files of the machine."""
        if any(str(self._spark.conf.get(name, "false")).lower() == "true" for name in LEFT_TO_SPARK):
            return None
        frame, read = self._frames[need.table], self._read(need)
        frame = frame.select(*(ticked(field.name) for field in frame.schema.fields if field.name in read))
        if not reads_files(planned(frame), frame.schema.simpleString()):
            return None
        names = frame._jdf.inputFiles() if hasattr(frame, "_jdf") else frame.inputFiles()  # noqa: SLF001 - counted before it is read
        found = [_local(name) for name in names] if len(names) <= MOST_FILES else []
        return [path for path in found if path is not None] if None not in found else None

    def _found(self, paths: list[str], stored: Stored) -> tuple[File, ...] | None:
        """Files as executors see them: one tiny job asks, before anything is charged."""
        width = min(len(paths), self._parallelism())
        job = self._spark.range(0, width, 1, width).mapInArrow(
            looking_function(tuple(paths), stored.columns, width), "number int, digest binary, sizes binary"
        )
        files = told_of(paths, job.toArrow())
        return files if len(files) == len(paths) else None


def _seen(paths: list[str]) -> list[tuple[int, int]]:
    """Sizes of files, and the times of their last change, as the driver sees them; none where it does not."""
    with suppress(OSError):
        return [(told.st_size, told.st_mtime_ns) for told in map(os.stat, paths)]
    return []


def _gone(table: str) -> ShoalError:
    return ShoalError(
        "E_SOURCE",
        f"Files of the table {table!r} are no longer there.",
        hint="Have Spark list them again: spark.catalog.refreshTable(…), or register the table once more.",
    )


def _plain(type_: Any) -> str:
    return "string" if named(type_) == "VARCHAR" else str(type_.simpleString())


def _local(name: str) -> str | None:
    """The path of a file of the machine; None for one elsewhere.

    >>> _local("file:///data/a%20b.parquet"), _local("s3a://shop/a.parquet")
    ('/data/a b.parquet', None)
    """
    found = urlsplit(name)
    return unquote(found.path) if found.scheme == "file" and not found.netloc and not found.query else None
