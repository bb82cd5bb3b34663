"""The page of a scan: tiles, what stands out, and a table of each dataset with details to open."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from shoal.pages import heads, page, tile, top
from shoal.risk.reports import charts
from shoal.risk.reports.columns import COLUMNS, badge, counted, share
from shoal.risk.sketch.assessment import CAVEAT, WHAT_HELPS
from shoal.risk.sketch.grading import Grade, percent
from shoal.risk.sketch.measures import WHOLES

if TYPE_CHECKING:
    from shoal.risk.reports.columns import RiskColumn
    from shoal.risk.sketch.assessment import ColumnRisk, DatasetRisk
    from shoal.risk.sketch.measures import Measures

_ON_PAGE = tuple(shown for shown in COLUMNS if shown.page_heading is not None)
_HEADINGS = (("Column", True), *((shown.page_heading or "", False) for shown in _ON_PAGE))


def risk_page(datasets: tuple[DatasetRisk, ...], key_ids: list[str]) -> str:
    """The page of a scan."""
    columns = [column for dataset in datasets for column in dataset.telling]
    owned = [column for column in columns if not column.measures.counts_rows] or columns
    grades = [column.graded.grade for column in owned if not column.is_owner]
    # The owner's own column has a grade in its table, and is no finding.
    besides = " besides the owner" if len(grades) < len(owned) else ""
    tiles = [
        tile(counted(sum(dataset.rows for dataset in datasets)), "rows scanned"),
        tile(str(sum(len(column.subject) == 1 for column in columns)), f"columns in {_datasets(len(datasets))}"),
        tile(str(grades.count(Grade.CRITICAL)), f"critical{besides}: most owners are alone", "critical"),
        tile(str(grades.count(Grade.HIGH)), "high: many owners are alone", "high"),
    ]
    lead = "How many owners share each value of each column, and what a minimum group size would cost."
    sections = "".join(_section(dataset, opened=position == 0) for position, dataset in enumerate(datasets))
    body = (
        f"{top('Re-identification risk', lead)}<main><div class='tiles'>{''.join(tiles)}</div>"
        f"{_findings(columns)}{sections}</main>{_footer(key_ids)}"
    )
    return page("Re-identification risk", body)


def _findings(columns: list[ColumnRisk]) -> str:
    """The columns that matter most, in sentences."""
    grades = {(column.dataset, column.subject): column.graded.grade for column in columns}
    worst = [column for column in columns if _says_more_than_its_parts(column, grades)]
    worst = sorted(worst, key=lambda column: (-column.graded.grade, len(column.subject)))[:5]
    if not worst:
        return ""
    lines = "".join(
        f"<li>{badge(column.graded.grade)}<span><code>{escape(column.dataset)}.{escape(column.name)}</code> "
        f"{escape(column.graded.reason)}</span></li>"
        for column in worst
    )
    head = '<section class="card"><div class="head"><h2>What stands out</h2></div>'
    return f'{head}<ul class="findings">{lines}</ul><p class="note">{_what_helps(worst[0])}</p></section>'


def _what_helps(column: ColumnRisk) -> str:
    """The commands for the column that stands out most."""
    quasi = escape(",".join(column.subject))
    table = escape(column.dataset)
    return (
        "What helps: to share statistics, <code>shoal query</code>. To share rows, "
        f"<code>shoal anonymity enforce SOURCE --table {table} --quasi {quasi} --k 5 -o OUT</code>, with every column an outsider "
        "may know among the quasi-identifiers."
    )


def _says_more_than_its_parts(column: ColumnRisk, grades: dict[tuple[str, tuple[str, ...]], Grade]) -> bool:
    """A combination is news only when it is worse than each of its columns."""
    if column.is_owner or column.measures.counts_rows or column.graded.grade < Grade.MEDIUM:
        return False
    parts = [grades.get((column.dataset, (part,)), Grade.MINIMAL) for part in column.subject]
    return len(column.subject) == 1 or column.graded.grade > max(parts)


def _datasets(count: int) -> str:
    return "1 dataset" if count == 1 else f"{count} datasets"


def _section(dataset: DatasetRisk, *, opened: bool) -> str:
    owner = f"owner <code>{escape(dataset.owner)}</code>" if dataset.owner is not None else "every row its own owner"
    notes = [*dataset.notes, *([dataset.folded] if dataset.folded else [])]
    if dataset.owner is None and dataset.owner_candidates:
        notes.append("Columns that might be the owner: " + ", ".join(dataset.owner_candidates) + ".")
    listed = "".join(f"<li>{escape(note)}</li>" for note in notes)
    telling = min(
        (column for column in dataset.telling if opened and not column.is_owner),
        key=lambda column: abs(column.measures.shares[5]["values"].value - 0.5),
        default=None,
    )
    rows = "".join(_row(column, opened=column is telling) for column in dataset.telling)
    return (
        f'<section class="card"><div class="head"><h2>{escape(dataset.name)}</h2>'
        f'<span class="meta">{dataset.rows:,} rows · {owner}</span></div>'
        f"{f'<ul class=notes>{listed}</ul>' if listed else ''}"
        f'<div class="scroll"><table class="main">{heads(_HEADINGS)}{rows}</table></div></section>'
    )


def _row(column: ColumnRisk, *, opened: bool) -> str:
    cells = "".join(_cell(shown, column) for shown in _ON_PAGE)
    return (
        f'<tbody><tr><td><button class="more" type="button" aria-expanded="{str(opened).lower()}" '
        f'aria-label="details of {escape(column.name)}"></button></td><td class="text name">{_name(column)}</td>'
        f"{cells}</tr>"
        f'<tr class="detail"{"" if opened else " hidden"}><td colspan="{len(_ON_PAGE) + 2}">{_details(column)}</td></tr></tbody>'
    )


def _cell(shown: RiskColumn, column: ColumnRisk) -> str:
    sort = f"{shown.value(column):.{shown.sort_digits}f}"
    return f'<td data-sort="{sort}" title="{shown.meaning}">{shown.html(column) if shown.html is not None else ""}</td>'


def _name(column: ColumnRisk) -> str:
    kind = "owner" if column.is_owner else column.type
    return (
        f'<span class="name">{escape(column.name)}</span><span class="kind">{escape(kind)}</span>'
        f'<span class="reason">{escape(column.graded.reason)}</span>'
    )


def _details(column: ColumnRisk) -> str:
    measures = column.measures
    seen = "all values" if measures.complete else f"a sample of {measures.sampled_values:,} values"
    legend = "".join(f'<span class="{of}"><i></i>{of}</span>' for of in WHOLES)
    return (
        '<div class="inside"><figure><h3>Lost when values below k owners are dropped</h3>'
        f'<div class="legend">{legend}</div>'
        f"{charts.cumulative_curve(measures)}<figcaption>From {seen}; whiskers are 95% intervals.</figcaption></figure>"
        f'<figure><h3>Owners per value</h3><div class="legend">{legend}</div>{charts.histogram(measures)}'
        f"<figcaption>{_unseen(measures)}</figcaption></figure>"
        f"<div><h3>A minimum of k owners would drop</h3>{_losses(column)}</div></div>"
    )


def _unseen(measures: Measures) -> str:
    """A few values with most of the rows are seldom in a sample of values."""
    missing = 1 - measures.total.rows
    return f"{percent(missing)} of the rows have values outside the sample." if missing > 0.1 else ""


def _losses(column: ColumnRisk) -> str:
    head = "".join(f"<th>{of}</th>" for of in WHOLES)
    rows = "".join(
        f"<tr><td>k = {k}</td>{''.join(f'<td>{share(shares[of])}</td>' for of in WHOLES)}</tr>"
        for k, shares in column.measures.shares.items()
    )
    return f"<table><tr><th></th>{head}</tr>{rows}</table>"


def _footer(key_ids: list[str]) -> str:
    keys = ", ".join(key_ids)
    return (
        f"<footer><p>{escape(CAVEAT)}</p><p>{escape(WHAT_HELPS)}</p><dl>"
        "<dt>values, k</dt><dd>share of the distinct values that fewer than k owners have</dd>"
        "<dt>owners, k</dt><dd>rare holdings per owner, at most 100%: the share of owners a threshold k drops where "
        "each has one value, an upper bound where they have many</dd>"
        "<dt>rows, k</dt><dd>share of the rows whose value fewer than k owners have</dd>"
        "<dt>±</dt><dd>half of the 95% interval, in percentage points; numbers without it are exact</dd>"
        f"<dt>key</dt><dd><code>{escape(keys)}</code></dd></dl></footer>"
    )
