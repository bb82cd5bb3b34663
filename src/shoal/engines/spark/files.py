"""Parquet files that tasks read themselves. Nothing here knows Spark.

Spark reads such a file into columns, makes rows of them, and makes columns of these again for Python: ten times the work of reading
it here. So where a table is nothing but files of the machine, tasks get the names of files and the numbers of row groups.

A column is read here only where its type in the file leaves nothing to decide: it is the type that Spark says, stored in its plain
form. Anything else (other widths, unsigned numbers, decimals, days of an unknown calendar) is left to Spark.

Every row of the needed columns is decoded, whatever is asked: no condition decides which pages a reader meets.
"""

from __future__ import annotations

import hashlib
import json
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from shoal.engines.base import EngineFailure
from shoal.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow.parquet as pq

    from shoal.engines.reading import Conjunct

PART_BYTES = 128 << 20
"""Of the needed columns before compression: about what one task reads."""
ROWS_AT_ONCE = 1 << 16
TEXTS_AT_ONCE = 1 << 12
_CODECS = frozenset({"UNCOMPRESSED", "SNAPPY", "GZIP", "ZSTD"})
"""Others have forms that one library reads and the other does not."""
_END = 8
_MARK = b"PAR1"


@dataclass(frozen=True, slots=True)
class Stored:
    """The columns that are read, with Spark's names of their types; the owner is one of them."""

    columns: tuple[tuple[str, str], ...]
    owner: str
    longest_text: int
    conjuncts: tuple[Conjunct, ...] = ()


@dataclass(frozen=True, slots=True)
class File:
    """A file by what its last bytes say: where everything in it is. One that was written anew says something else."""

    path: str
    digest: bytes
    sizes: tuple[int, ...]
    """For each row group the bytes of the needed columns."""
    seen: tuple[int, int]
    """Its size and the time of its last change, where it was looked at."""


@dataclass(frozen=True, slots=True)
class Part:
    """Some row groups of a file."""

    path: str
    digest: bytes
    groups: tuple[int, ...]


# ---- which files can be read ---------------------------------------------------------------------------------------


def looked_at(path: str, columns: Iterable[tuple[str, str]]) -> File | None:
    """The file, if all columns are in it as Spark reads them; None otherwise, and where it cannot be opened."""
    try:
        with pa.OSFile(path) as opened:
            digest, file = _opened(opened)
            found = _sizes(file, list(columns))
            told = Path(path).stat()
    except (OSError, pa.ArrowException):
        return None
    return None if found is None else File(path, digest, found, (told.st_size, told.st_mtime_ns))


def _opened(source: pa.NativeFile) -> tuple[bytes, pq.ParquetFile]:
    import pyarrow.parquet as pq

    size = source.size()
    length = int.from_bytes(source.read_at(_END, size - _END)[:4], "little") if size >= _END else 0
    if not 0 < length <= size - _END or source.read_at(4, size - 4) != _MARK:
        raise pa.ArrowInvalid
    footer = source.read_at(length, size - _END - length)
    source.seek(0)
    return hashlib.blake2b(footer, digest_size=16).digest(), pq.ParquetFile(source, coerce_int96_timestamp_unit="us")


def _sizes(file: pq.ParquetFile, columns: list[tuple[str, str]]) -> tuple[int, ...] | None:
    metadata, stored = file.metadata, file.schema_arrow
    places = {metadata.schema.column(i).path: i for i in range(metadata.num_columns)}
    names = [name.lower() for name in stored.names]
    for name, type_ in columns:
        if "." in name or name not in places or stored.names.count(name) != 1 or names.count(name.lower()) != 1:
            return None
        column = metadata.schema.column(places[name])
        if type_ in _DATED and not _has_known_calendar(metadata.metadata or {}, column.physical_type):
            return None
        if not _fits(column, stored.field(name).type, type_):
            return None
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    chunks = [[group.column(places[name]) for name, _ in columns] for group in groups]
    if any(chunk.compression not in _CODECS for group in chunks for chunk in group):
        return None
    return tuple(sum(chunk.total_uncompressed_size for chunk in group) for group in chunks)


