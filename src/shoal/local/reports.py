"""Reports in columns and tallies of them: what a collector keeps, merges and reads from files that nobody vouches for.

A file is a magic line, a JSON line that describes what follows, and little-endian arrays. Every length is checked before
anything is read, so no bytes can do more than be refused.
"""

from __future__ import annotations

import json
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from shoal.errors import ShoalError
from shoal.frozen import dataclass

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator

    from shoal.mechanisms.entropy import Entropy

Columns = dict[str, npt.NDArray[Any]]
Totals = npt.NDArray[np.int64]

REPORTS_MAGIC = b"shoal local reports 1\n"
TALLY_MAGIC = b"shoal local tally 1\n"
LONGEST_HEADER = 1 << 28
LONGEST_LINE = 1 << 20
LINES_AT_ONCE = 65_536


class Design(Protocol):
    """How values become reports and reports become totals: an oracle, or the randomiser of numbers or counts."""

    @property
    def schema(self) -> dict[str, tuple[str, int]]:
        """Column → (type, width) of a row."""

    def draw(self, own: Any, entropy: Entropy) -> Columns:
        """One report for each encoded value."""

    def is_valid(self, columns: Columns) -> npt.NDArray[np.bool_]:
        """Which rows could have come from the client."""

    def parse(self, answer: object) -> tuple[Any, ...] | None:
        """The cells of one JSON answer; None for what the client never writes."""

    def write(self, columns: Columns) -> Iterator[object]:
        """JSON answers, row by row."""


@dataclass(frozen=True)
class Reports:
    """Reports to one question in columns; they add up, and iterate as the dicts that a client sends."""

    document: str
    fingerprint: str
    design: Design
    columns: Columns
    rejected: int = 0

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __add__(self, other: Reports) -> Reports:
        if not isinstance(other, Reports) or other.document != self.document:
            raise foreign("Reports to different questions cannot be added.")
        columns = {name: np.concatenate((column, other.columns[name])) for name, column in self.columns.items()}
        return Reports(self.document, self.fingerprint, self.design, columns, self.rejected + other.rejected)

    def __iter__(self) -> Iterator[dict[str, object]]:
        for answer in self.design.write(self.columns):
            yield {"q": self.fingerprint, "r": answer}

    def lines(self) -> Iterator[str]:
        """One JSON line a report."""
        for report in self:
            yield json.dumps(report, separators=(",", ":")) + "\n"

    def to_jsonl(self, path: str | os.PathLike[str]) -> None:
        """Write one JSON line a report."""
        with Path(path).open("w", encoding="utf-8") as file:
            file.writelines(self.lines())

    def to_bytes(self) -> bytes:
        """All reports with their question, for a file that `read_reports` takes."""
        header = {"question": self.document, "count": len(self), "rejected": self.rejected}
        arrays = [
            np.ascontiguousarray(self.columns[name], dtype=kind) for name, (kind, _) in self.design.schema.items()
        ]
        return with_header(REPORTS_MAGIC, header, *(array.tobytes() for array in arrays))


@dataclass(frozen=True)
class ReportLines:
    """JSON lines as they came in; each is looked at when the question is known, and counted as rejected if it is none."""

    source: Path

    def __iter__(self) -> Iterator[bytes]:
        with self.source.open("rb") as file:
            while line := file.readline(LONGEST_LINE):
                if not line.isspace():
                    yield line


@dataclass(frozen=True)
class StoredReports:
    """The bytes of `Reports.to_bytes`, before the question in them is read."""

    document: str
    count: int
    rejected: int
    body: bytes


def open_reports(path: Path) -> ReportLines | StoredReports:
    """A file of reports, whichever of the two kinds it is."""
    try:
        with path.open("rb") as file:
            start = file.read(len(REPORTS_MAGIC))
            if start != REPORTS_MAGIC:
                return ReportLines(path)
            header, body = split_header(REPORTS_MAGIC, start + file.read())
    except OSError:
        raise ShoalError("E_SOURCE", "The reports file cannot be read.", hint="Check its name.") from None
    count, rejected, document = (header.get(name) for name in ("count", "rejected", "question"))
    if not isinstance(document, str) or type(count) is not int or type(rejected) is not int:
        raise damaged()
    if not (0 <= count < 1 << 40 and 0 <= rejected < 1 << 40):
        raise damaged()
    return StoredReports(document, count, rejected, body)


