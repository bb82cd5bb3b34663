"""Answers as people and programs want them: a table with error bars, or columns in the library of your choice."""

from __future__ import annotations

import html
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from shoal import params
from shoal.errors import ShoalError, missing_extra
from shoal.release.answer_bytes import OWNER_LEVEL, PROMISE_KEY, from_bytes, to_bytes
from shoal.release.stored_rows import distinct_names, plain

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from shoal.release.answer_bytes import KeptAnswer

__all__ = ["OWNER_LEVEL", "PROMISE_KEY", "PolicyResult", "Result", "Rows"]
MAX_SHOWN_ROWS = 40
LONGEST_SHOWN = 200


class Rows:
    """Columns by name, in the order of the query; converts to Arrow, pandas, polars and plain Python."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    @classmethod
    def in_words(cls, explanation: object) -> Rows:
        """What EXPLAIN PRIVACY answers: an explanation, line by line."""
        import pyarrow as pa

        return cls(pa.table({"explanation": str(explanation).splitlines()}))

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

    def to_text(self) -> str:
        """Every row in full, for a file or a pipe; printing stops after forty rows."""
        return text_table(self.columns, self._cells(), len(self))

    def _cells(self, most_rows: int | None = None) -> list[list[str]]:
        """Rows as text; a table that is cut short also cuts long strings."""
        rows = self._table.slice(0, most_rows).to_pylist()
        return [[shown(v, LONGEST_SHOWN if most_rows else None) for v in row.values()] for row in rows]

    def __repr__(self) -> str:
        return text_table(self.columns, self._cells(MAX_SHOWN_ROWS), len(self))

    def _repr_html_(self) -> str:
        return html_table(self.columns, self._cells(MAX_SHOWN_ROWS), len(self))


class Result(Rows):
    """The answer to one statement: rows, what they cost, and how far the noise may have moved each number."""

    promise: str = OWNER_LEVEL
    """What the answer promises the people behind it."""

    def __init__(self, kept: KeptAnswer) -> None:
        super().__init__(kept.table)
        self._kept = kept
        self.promise = kept.promise
        self.epsilon = float(kept.epsilon)
        self.delta = float(kept.delta)

    @staticmethod
    def from_bytes(data: bytes) -> Result:
        """The answer that `to_bytes` wrote: the same rows and the same intervals at any level."""
        kept = from_bytes(data)
        return Result(kept) if kept.spreads is None else PolicyResult(kept)

    def to_bytes(self) -> bytes:
        """Everything that was released with the answer, to store or send: rows, cost, notes, error bars at any level."""
        return to_bytes(self._kept)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What to know about this answer: what of each owner counts, what was found on the way, what is missing and why."""
        return (*self._kept.notes, *self._weak_columns())

    def parts(self) -> Iterator[Result]:
        """The same answer a few rows at a time, at least once; rows and intervals of the parts are those of the whole."""
        return map(type(self), self._kept.parts())

    def _weak_columns(self) -> Iterator[str]:
        """Columns in which the noise is larger than the number."""
        for index, name in enumerate(self.columns):
            counted = [part._weak_rows(index) for part in self.parts()]  # noqa: SLF001 - of our own class
            known, anywhere, weak = (sum(each) for each in zip(*counted, strict=True))
            if anywhere:
                yield _hidden(name, known, anywhere)
            if anywhere or set(self.ranks(name)) & {0.0, 1.0}:
                continue  # of the least and the greatest value one end is a bound, whatever the noise
            if weak:
                rows = "" if known == 1 else f" in {weak:,} of {params.many(known, 'row')}"
                yield (
                    f"{name}: the noise is larger than the number itself{rows}, which then says little. Four times the epsilon "
                    "has a quarter of the noise; fewer and larger groups, or limits and bounds that are known, help as well."
                )

    def _weak_rows(self, index: int) -> tuple[int, int, int]:
        """How many rows have a number with an interval; in how many it may be anywhere, or its noise is larger than it."""
        ends = self._noise_part(index, self.level) or self._interval(index, self.level)
        if ends is None:
            return 0, 0, 0
        numbers = zip(self._table.column(index).to_pylist(), *ends, strict=True)
        known = [(v, low, high) for v, low, high in numbers if isinstance(v, (int, float)) and low is not None]
        # Ends stop where the exact number cannot lie, so that the farther one says how large the noise is.
        weak = sum((high - low) / 2 > abs(value) or (value < 0 < high and low == value) for value, low, high in known)
        return len(known), _anywhere(known, self._kept.bars.bounds(index)), weak

    @property
    def level(self) -> float:
        """The confidence level of the intervals shown by default."""
        return float(self._kept.level)

    def intervals(self, level: float | None = None) -> Rows:
        """The same rows with <name>_low and <name>_high after every private aggregate.

        Marginal: each interval covers the noise of its own number with this confidence. Where limits on each owner were found
        privately, the far end also counts what lies beyond them, without a confidence level; <name>_noise_low and
        <name>_noise_high are then the noise part. Groups that were not kept are not covered.
        """
        exact = float(params.confidence_level(self.level if level is None else level))
        wanted = [f"{name}_{end}" for name in self.columns for end in ("low", "high", "noise_low", "noise_high")]
        # A column that the analyst named keeps its name, whatever the ends of another would be called.
        end_names = iter(distinct_names(self.columns + wanted)[len(self.columns) :])
        names: list[str] = []
        columns: list[pa.ChunkedArray | pa.Array] = []
        for index, name in enumerate(self.columns):
            own_names = [next(end_names) for _ in range(4)]
            whole, of_noise = self._interval(index, exact), self._noise_part(index, exact)
            ends = [*(whole or ()), *(of_noise or ())]
            names += [name, *own_names[: len(ends)]]
            columns.append(self._table.column(index))
            columns += [pa.array(plain(end), _type_of_ends(self._table.column(index).type)) for end in ends]
        return Rows(pa.Table.from_arrays(columns, names=names).replace_schema_metadata(self._table.schema.metadata))

    def _interval(self, index: int, level: float) -> tuple[Any, Any] | None:
        """(low, high) of an output column that is a plain copy of private aggregates."""
        return self._kept.bars.interval(index, self._table, level)

    def _noise_part(self, index: int, level: float) -> tuple[Any, Any] | None:
        """The interval of the noise alone, where the whole one is wider."""
        bars = self._kept.bars
        return bars.interval(index, self._table, level, whole=False) if bars.is_widened(index) else None

    def plot(
        self,
        column: str | None = None,
        *,
        kind: str | None = None,
        title: str | None = None,
        file: str | Path | None = None,
    ) -> Any:
        """A chart that fits the shape of the answer (extra: plot); `kind` is bar, point or line, `file` where to write it."""
        from shoal.plot import plot_result

        return plot_result(self, column, kind=kind, title=title, file=file)

    # ---- reading it ----------------------------------------------------------------------------------------------

    @property
    def cost(self) -> str:
        """What the answer cost, in words; nothing where no private table was read."""
        return f"cost: ε = {self.epsilon:g}, δ = {self.delta:g}" if self._kept.private else ""

    @property
    def warnings(self) -> tuple[str, ...]:
        """Why this answer should not be shared, if there is a reason."""
        warning = params.warning_about(self.epsilon)
        return () if warning is None else (warning,)

    def to_text(self, level: float | None = None) -> str:
        """Every row in full with error bars at this level, what it cost and the notes; printing stops after forty rows."""
        exact = float(params.confidence_level(self.level if level is None else level))
        return self._text(self._cells(level=exact), exact)

    def _cells(self, most_rows: int | None = None, level: float | None = None) -> list[list[str]]:
        """Rows as text, each number with how far the noise may have moved it."""
        cells = super()._cells(most_rows)
        for index in range(len(self.columns)):
            ends = self._interval(index, level or self.level)
            if ends is None:
                _without_commas(cells, index, self._table.column(index).slice(0, len(cells)).to_pylist())
                continue
            values = self._table.column(index).slice(0, len(cells)).to_pylist()
            for line, value, low, high in zip(cells, values, *(end[: len(cells)] for end in ends), strict=True):
                line[index] = _with_bar(line[index], value, low, high)
        return cells

    def ranks(self, column: str) -> tuple[float, ...]:
        """Which quantiles a column holds, from 0 to 1; none where it holds other numbers."""
        copied = self._kept.bars.columns.get(self.columns.index(column), ()) if column in self.columns else ()
        return tuple(float(rank) for rank in getattr(copied[0].aggregate, "ranks", ())) if copied else ()

    def _footer(self, level: float) -> list[str]:
        covered = f"± covers the noise {params.percent(level)} of the time, not clamping or groups that were left out"
        if any(self._kept.bars.is_widened(index) for index in range(len(self.columns))):
            covered = (
                f"intervals cover the noise {params.percent(level)} of the time; their far ends also count what lies beyond the "
                "limits, without a confidence level"
            )
        cost = [f"{self.cost}; {covered}"] if self.cost else []
        return [*cost, *self.warnings, *(f"note: {shown(note, None)}" for note in self.notes)]

    def _text(self, cells: list[list[str]], level: float) -> str:
        return "\n".join([text_table(self.columns, cells, len(self)), *self._footer(level)])

    def __repr__(self) -> str:
        return self._text(self._cells(MAX_SHOWN_ROWS), self.level)

    def _repr_html_(self) -> str:
        footer = "".join(f"<div>{html.escape(line)}</div>" for line in self._footer(self.level))
        return html_table(self.columns, self._cells(MAX_SHOWN_ROWS), len(self)) + f"<small>{footer}</small>"


