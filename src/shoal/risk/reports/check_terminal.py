"""Verdicts on a policy for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from shoal.risk.reports.terminal import counted, printable
from shoal.risk.sketch.grading import percent

if TYPE_CHECKING:
    from shoal.risk.checking.baseline import Comparison, Movement
    from shoal.risk.checking.check import Verdict
    from shoal.risk.sketch.estimate import Estimate

_SHOWN = 20


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
    return Group(*parts, Text(summary, style="bold"))


def _comparison_lines(comparison: Comparison) -> list[RenderableType]:
    parts: list[RenderableType] = []
    if comparison.moved:
        table = Table(title="Moved beyond the error since the baseline", title_justify="left", box=None, pad_edge=False)
        for heading in ("column", "measure"):
            table.add_column(heading, overflow="fold")
        for heading in ("before", "now", "change"):
            table.add_column(heading, justify="right", no_wrap=True)
        for movement in comparison.moved[:_SHOWN]:
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
    return [_share(movement.before), _share(movement.now), f"{100 * movement.change:+.1f} points"]


def _share(estimate: Estimate) -> str:
    return percent(estimate.value)