def _has_known_calendar(told: dict[bytes, bytes], physical: str) -> bool:
    """Whether a Spark wrote the file that counts days as everybody does, and says so; of other files a setting decides."""
    since, otherwise = _CALENDARS.get(physical, _CALENDARS["INT64"])
    version = told.get(b"org.apache.spark.version", b"").split(b".")[:2]
    return all(map(bytes.isdigit, version)) and [*map(int, version)] >= since and otherwise not in told


def _whole(bits: int) -> dict[str, Any]:
    return {"Type": "Int", "bitWidth": bits, "isSigned": True}


_NONE: dict[str, Any] = {"Type": "None"}
_DATED = frozenset({"date", "timestamp"})
_CALENDARS = {
    "INT64": ([3, 0], b"org.apache.spark.legacyDateTime"),
    "INT96": ([3, 1], b"org.apache.spark.legacyINT96"),
}
"""Since which version Spark writes days as everybody counts them, and what it adds to files where it does not."""
_FORMS: dict[str, tuple[str, tuple[dict[str, Any], ...], pa.DataType]] = {
    "tinyint": ("INT32", (_whole(8),), pa.int8()),
    "smallint": ("INT32", (_whole(16),), pa.int16()),
    "int": ("INT32", (_NONE, _whole(32)), pa.int32()),
    "bigint": ("INT64", (_NONE, _whole(64)), pa.int64()),
    "float": ("FLOAT", (_NONE,), pa.float32()),
    "double": ("DOUBLE", (_NONE,), pa.float64()),
    "boolean": ("BOOLEAN", (_NONE,), pa.bool_()),
    "string": ("BYTE_ARRAY", ({"Type": "String"},), pa.string()),
    "date": ("INT32", ({"Type": "Date"},), pa.date32()),
    "timestamp": ("INT64", ({"Type": "Timestamp", "isAdjustedToUTC": True, "timeUnit": "microseconds"},), pa.timestamp("us")),
    "timestamp_ntz": (
        "INT64",
        ({"Type": "Timestamp", "isAdjustedToUTC": False, "timeUnit": "microseconds"},),
        pa.timestamp("us"),
    ),
}  # fmt: skip
"""For each type of Spark: how files keep it, what they may call it, and as what it travels on."""


def _fits(column: Any, read: pa.DataType, type_: str) -> bool:
    if type_ not in _FORMS:
        return False
    physical, logical, wanted = _FORMS[type_]
    if type_ == "timestamp" and column.physical_type == "INT96":  # what Spark writes where nobody says otherwise
        return bool(read == wanted and not column.max_repetition_level)
    told = json.loads(column.logical_type.to_json())
    if column.physical_type != physical or column.max_repetition_level or not any(_has(told, form) for form in logical):
        return False
    if pa.types.is_timestamp(wanted):
        return bool(pa.types.is_timestamp(read) and read.unit == "us")
    return bool(read == wanted or (wanted == pa.string() and read == pa.large_string()))


def _has(told: dict[str, Any], form: dict[str, Any]) -> bool:
    return all(told.get(name) == value for name, value in form.items())


# ---- who reads what ------------------------------------------------------------------------------------------------


