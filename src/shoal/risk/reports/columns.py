"""The columns of a scan's table, once: heading, what it means, what it sorts by, and its text here and on a page.

A new column is one row of `COLUMNS`; the table in a terminal and the table of the page iterate over it.
"""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import TYPE_CHECKING

from shoal.frozen import dataclass
from shoal.risk.reports import charts
from shoal.risk.sketch.grading import Grade, percent

if TYPE_CHECKING:
    from shoal.risk.sketch.assessment import ColumnRisk
    from shoal.risk.sketch.estimate import Estimate
    from shoal.risk.sketch.measures import Whole

Text = Callable[["ColumnRisk"], str]


@dataclass(frozen=True, slots=True)
class RiskColumn:
    """One column; without a heading for it, a terminal or a page leaves it out."""

    meaning: str
    value: Callable[[ColumnRisk], float]
    """What a page sorts by."""
    heading: str | None = None
    text: Text | None = None
    page_heading: str | None = None
    html: Text | None = None
    sort_digits: int = 6


def badge(grade: Grade) -> str:
    """A grade as a coloured word."""
    return f'<span class="bad {grade}">{grade}</span>'


def share(estimate: Estimate) -> str:
    """A share with how far it may be off, for a page."""
    off = "" if estimate.error < 0.0005 else f'<span class="off">±{100 * estimate.error:.1f}</span>'
    return f"{escape(percent(estimate.value))}{off}"


def with_error(estimate: Estimate) -> str:
    """A share and how far it may be off: `12% ±1.4`."""
    if estimate.error < 0.0005:
        return percent(estimate.value)
    return f"{percent(estimate.value)} ±{100 * estimate.error:.1f}"


def counted(value: float) -> str:
    """A count, short: 980, 12.4k, 3.1M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= size:
            unit = 1e3 if letter == "k" else size
            return f"{value / unit:.1f}{letter}"
    return f"{value:,.0f}"


def _distinct_text(column: ColumnRisk) -> str:
    distinct = column.measures.distinct_values
    return ("" if distinct.exact else "~") + counted(distinct.value)


def _distinct_html(column: ColumnRisk) -> str:
    distinct = column.measures.distinct_values
    off = "" if distinct.exact else f'<span class="off">±{percent(distinct.error / max(distinct.value, 1))}</span>'
    return f"{counted(distinct.value)}{off}"


def _spread_text(column: ColumnRisk) -> str:
    measures = column.measures
    return "·".join(counted(number) for number in (measures.minimum, measures.median, measures.maximum))


def _spread_html(column: ColumnRisk) -> str:
    measures = column.measures
    return f"{measures.minimum:,} · {measures.median:,.0f} · {counted(measures.maximum)}"


def _share(of: Whole, k: int, meaning: str, heading: str | None, page_heading: str | None) -> RiskColumn:
    def estimate(column: ColumnRisk) -> Estimate:
        return column.measures.shares[k][of]

    return RiskColumn(
        meaning,
        lambda column: estimate(column).value,
        heading,
        lambda column: with_error(estimate(column)),
        page_heading,
        lambda column: share(estimate(column)),
    )


COLUMNS = (
    RiskColumn(
        "how identifying the column is, in one word",
        lambda column: int(column.graded.grade),
        page_heading="Risk",
        html=lambda column: badge(column.graded.grade),
        sort_digits=0,
    ),
    RiskColumn(
        "different values",
        lambda column: column.measures.distinct_values.value,
        "values",
        _distinct_text,
        "Values",
        _distinct_html,
        sort_digits=0,
    ),
    RiskColumn(
        "least, median and most of the values seen",
        lambda column: column.measures.median,
        "owners per value",
        _spread_text,
        "Owners per value",
        _spread_html,
        sort_digits=1,
    ),
    RiskColumn(
        "the share of values with fewer owners than k, for growing k",
        lambda column: column.measures.shares[10]["values"].value,
        page_heading="Curve",
        html=lambda column: charts.spark(column.measures),
    ),
    _share("values", 2, "values that a single owner has", "values k<2", "Values, k&lt;2"),
    _share("values", 5, "values that fewer than 5 owners have", "k<5", "Values, k&lt;5"),
    _share("values", 10, "values that fewer than 10 owners have", "k<10", None),
    _share("owners", 5, "owners with such a value", "owners k<5", "Owners, k&lt;5"),
    _share("rows", 5, "rows with such a value", "rows k<5", "Rows, k&lt;5"),
)
