"""Scans, joins and verdicts for a terminal."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from shoal.risk.reports.columns import COLUMNS, counted, with_error
from shoal.risk.sketch.assessment import CAVEAT, WHAT_HELPS, WHAT_TO_DO_ABOUT_JOINS, WHAT_TO_DO_ABOUT_LIMITS
from shoal.risk.sketch.grading import Grade, percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shoal.risk.checking.baseline import Comparison, Movement
    from shoal.risk.checking.check import Verdict
    from shoal.risk.joining.labels import Contradiction, Proposal
    from shoal.risk.joining.pairs import Pair
    from shoal.risk.joining.paths import LinkPath
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
_PAIRS_SHOWN = 30
_MOVEMENTS_SHOWN = 20


def printable(text: str) -> str:
    """Names from data, without the control characters that could speak to a terminal."""
    return escape("".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text))


def as_text(renderable: RenderableType) -> str:
    """What a terminal without colours would show."""
    console = Console(file=io.StringIO(), width=_WIDTH, color_system=None, highlight=False)
    console.print(renderable)
    shown: str = console.file.getvalue()  # type: ignore[attr-defined]  # the StringIO above
    return shown


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
    for shown in COLUMNS:
        if shown.heading is not None:
            table.add_column(shown.heading, justify="right", no_wrap=True)
    table.add_column("risk")
    for column in dataset.telling:
        table.add_row(*_cells(column))
    return table


def _cells(column: ColumnRisk) -> list[str | Text]:
    texts = [shown.text(column) for shown in COLUMNS if shown.heading is not None and shown.text is not None]
    return [printable(column.name), *texts, Text(str(column.graded.grade), style=STYLES[column.graded.grade])]


def _lines_below(dataset: DatasetRisk) -> list[Text]:
    worst = [column for column in dataset.telling if column.graded.grade >= Grade.HIGH and not column.is_owner][:3]
    lines = [Text.from_markup(f"  {printable(column.name)}: {printable(column.graded.reason)}") for column in worst]
    notes = [*dataset.notes, *([dataset.folded] if dataset.folded else [])]
    lines += [Text.from_markup(f"  note: {printable(note)}", style="dim") for note in notes]
    if dataset.owner is None and dataset.owner_candidates:
        listed = ", ".join(printable(candidate) for candidate in dataset.owner_candidates)
        lines.append(Text.from_markup(f"  might be the owner: {listed}", style="dim"))
    return lines


# ---- joins ---------------------------------------------------------------------------------------------------------


def join_tables(
    pairs: Sequence[Pair],
    set_aside: Sequence[Pair],
    paths: Sequence[LinkPath],
    proposals: Sequence[Proposal],
    contradictions: Sequence[Contradiction],
) -> Group:
    """The best pairs, the paths, and what the labels say."""
    parts: list[RenderableType] = (
        [_pair_table(pairs[:_PAIRS_SHOWN])] if pairs else [Text("No two datasets can be joined.")]
    )
    if len(pairs) > _PAIRS_SHOWN:
        parts.append(Text(f"  … and {len(pairs) - _PAIRS_SHOWN} more pairs (--json lists them)", style="dim"))
    parts += [_path_line(path) for path in paths[:_PAIRS_SHOWN]]
    parts += [
        Text.from_markup(
            f"label: {printable(proposal.column)} might be “{printable(proposal.label)}”, like {printable(proposal.because_of)}"
        )
        for proposal in proposals
    ]
    parts += [_contradiction_line(contradiction) for contradiction in contradictions]
    if set_aside:
        parts.append(Text(f"{len(set_aside)} pairs were set aside: few values, or no more than chance.", style="dim"))
    return Group(*parts, Text(), Text(CAVEAT, style="dim"), Text(WHAT_TO_DO_ABOUT_JOINS, style="dim"))


def _pair_table(pairs: Sequence[Pair]) -> Table:
    table = Table(title="[bold]Joinable pairs[/bold]", title_justify="left", box=None, pad_edge=False)
    table.add_column("a", overflow="fold", ratio=2)
    table.add_column("b", overflow="fold", ratio=2)
    for heading in ("a in b", "b in a", "common", "a alone", "b alone", "score"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("risk")
    for pair in pairs:
        link = " ⇄" if pair.links_identified else ""
        table.add_row(
            printable(pair.a), printable(pair.b), with_error(pair.a_in_b), with_error(pair.b_in_a), counted(pair.common),
            percent(pair.a_uniqueness.value), percent(pair.b_uniqueness.value), f"{pair.score:.2f}",
            Text(f"{pair.grade}{link}", style=STYLES[pair.grade]),
        )  # fmt: skip
    return table


def _path_line(path: LinkPath) -> Text:
    hops = ", ".join(f"{printable(pair.a)} = {printable(pair.b)}" for pair in path.pairs)
    stations = " → ".join(printable(name) for name in path.datasets)
    return Text.from_markup(f"path: {stations} (score {path.score:.2f}): {hops}")


def _contradiction_line(contradiction: Contradiction) -> Text:
    listed = ", ".join(f"{printable(column)} is “{printable(label)}”" for column, label in contradiction.labels.items())
    return Text.from_markup(f"contradiction: the same values under different labels: {listed}", style="yellow")


# ---- verdicts on limits ----------------------------------------------------------------------------------------------


def verdict_lines(verdict: Verdict) -> Group:
    """What broke first, then what holds, then what moved."""
    parts: list[RenderableType] = []
    for finding in sorted(verdict.findings, key=lambda finding: not finding.broken):
        mark, style = ("BROKEN", "bold red") if finding.broken else ("holds ", "green")
        line = Text(f"{mark}  ", style=style)
        parts.append(line + Text.from_markup(f"{finding.rule}: {printable(finding.sentence)}"))
    if verdict.comparison is not None:
        parts += _comparison_lines(verdict.comparison)
    broken = len(verdict.broken)
    summary = (
        "The policy holds." if verdict.passed else f"{broken} finding{'s' if broken > 1 else ''} broke the policy."
    )
    ending = [] if verdict.passed else [Text(WHAT_TO_DO_ABOUT_LIMITS, style="dim")]
    return Group(*parts, Text(summary, style="bold"), *ending)


def _comparison_lines(comparison: Comparison) -> list[RenderableType]:
    parts: list[RenderableType] = []
    if comparison.moved:
        table = Table(title="Moved beyond the error since the baseline", title_justify="left", box=None, pad_edge=False)
        for heading in ("column", "measure"):
            table.add_column(heading, overflow="fold")
        for heading in ("before", "now", "change"):
            table.add_column(heading, justify="right", no_wrap=True)
        for movement in comparison.moved[:_MOVEMENTS_SHOWN]:
            table.add_row(printable(movement.column), movement.measure, *_numbers(movement))
        parts.append(table)
    else:
        parts.append(Text("Nothing moved beyond the error since the baseline."))
    for what, names in (("appeared", comparison.appeared), ("vanished", comparison.vanished)):
        if names:
            parts.append(Text.from_markup(f"{what}: {', '.join(printable(name) for name in names)}"))
    return parts


def _numbers(movement: Movement) -> list[str]:
    if movement.measure == "distinct values":
        sign = "+" if movement.change >= 0 else "−"
        return [counted(movement.before.value), counted(movement.now.value), sign + counted(abs(movement.change))]
    return [_plain_share(movement.before), _plain_share(movement.now), f"{100 * movement.change:+.1f} points"]


def _plain_share(estimate: Estimate) -> str:
    return percent(estimate.value)