class PolicyResult(Result):
    """The answer of a SELECT WITH POLICY; whatever shows it says in its first line what is promised."""

    def __init__(self, kept: KeptAnswer) -> None:
        super().__init__(kept)
        self.exact_epsilon = kept.epsilon

    def _interval(self, index: int, level: float) -> tuple[Any, Any] | None:
        found = (self._kept.spreads or {}).get(index)
        return None if found is None else found.interval(self._table.column(index).to_pylist(), level)

    @property
    def cost(self) -> str:
        """What the answer cost under its policy."""
        return f"cost: ε = {self.epsilon:g} under the policy"

    def _text(self, cells: list[list[str]], level: float) -> str:
        return f"{self.promise}\n{super()._text(cells, level)}"

    def _repr_html_(self) -> str:
        return f"<div>{html.escape(self.promise)}</div>{super()._repr_html_()}"


MOST_OF_THE_RANGE = 0.9


def _anywhere(known: list[tuple[Any, Any, Any]], bounds: params.Bounds | None) -> int:
    """In how many rows an interval is about as wide as the bounds."""
    if bounds is None or bounds.lower == bounds.upper:
        return 0
    width = float(bounds.upper - bounds.lower)
    return sum(high - low >= MOST_OF_THE_RANGE * width for _, low, high in known)


