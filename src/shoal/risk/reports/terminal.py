"""Reports for a terminal."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from shoal.risk.sketch.assessment import CAVEAT, WHAT_HELPS
from shoal.risk.sketch.grading import Grade, percent

if TYPE_CHECKING:
    from shoal.risk.sketch.assessment import ColumnRisk, DatasetRisk
    from shoal.risk.sketch.estimate import Estimate

STYLES = {
    Grade.CRITICAL: "bold red",
    Grade.HIGH: "red",
    Grade.MEDIUM: "yellow",
    Grade.LOW: "green",
    Grade.MINIMAL: "dim green",
}
_WIDTH = 110


def printable(text: str) -> str:
    """Names from data, without the control characters that could speak to a terminal."""
    return escape("".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text))


def as_text(renderable: RenderableType) -> str:
    """What a terminal without colours would show."""
    console = Console(file=io.StringIO(), width=_WIDTH, color_system=None, highlight=False)
    console.print(renderable)
    shown: str = console.file.getvalue()  # type: ignore[attr-defined]  # the StringIO above
    return shown


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


def risk_tables(datasets: tuple[DatasetRisk, ...]) -> Group:
    """A table for each dataset, and the caveat."""
    parts: list[RenderableType] = []
    for dataset in datasets:
        parts += [_dataset_table(dataset), *_lines_below(dataset), Text()]
    return Group(*parts, Text(CAVEAT, style="dim"), Text(WHAT_HELPS, style="dim"))


def _dataset_table(dataset: DatasetRisk) -> Table:
    who = f"owner {printable(dataset.owner)}" if dataset.owner is not None else "every row its own owner"
    title = f"[bold]{printable(dataset.name)}[/bold]: {dataset.rows:,} rows, {who}"
    table = Table(title=title, title_justify="left", caption_justify="left", box=None, pad_edge=False)
    table.add_column("column", overflow="fold", ratio=3)
    for heading in ("values", "owners per value", "values k<2", "k<5", "k<10", "owners k<5", "rows k<5"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("risk")
    for column in dataset.columns:
        table.add_row(*_cells(column))
    return table


def _cells(column: ColumnRisk) -> list[str | Text]:
    measures = column.measures
    values = [with_error(measures.shares[k]["values"]) for k in (2, 5, 10)]
    lost = [with_error(measures.shares[5]["owners"]), with_error(measures.shares[5]["rows"])]
    spread = "·".join(counted(number) for number in (measures.minimum, measures.median, measures.maximum))
    grade = Text(str(column.graded.grade), style=STYLES[column.graded.grade])
    about = "" if measures.distinct_values.exact else "~"
    return [printable(column.name), about + counted(measures.distinct_values.value), spread, *values, *lost, grade]


def _lines_below(dataset: DatasetRisk) -> list[Text]:
    worst = [column for column in dataset.columns if column.graded.grade >= Grade.HIGH and not column.is_owner][:3]
    lines = [Text.from_markup(f"  {printable(column.name)}: {printable(column.graded.reason)}") for column in worst]
    lines += [Text.from_markup(f"  note: {printable(note)}", style="dim") for note in dataset.notes]
    if dataset.owner is None and dataset.owner_candidates:
        listed = ", ".join(printable(candidate) for candidate in dataset.owner_candidates)
        lines.append(Text.from_markup(f"  might be the owner: {listed}", style="dim"))
    return lines
