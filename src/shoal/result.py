"""Answers as people and programs want them: a table with error bars, or columns in the library of your choice."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from shoal import params
from shoal.errors import ShoalError, missing_extra
from shoal.plan.measures import Leaves
from shoal.released import distinct_names, plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shoal.finish import Finished
    from shoal.plan.releases import StatementPlan

MAX_SHOWN_ROWS = 40


class Rows:
    """Columns by name, in the order of the query; converts to Arrow, pandas, polars and plain Python."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    @property
    def columns(self) -> list[str]:
        """Names, as the analyst wrote them."""
        return list(self._table.column_names)

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def to_arrow(self) -> pa.Table:
        """An Arrow table."""
        return self._table

    def to_pandas(self) -> Any:
        """A pandas data frame (extra: frames)."""
        try:
            import pandas  # noqa: F401, ICN001 - only to see whether it is there
        except ImportError:
            raise missing_extra("frames", "A pandas data frame") from None
        return self._table.to_pandas()

    def to_polars(self) -> Any:
        """A polars data frame (extra: frames)."""
        try:
            import polars as pl
        except ImportError:
            raise missing_extra("frames", "A polars data frame") from None
        return pl.from_arrow(self._table)

    def to_dicts(self) -> list[dict[str, Any]]:
        """One dict per row."""
        rows: list[dict[str, Any]] = self._table.to_pylist()
        return rows

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.to_dicts())

    def __getitem__(self, name: str) -> list[Any]:
        """The values of one column."""
        if name not in self.columns:
            raise ShoalError(
                "E_USAGE", f"The answer has no column {name!r}.", hint=f"Columns: {', '.join(self.columns)}."
            )
        values: list[Any] = self._table.column(name).to_pylist()
        return values

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Lets DuckDB, polars, pandas and others read the rows without copying."""
        return self._table.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return text_table(self.columns, [[shown(v) for v in row.values()] for row in self._shown()], len(self))

    def _shown(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self._table.slice(0, MAX_SHOWN_ROWS).to_pylist()
        return rows

    def _repr_html_(self) -> str:
        return html_table(self.columns, [[shown(v) for v in row.values()] for row in self._shown()], len(self))


class Result(Rows):
    """The answer of one statement: rows, what they cost, and how far the noise may have moved each number."""

    def __init__(
        self, plan: StatementPlan, finished: Finished, epsilon: float, delta: float, *, safe: bool = True
    ) -> None:
        super().__init__(finished.table)
        self._plan = plan
        self._finished = finished
        self.epsilon = epsilon
        self.delta = delta
        self.safe = safe
        self.notes: tuple[str, ...] = finished.notes

    @property
    def level(self) -> float:
        """The confidence level of the intervals shown by default."""
        selects = self._plan.selects
        return float(selects[0].select.options.confidence_level) if selects else 0.95

    def intervals(self, level: float | None = None) -> Rows:
        """The same rows with <name>_low and <name>_high after every private aggregate.

        Marginal: each interval covers the noise of its own number with this confidence. Clamping, groups that were not kept,
        and expressions over aggregates are not covered (those have no interval).
        """
        exact = float(params.confidence_level(self.level if level is None else level))
        wanted = [f"{name}_{end}" for name in self.columns for end in ("low", "high")]
        # A column that the analyst named keeps its name, whatever the ends of another would be called.
        end_names = iter(distinct_names(self.columns + wanted)[len(self.columns) :])
        names: list[str] = []
        columns: list[pa.ChunkedArray | pa.Array] = []
        for index, name in enumerate(self.columns):
            low_and_high = (next(end_names), next(end_names))
            ends = self._interval(index, exact)
            names += [name, *low_and_high] if ends is not None else [name]
            columns.append(self._table.column(index))
            columns += [pa.array(plain(end), pa.float64()) for end in ends or ()]
        return Rows(pa.Table.from_arrays(columns, names=names))

    def _interval(self, index: int, level: float) -> tuple[Any, Any] | None:
        """(low, high) of an output column that is a plain copy of a private aggregate."""
        from dataclasses import replace

        if index not in self._finished.carried:
            return None
        select, column_number, symbols = self._finished.carried[index]
        column = self._plan.selects[select].columns[column_number]
        if column.call.report is not None or not column.releases:
            return None
        numbers = [np.nan_to_num(self._finished.components.column(s).to_numpy(zero_copy_only=False)) for s in symbols]
        low, high = (np.full(len(self), None, dtype=object) for _ in range(2))
        classes = numbers.pop() if len(numbers) > len(column.releases) else np.zeros(len(self))
        for number, taken in enumerate(self._finished.released[select].readings):
            here = np.flatnonzero(classes == number)
            readings = [
                replace(taken[release], values=np.asarray(values)[here])
                for release, values in zip(column.releases, numbers, strict=True)
            ]
            if not any(isinstance(reading.measure, Leaves) for reading in readings):
                low[here], high[here] = column.call.aggregate.interval(readings, level)
        # An outer join has rows without a number, and so without an interval.
        missing = self._table.column(index).is_null().to_numpy(zero_copy_only=False)
        low[missing] = high[missing] = None
        return low, high

    def plot(self) -> Any:
        """A chart that fits the shape of the answer (extra: plot)."""
        from shoal.plot import plot_result

        return plot_result(self)

    # ---- reading it ----------------------------------------------------------------------------------------------

    def _cells(self) -> list[list[str]]:
        """Rows as text, each number with how far the noise may have moved it."""
        intervals = {i: self._interval(i, self.level) for i in range(len(self.columns))}
        cells = []
        for number, row in enumerate(self._table.slice(0, MAX_SHOWN_ROWS).to_pylist() if self.columns else []):
            line = []
            for index, value in enumerate(row.values()):
                ends = intervals[index]
                line.append(shown(value) + (_error_bar(value, ends[0][number], ends[1][number]) if ends else ""))
            cells.append(line)
        return cells

    def _footer(self) -> list[str]:
        lines = []
        if self._plan.selects:
            lines.append(
                f"cost: ε = {self.epsilon:g}, δ = {self.delta:g}; ± covers the noise {self.level:.0%} of the time, "
                "not clamping or groups that were left out"
            )
        if not self.safe:
            lines.append("UNSAFE: drawn from a seed, for tests only")
        if self.epsilon > 20:
            lines.append(f"ε = {self.epsilon:g} protects nobody: use it only on data you may see")
        return lines + [f"note: {note}" for note in self.notes]

    def __repr__(self) -> str:
        return "\n".join([text_table(self.columns, self._cells(), len(self)), *self._footer()])

    def _repr_html_(self) -> str:
        footer = "".join(f"<div>{html.escape(line)}</div>" for line in self._footer())
        return html_table(self.columns, self._cells(), len(self)) + f"<small>{footer}</small>"


def _error_bar(value: Any, low: Any, high: Any) -> str:
    if value is None or low is None or high is None or not isinstance(value, (int, float)):
        return ""
    below, above = value - low, high - value
    if abs(below - above) <= 1e-9 * max(1.0, abs(above)):
        return f" ± {shown(above)}"
    return f" [{shown(float(low))}, {shown(float(high))}]"


def shown(value: Any) -> str:
    """A value as text; control characters of keys are made harmless."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}" if abs(value) < 1e15 else f"{value:.4g}"
    if isinstance(value, int):
        return f"{value:,}"
    text = str(value)
    clean = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text[:200])
    return clean + ("…" if len(text) > 200 else "")


def text_table(names: list[str], rows: list[list[str]], total: int) -> str:
    """A plain table for a terminal; numbers stand at the right."""
    if not names:
        return "(no columns)"
    widths = [max(len(n), *(len(r[i]) for r in rows)) if rows else len(n) for i, n in enumerate(names)]
    numeric = [bool(rows) and all(r[i][:1] in "-0123456789N" for r in rows) for i in range(len(names))]

    def line(cells: list[str]) -> str:
        return "  ".join(
            c.rjust(w) if right else c.ljust(w) for c, w, right in zip(cells, widths, numeric, strict=True)
        ).rstrip()

    lines = [line(names), "  ".join("─" * w for w in widths), *map(line, rows)]
    if total > len(rows):
        lines.append(f"… {total - len(rows):,} more rows")
    return "\n".join(lines)


def html_table(names: list[str], rows: list[list[str]], total: int) -> str:
    """The same for a notebook."""
    head = "".join(f"<th>{html.escape(n)}</th>" for n in names)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(c)}</td>" for c in r) + "</tr>" for r in rows)
    more = f"<caption>{total - len(rows):,} more rows</caption>" if total > len(rows) else ""
    return f'<table class="shoal">{more}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
