"""The table of an audit as one web page: no network, no scripts, light and dark."""

from __future__ import annotations

from html import escape
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shoal.audit.suite.rows import Report, Row

_STYLE = """
:root { color-scheme: light dark; --ink: #1d2733; --soft: #5b6b7c; --line: #dde3ea; --back: #fff; --good: #176b45; --bad: #b3261e }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6ebf1; --soft: #9aa8b7; --line: #2c3743; --back: #12181f; --good: #6fd3a2; --bad: #ff8a80 } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--back); max-width: 68rem; margin: 2rem auto;
  padding: 0 1rem }
h1 { font-size: 1.5rem; margin-bottom: 0 } h2 { font-size: 1.05rem; margin: 2rem 0 .3rem } p { color: var(--soft) }
.wide { overflow-x: auto } table { border-collapse: collapse; width: 100% }
th, td { text-align: left; padding: .25rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top }
th { color: var(--soft); font-weight: 500 } td.number, th.number { text-align: right; font-variant-numeric: tabular-nums }
.good { color: var(--good) } .bad { color: var(--bad); font-weight: 600 }
"""
HEADINGS = ("check", "method", "ε", "δ", "verdict", "true ε ≥", "seen from ε =", "samples", "note")
_NUMBERS = {"ε", "δ", "true ε ≥", "seen from ε =", "samples"}


def cells(row: Row) -> tuple[str, ...]:
    """A row as a person reads it, in the order of `HEADINGS`."""
    return (
        row.name,
        row.method,
        f"{row.epsilon:.3g}",
        f"{row.delta:g}" if row.delta else "0",
        "passed" if row.passed else "FAILED",
        "" if row.epsilon_lower is None else f"{row.epsilon_lower:.3g}",
        "" if row.samples == 0 else "nowhere" if row.power is None else f"{row.power:.3g}",
        f"{row.samples:,}" if row.samples else "",
        row.note,
    )


def lead(report: Report) -> str:
    """What the table says, in a paragraph."""
    failed = sum(not row.passed for row in report.rows)
    verdict = f"{failed} of {len(report.rows)} checks FAILED." if failed else f"All {len(report.rows)} checks passed."
    return (
        f"{verdict} Up to {report.samples:,} samples a database, {report.seconds:.0f} s. A sampled check would have seen a "
        "violation from the ε in its column on; smaller ones may hide. Gaussian noise and thresholds at a realistic δ cannot be "
        "seen by sampling: they are computed exactly. False alarms of a whole run: at most one in a million."
    )


def page(report: Report) -> str:
    """The whole page."""
    tables = "".join(
        f"<h2>{escape(family)}</h2>{_table(tuple(rows))}"
        for family, rows in groupby(report.rows, key=lambda row: row.family)
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>shoal audit</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<style>{_STYLE}</style></head><body><h1>shoal audit</h1><p>{escape(lead(report))}</p>{tables}</body></html>\n"
    )


def _table(rows: tuple[Row, ...]) -> str:
    head = "".join(f'<th class="{_kind(name)}">{escape(name)}</th>' for name in HEADINGS)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{"".join(map(_line, rows))}</tbody></table></div>'


def _line(row: Row) -> str:
    shown = zip(HEADINGS, cells(row), strict=True)
    good = "good" if row.passed else "bad"
    return (
        "<tr>"
        + "".join(
            f'<td class="{good if name == "verdict" else _kind(name)}">{escape(text)}</td>' for name, text in shown
        )
        + "</tr>"
    )


def _kind(name: str) -> str:
    return "number" if name in _NUMBERS else ""
