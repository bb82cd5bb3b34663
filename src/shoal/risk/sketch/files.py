"""Sketches of a dataset in a file: one file a dataset, readable by its owner only.

A file is a magic number, a version, a JSON header (dataset, owner, columns, sizes) and the sketches one after the
other, sealed by a digest. The same distrust as in `format` applies: sizes are checked against what is there.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import struct
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from shoal.errors import ShoalError
from shoal.frozen import dataclass
from shoal.mechanisms.entropy import system_entropy
from shoal.risk.hashing.keys import warn_unkeyed
from shoal.risk.sketch.binary_format import damaged, sealed, unsealed
from shoal.risk.sketch.khll import Sketch

if TYPE_CHECKING:
    from shoal.risk.scanning.table_sketches import Subject

MAGIC = b"\x89KHDS\r\n\x1a"
VERSION = 1
SUFFIX = ".khll"
LARGEST_FILE = 4 << 30
_LARGEST_HEADER = 16 << 20
_HEAD = struct.Struct("<8sHHI")  # magic, version, nothing, length of the header


@dataclass(frozen=True, slots=True)
class SketchedDataset:
    """The sketches of a dataset, and what a reader must know about them."""

    name: str
    owner: str | None  # None: every row is an owner of its own
    rows: int
    sketches: dict[Subject, Sketch]
    types: dict[Subject, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    owner_candidates: tuple[str, ...] = ()

    @property
    def keyed(self) -> bool:
        """Whether every sketch was made under a key."""
        return all(sketch.key_id is not None for sketch in self.sketches.values())


def subject_name(subject: Subject) -> str:
    """A column, or the columns of a combination with plus signs between."""
    return "+".join(subject)


def pack_dataset(dataset: SketchedDataset) -> bytes:
    """A dataset's sketches as the bytes of a file."""
    packed = [sketch.to_bytes() for sketch in dataset.sketches.values()]
    header = json.dumps(
        {
            "dataset": dataset.name,
            "owner": dataset.owner,
            "rows": dataset.rows,
            "notes": list(dataset.notes),
            "owner_candidates": list(dataset.owner_candidates),
            "sketches": [
                {"columns": list(subject), "type": dataset.types.get(subject, ""), "size": len(data)}
                for subject, data in zip(dataset.sketches, packed, strict=True)
            ],
        },
        ensure_ascii=False,
        separators=(",", ":"),
    ).encode()
    return sealed(_HEAD.pack(MAGIC, VERSION, 0, len(header)) + header + b"".join(packed))


def unpack_dataset(data: bytes) -> SketchedDataset:
    """The dataset in these bytes, or E_SKETCH."""
    body = unsealed(data, MAGIC, VERSION)
    if len(body) < _HEAD.size:
        raise damaged("it ends within its header")
    _, _, nothing, length = _HEAD.unpack_from(body)
    if nothing or length > min(_LARGEST_HEADER, len(body) - _HEAD.size):
        raise damaged("its header is longer than the file")
    header = _parsed(body[_HEAD.size : _HEAD.size + length])
    entries = _entries(header)
    at = _HEAD.size + length
    if at + sum(entry["size"] for entry in entries) != len(body):
        raise damaged("its length does not fit its sketches")
    sketches: dict[Subject, Sketch] = {}
    for entry in entries:
        sketches[tuple(entry["columns"])] = Sketch.from_bytes(body[at : at + entry["size"]])
        at += entry["size"]
    if len(sketches) != len(entries):
        raise damaged("it has two sketches of one column")
    types = {tuple(entry["columns"]): entry["type"] for entry in entries}
    return SketchedDataset(
        header["dataset"], header["owner"], header["rows"], sketches, types, tuple(header["notes"]),
        tuple(header["owner_candidates"]),
    )  # fmt: skip


def _parsed(text: bytes) -> dict[str, Any]:
    try:
        header = json.loads(text)
    except (ValueError, RecursionError):
        raise damaged("its header is not JSON") from None
    wanted = {"dataset", "owner", "rows", "notes", "owner_candidates", "sketches"}
    if not isinstance(header, dict) or set(header) != wanted:
        raise damaged("its header has other fields than it should")
    texts_fit = isinstance(header["dataset"], str) and isinstance(header["owner"], str | None)
    if not texts_fit or not _is_count(header["rows"]):
        raise damaged("its header has fields of wrong types")
    if not all(_is_list_of_texts(header[field]) for field in ("notes", "owner_candidates")):
        raise damaged("its header has fields of wrong types")
    return header


def _entries(header: dict[str, Any]) -> list[dict[str, Any]]:
    entries = header["sketches"]
    if not isinstance(entries, list):
        raise damaged("it lists no sketches")
    for entry in entries:
        if not isinstance(entry, dict) or set(entry) != {"columns", "type", "size"}:
            raise damaged("a sketch is described wrongly")
        fits = _is_list_of_texts(entry["columns"]) and entry["columns"] and isinstance(entry["type"], str)
        if not fits or not _is_count(entry["size"]):
            raise damaged("a sketch is described wrongly")
    return entries


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62


def _is_list_of_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def write_datasets(folder: str | Path, datasets: list[SketchedDataset]) -> list[Path]:
    """Write a file for each dataset into a folder, created if needed; only their owner can read them (0600, 0700)."""
    place = Path(folder)
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        return [_write(place / (quote(dataset.name, safe=" ") + SUFFIX), dataset) for dataset in datasets]
    except OSError as error:
        raise ShoalError("E_USAGE", f"The sketches cannot be written to {str(folder)!r}: {error.strerror}.") from None


def _write(path: Path, dataset: SketchedDataset) -> Path:
    if not dataset.keyed:
        warn_unkeyed(f"The sketches in {path.name!r} are stored without a key")
    return write_owner_only(path, pack_dataset(dataset))


def write_owner_only(place: str | Path, data: bytes) -> Path:
    """Write beside and move into place, readable by its owner only: a reader sees the old file or the new one."""
    path = Path(place)
    # A name that nobody can guess, and never a file that is there: in a folder that others can write to, it would be theirs.
    beside = path.with_name(f".{path.name[:100]}.{system_entropy().bytes(8).hex()}")
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        beside.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise
    return path


def read_datasets(place: str | Path) -> list[SketchedDataset]:
    """The datasets of a sketch file, or of all sketch files in a folder, in order of name."""
    path = Path(place)
    files = sorted(path.glob("*" + SUFFIX)) if path.is_dir() else [path]
    if not files:
        raise ShoalError("E_SKETCH", f"There are no sketches in {str(place)!r}.", hint="shoal risk scan DATA -o FOLDER")
    return sorted((_read(file) for file in files), key=lambda dataset: dataset.name)


def _read(path: Path) -> SketchedDataset:
    try:
        with path.open("rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_size > LARGEST_FILE:
                raise damaged(f"{path.name!r} is not a file, or too large")
            data = file.read(LARGEST_FILE)
    except OSError as error:
        raise ShoalError("E_SKETCH", f"The sketches {str(path)!r} cannot be read: {error.strerror}.") from None
    try:
        return unpack_dataset(data)
    except ShoalError as error:
        raise ShoalError(error.code, f"{path.name}: {error.message}", hint=error.hint) from None
