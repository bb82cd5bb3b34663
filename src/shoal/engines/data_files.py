"""Files that hold tables: one list of endings, and which files make up which table, for queries and for scans alike."""

from __future__ import annotations

import glob
import gzip
from io import TextIOWrapper
from pathlib import Path
from typing import IO

PARQUET, CSV, JSON_LINES = "parquet", "CSV", "JSON lines"
FORMATS = {
    ".parquet": PARQUET,
    ".pq": PARQUET,
    ".csv": CSV,
    ".tsv": CSV,
    ".csv.gz": CSV,
    ".tsv.gz": CSV,
    ".csv.zst": CSV,
    ".tsv.zst": CSV,
    ".jsonl": JSON_LINES,
    ".ndjson": JSON_LINES,
    ".jsonl.gz": JSON_LINES,
    ".ndjson.gz": JSON_LINES,
    ".jsonl.zst": JSON_LINES,
    ".ndjson.zst": JSON_LINES,
}
"""File endings that become tables."""
COMPRESSED = (".gz", ".zst")
DATABASES = frozenset({".duckdb", ".db", ".ddb", ".sqlite", ".sqlite3"})
"""Endings of databases; the first bytes say which kind one is."""
WORKBOOKS = frozenset({".xlsx", ".xlsm"})
"""Endings of Excel files, whose sheets are tables; each is opened by itself."""


def ending(path: Path) -> str:
    """The ending, in small letters, that of the compressed file included: `.csv.gz`."""
    suffixes = [suffix.lower() for suffix in path.suffixes[-2:]]
    return "".join(suffixes) if suffixes and suffixes[-1] in COMPRESSED else "".join(suffixes[-1:])


def stem(path: Path) -> str:
    """The name without its ending: what the table is called."""
    return path.name[: -len(ending(path))] if ending(path) else path.name


def opened(path: Path, errors: str = "strict") -> IO[str]:
    """A text file, unpacked while it is read; what is not UTF-8 raises, unless `errors` says otherwise."""
    if path.suffix.lower() == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", errors=errors, newline="")
    if path.suffix.lower() == ".zst":
        import pyarrow as pa

        return TextIOWrapper(
            pa.input_stream(str(path), compression="zstd"), encoding="utf-8-sig", errors=errors, newline=""
        )
    return path.open(encoding="utf-8-sig", errors=errors, newline="")


def format_of(path: Path) -> str | None:
    """What a file holds, by its name; None for files that hold no table."""
    return FORMATS.get(ending(path))


def tables_at(place: str) -> dict[str, list[Path]]:
    """Table name → its files, for a file, a folder or a glob; everything below a folder inside a folder is one table.

    Files of one name are parts of one table. In a folder, names that begin with a dot or an underscore are left out: other
    programs keep their own things there.
    """
    path = Path(place)
    found: dict[str, list[Path]] = {}
    if path.is_dir():
        entries = sorted(entry for entry in path.iterdir() if not entry.name.startswith((".", "_")))
        for entry in entries:
            inside = sorted(entry.rglob("*")) if entry.is_dir() else [entry]
            name = entry.name if entry.is_dir() else stem(entry)
            found.setdefault(name, []).extend(file for file in inside if file.is_file() and format_of(file))
    else:
        names = [place] if path.is_file() else sorted(glob.glob(place, recursive=True))  # noqa: PTH207 - patterns may be absolute
        for file in (Path(name) for name in names):
            if file.is_file() and format_of(file):
                found.setdefault(stem(file), []).append(file)
    return {name: files for name, files in found.items() if files}
