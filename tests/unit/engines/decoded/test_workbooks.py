"""Excel workbooks are tables: sheets with their names in the first row, read once, when a session opens."""

from __future__ import annotations

import datetime as dt
import zipfile
from xml.sax.saxutils import escape

import pytest

from shoal.engines.decoded.workbooks import read_workbook
from shoal.errors import ShoalError
from shoal.risk.scanning.scan import scan
from shoal.session import connect

MAIN = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
RELATED = 'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
STYLES = (
    f'<styleSheet {MAIN}><numFmts><numFmt numFmtId="164" formatCode="yyyy\\-mm\\-dd hh:mm"/>'
    '<numFmt numFmtId="165" formatCode="#,##0.00 &quot;days&quot;"/></numFmts>'
    '<cellXfs><xf numFmtId="0"/><xf numFmtId="14"/><xf numFmtId="164"/><xf numFmtId="165"/></cellXfs></styleSheet>'
)
NEW_YEAR, NEXT = dt.date(2025, 1, 1), dt.date(2025, 1, 2)
NOON, MORNING = (dt.datetime.combine(day, dt.time(hour)) for day, hour in ((NEW_YEAR, 12), (NEXT, 6)))
PLAIN, DATE, TIMESTAMP, WITH_WORD = range(4)


def cell(column, row, value):
    """One cell as Excel writes it; a pair is a number and its style, a list a text by its number, bytes a formula's error."""
    place = f'r="{column}{row}"'
    if isinstance(value, tuple):
        return f'<c {place} s="{value[1]}"><v>{value[0]}</v></c>'
    if isinstance(value, list):
        return f'<c {place} t="s"><v>{value[0]}</v></c>'
    if isinstance(value, bytes):
        return f'<c {place} t="e"><f>1/0</f><v>#DIV/0!</v></c>'
    if isinstance(value, bool):
        return f'<c {place} t="b"><v>{int(value)}</v></c>'
    if isinstance(value, str):
        return f'<c {place} t="inlineStr"><is><t>{escape(value)}</t></is></c>'
    return "" if value is None else f"<c {place}><f>1+1</f><v>{value}</v></c>"


def workbook(path, texts=("shared &amp; rich",), settings="", **sheets):
    """A workbook with these sheets, each a list of rows."""
    with zipfile.ZipFile(path, "w") as archive:
        numbered = list(enumerate(sheets, 1))
        listed = "".join(f'<sheet name="{name}" sheetId="{n}" r:id="rId{n}"/>' for n, name in numbered)
        archive.writestr(
            "xl/workbook.xml", f"<workbook {MAIN} {RELATED}>{settings}<sheets>{listed}</sheets></workbook>"
        )
        targets = "".join(f'<Relationship Id="rId{n}" Target="worksheets/sheet{n}.xml"/>' for n, _ in numbered)
        archive.writestr("xl/_rels/workbook.xml.rels", f"<Relationships>{targets}</Relationships>")
        shared = "".join(f"<si><t>{text[:3]}</t><r><t>{text[3:]}</t></r></si>" for text in texts)
        archive.writestr("xl/sharedStrings.xml", f"<sst {MAIN}>{shared}</sst>")
        archive.writestr("xl/styles.xml", STYLES)
        for number, name in numbered:
            rows = "".join(
                f"<row>{''.join(cell(c, r, v) for c, v in zip('ABCDEFGH', row, strict=False))}</row>"
                for r, row in enumerate(sheets[name], 1)
            )
            archive.writestr(
                f"xl/worksheets/sheet{number}.xml", f"<worksheet {MAIN}><sheetData>{rows}</sheetData></worksheet>"
            )
    return path


def test_cells_become_typed_columns(tmp_path):
    rows = [
        [],
        ["n", "day", "at", "paid", "note", "gaps", "size"],
        [1, (45658, DATE), (45658.5, TIMESTAMP), True, [0], None, (2.5, WITH_WORD)],
        [2, (45659, DATE), (45659.25, TIMESTAMP), False, "<b>", 7, b""],
        [],
    ]
    (table,) = read_workbook(workbook(tmp_path / "orders.xlsx", Sheet1=rows)).values()
    assert table.to_pylist() == [
        {"n": 1, "day": NEW_YEAR, "at": NOON, "paid": True, "note": "shared & rich", "gaps": None, "size": 2.5},
        {"n": 2, "day": NEXT, "at": MORNING, "paid": False, "note": "<b>", "gaps": 7, "size": None},
    ]


def test_a_workbook_may_count_days_from_1904(tmp_path):
    path = workbook(tmp_path / "old.xlsx", settings='<workbookPr date1904="1"/>', One=[["day"], [(0 + 365, DATE)]])
    assert read_workbook(path)["old"].to_pylist() == [{"day": dt.date(1904, 12, 31)}]


def test_a_single_sheet_is_named_after_the_file_and_several_by_themselves(tmp_path):
    rows = [["uid", "x"], [1, 2]]
    assert list(read_workbook(workbook(tmp_path / "visits.xlsx", Sheet1=rows, Empty=[]))) == ["visits"]
    assert list(read_workbook(workbook(tmp_path / "visits.xlsx", Visits=rows, Items=rows))) == ["Visits", "Items"]


def test_a_workbook_answers_queries_and_scans(tmp_path):
    path = workbook(tmp_path / "visits.xlsx", Sheet1=[["uid", "spend"], *([n, n / 4] for n in range(40))])
    catalog = {
        "tables": {"visits": {"owner": "uid", "columns": {"uid": {"type": "VARCHAR"}}}},
        "defaults": {"epsilon": 50.0},
    }
    with connect(path, catalog=catalog) as session:
        assert abs(session.query("SELECT COUNT(DISTINCT uid) AS n FROM visits")["n"][0] - 40) <= 2
    assert scan(path, owner="uid", key=b"k" * 16).datasets[0].rows == 40


def test_what_is_no_workbook_says_what_to_do(tmp_path):
    (tmp_path / "broken.xlsx").write_bytes(b"PK not a zip")
    with pytest.raises(ShoalError, match="cannot be read") as refusal:
        connect(tmp_path / "broken.xlsx", catalog={"tables": {"t": {"owner": "uid"}}})
    assert "CSV" in (refusal.value.hint or "")
    with pytest.raises(ShoalError) as refusal:
        connect(tmp_path, catalog={"tables": {"t": {"owner": "uid"}}})
    assert "one at a time" in (refusal.value.hint or "")
    with pytest.raises(ShoalError, match="same name"):
        read_workbook(workbook(tmp_path / "twice.xlsx", One=[["uid", "UID"], [1, 2]]))


def test_a_damaged_workbook_is_told_wherever_the_damage_is(tmp_path):
    sound, packed, damaged = (tmp_path / f"{name}.xlsx" for name in ("sound", "packed", "damaged"))
    workbook(sound, t=[["uid", "x"], *([n, n * n] for n in range(50))])
    with zipfile.ZipFile(sound) as archive, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as written:
        for name in archive.namelist():
            written.writestr(name, archive.read(name))
    data = packed.read_bytes()
    codes = set()
    for place in range(0, len(data), 7):
        damaged.write_bytes(data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :])
        try:
            read_workbook(damaged)
        except ShoalError as error:
            codes.add(error.code)
    assert codes == {"E_SOURCE"}
