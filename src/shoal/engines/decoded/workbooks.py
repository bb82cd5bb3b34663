"""Excel workbooks (.xlsx) as tables: a sheet is one, its first row has the names. A workbook is a zip file of XML.

Read once, when a session opens, with nothing but the standard library. Cells become strings as they are stored (a formula by the
value that Excel computed last, a date by its cell's format); columns get the type that nearly all strings have, as in CSV files.
"""

from __future__ import annotations

import datetime as dt
import re
import zipfile
import zlib
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from shoal.engines.data_files import stem
from shoal.engines.decoded.texts import with_types
from shoal.errors import ShoalError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    import pyarrow as pa

_MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_ID = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
_DATES = frozenset((*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)))
"""Numbers of the formats of dates and times that every workbook knows."""
_NOT_LETTERS = re.compile(r'"[^"]*"|\[[^\]]*\]|\\.|_.|General')
_LARGEST_PART = 2**31
_DAMAGES = (
    *(zipfile.BadZipFile, zlib.error, EOFError, OSError),
    *(ET.ParseError, LookupError, ValueError, OverflowError),
    RuntimeError,  # encrypted, or compressed in a way that is not known here
)
"""What reading a file that is none, or was damaged, may raise."""
DAY_ZERO, DAY_ZERO_OF_1904 = dt.datetime(1899, 12, 30), dt.datetime(1904, 1, 1)  # noqa: DTZ001 - cells have no zone
LAST_DAY = 2_958_465


def read_workbook(path: Path, declared: Mapping[str, Mapping[str, str]] | None = None) -> dict[str, pa.Table]:
    """Table → its rows: sheets by their names, a single one by the file's; `declared` are types that a catalog gives."""
    try:
        with zipfile.ZipFile(path) as archive:
            book = _Book(archive)
            found = {name: rows for name, part in book.sheets() if (rows := list(book.rows(part)))}
    except _DAMAGES:
        raise ShoalError(
            "E_SOURCE",
            f"The Excel file {str(path)!r} cannot be read.",
            hint="Only .xlsx is, without a password. Else save the sheet as CSV (File, Save As) and use that.",
        ) from None
    named = {stem(path): rows for rows in found.values()} if len(found) == 1 else found
    return {name: _table(name, rows, (declared or {}).get(name.lower(), {})) for name, rows in named.items()}


class _Book:
    """The parts of one file that say what is in cells."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self._texts = [
            "".join(part.text or "" for part in item.iter(f"{_MAIN}t"))
            for item in (self._read("xl/sharedStrings.xml") if self._has("xl/sharedStrings.xml") else ())
        ]
        self._workbook = self._read("xl/workbook.xml")
        self._is_date = list(self._dates(self._read("xl/styles.xml"))) if self._has("xl/styles.xml") else []
        settings = self._workbook.find(f"{_MAIN}workbookPr")
        of_1904 = settings is not None and settings.get("date1904") in {"1", "true"}
        self._zero = DAY_ZERO_OF_1904 if of_1904 else DAY_ZERO

    def _has(self, part: str) -> bool:
        return part in self._archive.namelist()

    def _read(self, part: str) -> ET.Element:
        if self._archive.getinfo(part).file_size > _LARGEST_PART:
            raise ValueError(part)
        return ET.fromstring(self._archive.read(part))  # noqa: S314 - the custodian's own file; expat ends entities that grow

    @staticmethod
    def _dates(styles: ET.Element) -> Iterator[bool]:
        """For every style of cells, whether it shows a date or a time."""
        own = {
            int(each.get("numFmtId", "0")): any(
                c in "ymdhs" for c in _NOT_LETTERS.sub("", each.get("formatCode", "")).lower()
            )
            for each in styles.iter(f"{_MAIN}numFmt")
        }
        listed = styles.find(f"{_MAIN}cellXfs")
        for style in listed if listed is not None else ():
            number = int(style.get("numFmtId", "0"))
            yield own.get(number, number in _DATES)

    def sheets(self) -> Iterator[tuple[str, str]]:
        """The name of every sheet, and the part that has its cells."""
        targets = {each.get("Id"): each.get("Target", "") for each in self._read("xl/_rels/workbook.xml.rels")}
        for sheet in self._workbook.iter(f"{_MAIN}sheet"):
            target = targets[sheet.get(_ID)]
            part = target.lstrip("/") if target.startswith("/") else f"xl/{target}"
            if "worksheets/" in part:
                yield sheet.get("name", ""), part

    def rows(self, part: str) -> Iterator[dict[int, str]]:
        """The rows that have anything in them: column → text."""
        for row in self._read(part).iter(f"{_MAIN}row"):
            cells = {}
            for position, cell in enumerate(row.iter(f"{_MAIN}c")):
                text = self._text(cell)
                if text:
                    cells[_column(cell.get("r"), position)] = text
            if cells:
                yield cells

    def _text(self, cell: ET.Element) -> str:
        kind = cell.get("t", "n")
        if kind == "inlineStr":
            return "".join(part.text or "" for part in cell.iter(f"{_MAIN}t"))
        value = cell.findtext(f"{_MAIN}v") or ""
        if not value or kind == "e":
            return ""
        if kind == "s":
            return self._texts[int(value)]
        if kind == "b":
            return "true" if value == "1" else "false"
        style = int(cell.get("s", "0"))
        if kind == "n" and style < len(self._is_date) and self._is_date[style]:
            return self._time(float(value))
        return value

    def _time(self, days: float) -> str:
        """A date, a timestamp where it has a time of day, or a time of day alone."""
        if not 0 <= days <= LAST_DAY:
            return repr(days)
        when = self._zero + dt.timedelta(milliseconds=round(days * 86_400_000))
        if days < 1:
            return when.time().isoformat()
        return when.date().isoformat() if days == int(days) else when.isoformat(sep=" ")


def _column(name: str | None, position: int) -> int:
    """The number of a column from a name such as AB7; by its place where the cell has none."""
    letters = re.match(r"[A-Z]+", name or "")
    if letters is None:
        return position
    number = 0
    for letter in letters.group():
        number = 26 * number + ord(letter) - 64
    return number - 1


def _table(name: str, rows: list[dict[int, str]], declared: Mapping[str, str]) -> pa.Table:
    """The columns that the first row names."""
    import pyarrow as pa

    header, *others = rows
    names = [text.strip() for text in header.values()]
    if len({each.lower() for each in names}) < len(names):
        raise ShoalError(
            "E_SOURCE",
            f"Two columns of the sheet {name!r} have the same name.",
            hint="The first row that is not empty has the names: rename one of them.",
        )
    texts = {
        text: pa.array([row.get(position) for row in others], pa.string())
        for position, text in zip(header, names, strict=True)
    }
    return with_types(pa.table(texts), declared)