def shared_out(files: Iterable[File], least: int) -> tuple[tuple[Part, ...], ...]:
    """What each task reads: about as much as every other one, in at least so many tasks if there are as many row groups.

    >>> files = [File("a", b"", (9, 1, 9), (19, 0)), File("b", b"", (1,), (1, 0))]
    >>> [[part.groups for part in parts] for parts in shared_out(files, 2)]
    [[(0, 1)], [(2,), (0,)]]
    """
    units = [(file, number, size) for file in files for number, size in enumerate(file.sizes)]
    total = sum(size for _, _, size in units)
    count = max(1, min(len(units), max(least, -(-total // PART_BYTES))))
    tasks: list[dict[File, list[int]]] = [{} for _ in range(count)]
    before = 0
    for file, number, size in units:
        middle = before + size // 2
        tasks[min(count - 1, middle * count // max(1, total))].setdefault(file, []).append(number)
        before += size
    return tuple(
        tuple(Part(file.path, file.digest, tuple(numbers)) for file, numbers in task.items()) for task in tasks
    )


# ---- reading -------------------------------------------------------------------------------------------------------


def rows_in(parts: Iterable[Part], stored: Stored) -> Iterator[pa.RecordBatch]:
    """The rows of some row groups that have an owner and may meet the conditions, as columns c0, c1 … in the order asked."""
    for part in parts:
        with pa.OSFile(part.path) as opened:
            digest, file = _opened(opened)
            if digest != part.digest:
                raise EngineFailure
            yield from _rows(file, part.groups, stored)


def _rows(file: pq.ParquetFile, groups: tuple[int, ...], stored: Stored) -> Iterator[pa.RecordBatch]:
    names = [name for name, _ in stored.columns]
    numbers = [f"c{i}" for i in range(len(names))]
    at_once = TEXTS_AT_ONCE if any(type_ == "string" for _, type_ in stored.columns) else ROWS_AT_ONCE
    for batch in file.iter_batches(at_once, row_groups=list(groups), columns=names, use_threads=False):
        columns = [_read(batch.column(name), type_, stored.longest_text) for name, type_ in stored.columns]
        kept = _mask(dict(zip(names, columns, strict=True)), stored)
        rows = pa.RecordBatch.from_arrays(columns, numbers)
        yield rows if kept is None else rows.filter(kept)


def _read(column: pa.Array, type_: str, longest: int) -> pa.Array:
    wanted = _FORMS[type_][2]
    read = sound(column, longest) if type_ == "string" else column
    return read if read.type == wanted else read.cast(wanted)


def sound(texts: pa.Array, longest: int) -> pa.Array:
    """Strings; NULL for bytes that are not UTF-8, and for more than `longest` bytes.

    >>> sound(pa.array(["a", "four", None]), 3).to_pylist()
    ['a', None, None]
    """
    lengths = pc.binary_length(texts)
    if (pc.max(lengths).as_py() or 0) > longest:
        texts = pc.if_else(pc.less_equal(lengths, longest), texts, pa.scalar(None, texts.type))
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        bytes_ = texts.cast(pa.binary() if texts.type == pa.string() else pa.large_binary())
        return pa.array([_decoded(value) for value in bytes_.to_pylist()], pa.string())
    return texts


def _decoded(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _mask(columns: dict[str, pa.Array], stored: Stored) -> pa.Array | None:
    """Which rows are handed on; None for all of them."""
    owners = columns[stored.owner]
    found = [] if owners.null_count == 0 else [pc.is_valid(owners)]
    types = dict(stored.columns)
    for conjunct in stored.conjuncts:
        if conjunct.operator in _COMPARISONS and types[conjunct.column] in _NARROWED:
            column = columns[conjunct.column]
            wide = column.cast(pa.int64()) if pa.types.is_integer(column.type) else column
            met = _COMPARISONS[conjunct.operator](wide, pa.array(list(conjunct.values), wide.type))
            found.append(pc.fill_null(met, fill_value=False))
    return reduce(pc.and_, found) if found else None


_NARROWED = frozenset({"tinyint", "smallint", "int", "bigint", "boolean", "date", "string"})
_COMPARISONS: dict[str, Callable[[pa.Array, pa.Array], Any]] = {
    "between": lambda column, values: pc.and_kleene(
        pc.greater_equal(column, values[0]), pc.less_equal(column, values[1])
    ),
    "in": pc.is_in,
    "=": lambda column, values: pc.equal(column, values[0]),
    "<": lambda column, values: pc.less(column, values[0]),
    "<=": lambda column, values: pc.less_equal(column, values[0]),
    ">": lambda column, values: pc.greater(column, values[0]),
    ">=": lambda column, values: pc.greater_equal(column, values[0]),
}