@dataclass(frozen=True)
class Tally:
    """Totals of reports to one question: they merge with +, and are all that an estimate needs."""

    sha256: str
    n: int
    rejected: int
    totals: Totals
    values: tuple[str | int, ...] | None = None
    foreign: int = field(default=0)

    def __post_init__(self) -> None:
        if not 0 <= self.foreign <= self.rejected or self.n < 0:
            raise damaged()

    def __add__(self, other: Tally) -> Tally:
        if not isinstance(other, Tally) or (other.sha256, other.values) != (self.sha256, self.values):
            raise foreign("Tallies of different questions or candidates cannot be added.")
        return Tally(
            self.sha256,
            self.n + other.n,
            self.rejected + other.rejected,
            self.totals + other.totals,
            self.values,
            self.foreign + other.foreign,
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tally) and self.to_bytes() == other.to_bytes()

    __hash__ = None  # type: ignore[assignment]

    def to_bytes(self) -> bytes:
        """The tally as bytes, the same for the same tally."""
        header = {
            "question": self.sha256,
            "n": self.n,
            "rejected": self.rejected,
            "foreign": self.foreign,
            "values": None if self.values is None else list(self.values),
            "totals": len(self.totals),
        }
        return with_header(TALLY_MAGIC, header, self.totals.astype("<i8").tobytes())

    @classmethod
    def from_bytes(cls, data: bytes) -> Tally:
        """A tally from bytes that may be anything."""
        header, body = split_header(TALLY_MAGIC, data)
        counts = [header.get(name) for name in ("n", "rejected", "foreign", "totals")]
        if not all(type(count) is int and 0 <= count < 1 << 62 for count in counts):
            raise damaged()
        n, rejected, strangers, length = (int(count) for count in counts)  # type: ignore[arg-type]
        values, sha256 = header.get("values"), header.get("question")
        if not isinstance(sha256, str) or not (values is None or _are_values(values)) or len(body) != 8 * length:
            raise damaged()
        totals = np.frombuffer(body, dtype="<i8").astype(np.int64)
        return cls(sha256, n, rejected, totals, None if values is None else tuple(values), strangers)


def _are_values(values: object) -> bool:
    return isinstance(values, list) and all(type(value) in {str, int} for value in values)


# --- bytes ------------------------------------------------------------------------------------------------------------


def with_header(magic: bytes, header: dict[str, Any], *arrays: bytes) -> bytes:
    """Magic line, JSON line, arrays."""
    return magic + json.dumps(header, sort_keys=True, separators=(",", ":")).encode() + b"\n" + b"".join(arrays)


def split_header(magic: bytes, data: bytes) -> tuple[dict[str, Any], bytes]:
    """The JSON line and what follows it."""
    end = data.find(b"\n", len(magic), len(magic) + LONGEST_HEADER)
    if not data.startswith(magic) or end < 0:
        raise damaged()
    try:
        header = json.loads(data[len(magic) : end])
    except (ValueError, RecursionError):
        raise damaged() from None
    if not isinstance(header, dict):
        raise damaged()
    return header, data[end + 1 :]


def columns_of(body: bytes, count: int, schema: dict[str, tuple[str, int]]) -> Columns:
    """The arrays of `count` reports, if the bytes are exactly as many as they take."""
    columns: Columns = {}
    start = 0
    for name, (kind, width) in schema.items():
        size = np.dtype(kind).itemsize * width * count
        if start + size > len(body):
            raise damaged()
        flat = np.frombuffer(body, dtype=kind, count=width * count, offset=start)
        columns[name] = flat.reshape(count, width) if width > 1 else flat
        start += size
    if start != len(body):
        raise damaged()
    return columns


# --- lines ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Parsed:
    """Reports from lines or dicts, and how many were none: malformed or out of range, or of another question."""

    columns: Columns
    rejected: int
    foreign: int


def parse_batches(items: Iterable[Any], fingerprint: str, design: Design) -> Iterator[Parsed]:
    """Lines or dicts, some tens of thousands at a time; nothing in them can raise."""
    rows: list[tuple[Any, ...]] = []
    malformed = strangers = seen = 0
    for item in items:
        report = _loaded(item)
        mine = isinstance(report, dict) and set(report) == {"q", "r"} and report["q"] == fingerprint
        cells = design.parse(report["r"]) if mine else None
        if cells is not None:
            rows.append(cells)
        elif not mine and isinstance(report, dict) and isinstance(report.get("q"), str):
            strangers += 1
        else:
            malformed += 1
        seen += 1
        if seen == LINES_AT_ONCE:
            yield _as_columns(rows, malformed, strangers, design)
            rows, malformed, strangers, seen = [], 0, 0, 0
    yield _as_columns(rows, malformed, strangers, design)


def _loaded(item: Any) -> Any:
    if not isinstance(item, str | bytes):
        return item
    try:
        return json.loads(item) if len(item) < LONGEST_LINE else None
    except (ValueError, RecursionError):
        return None


def _as_columns(rows: list[tuple[Any, ...]], malformed: int, strangers: int, design: Design) -> Parsed:
    columns: Columns = {}
    for position, (name, (kind, width)) in enumerate(design.schema.items()):
        cells = [row[position] for row in rows]
        shape = (len(rows), width) if width > 1 else (len(rows),)
        columns[name] = np.array(cells, dtype=kind).reshape(shape)
    return Parsed(columns, malformed + strangers, strangers)


# --- refusals ---------------------------------------------------------------------------------------------------------


def damaged() -> ShoalError:
    """The error for bytes that are neither reports nor a tally."""
    return ShoalError("E_SOURCE", "These bytes are damaged, or not what they should be.", hint="Write them again.")


def foreign(message: str) -> ShoalError:
    """The error for reports or tallies of another question."""
    return ShoalError(
        "E_SOURCE", message, hint="Use the question the reports were made for: its fingerprint is in each."
    )