def _hidden(name: str, known: int, anywhere: int) -> str:
    """Quantiles, averages, least and greatest values that could be anywhere, because groups are too small for the noise."""
    rows = "" if known == 1 else f" in {anywhere:,} of {params.many(known, 'row')}"
    return (
        f"{name}: noise hides how far off the number is{rows}; it may lie nearly anywhere between the bounds. It takes larger "
        "groups, a larger epsilon or fewer columns."
    )


def _without_commas(cells: list[list[str]], index: int, values: list[Any]) -> None:
    """A key is a name: the year 1996 is not 1,996, also where FLOOR made it a real number."""
    for line, value in zip(cells, values, strict=True):
        whole = isinstance(value, float) and value.is_integer() and abs(value) < 1e15
        if (isinstance(value, int) and not isinstance(value, bool)) or whole:
            line[index] = str(int(value))


def _type_of_ends(type_: pa.DataType) -> pa.DataType:
    return type_ if pa.types.is_list(type_) else pa.float64()


def _with_bar(text: str, value: Any, low: Any, high: Any) -> str:
    """A number with its error bar; of a list, every number with its own."""
    if isinstance(value, list) and isinstance(low, list):
        return ", ".join(shown(v) + _error_bar(v, a, b) for v, a, b in zip(value, low, high, strict=True))
    return text + _error_bar(value, low, high)


def _error_bar(value: Any, low: Any, high: Any) -> str:
    if value is None or low is None or high is None or not isinstance(value, (int, float, Decimal)):
        return ""
    value = float(value) if isinstance(value, Decimal) else value
    below, above = value - low, high - value
    if abs(below - above) <= 1e-9 * max(1.0, abs(above)):
        return f" ± {shown(above)}"
    return f" [{shown(float(low))}, {shown(float(high))}]"


def shown(value: Any, longest: int | None = LONGEST_SHOWN) -> str:
    """A value as text; control characters of keys are made harmless."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}" if abs(value) < 1e15 else f"{value:.4g}"
    if isinstance(value, (int, Decimal)):
        return f"{value:,}"
    text = str(value)
    clean = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text[:longest])
    return clean + ("…" if longest is not None and len(text) > longest else "")


def text_table(names: list[str], rows: list[list[str]], total: int) -> str:
    """A plain table for a terminal; numbers are right-aligned."""
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
    left = f'<tr><td colspan="{len(names)}">… {total - len(rows):,} more rows</td></tr>' if total > len(rows) else ""
    foot = f"<tfoot>{left}</tfoot>" if left else ""
    return f'<table class="shoal"><thead><tr>{head}</tr></thead><tbody>{body}</tbody>{foot}</table>'
