"""Joinability for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from shoal.risk.reports.terminal import STYLES, counted, printable, with_error
from shoal.risk.sketch.assessment import CAVEAT
from shoal.risk.sketch.grading import percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shoal.risk.joining.labels import Contradiction, Proposal
    from shoal.risk.joining.pairs import Pair
    from shoal.risk.joining.paths import LinkPath

_SHOWN = 30


def join_tables(
    pairs: Sequence[Pair],
    set_aside: Sequence[Pair],
    paths: Sequence[LinkPath],
    proposals: Sequence[Proposal],
    contradictions: Sequence[Contradiction],
) -> Group:
    """The best pairs, the paths, and what the labels say."""
    parts: list[RenderableType] = [_pair_table(pairs[:_SHOWN])] if pairs else [Text("No two datasets can be joined.")]
    if len(pairs) > _SHOWN:
        parts.append(Text(f"  … and {len(pairs) - _SHOWN} more pairs (--json lists them)", style="dim"))
    parts += [_path_line(path) for path in paths[:_SHOWN]]
    parts += [
        Text.from_markup(
            f"label: {printable(proposal.column)} might be “{printable(proposal.label)}”, like {printable(proposal.because_of)}"
        )
        for proposal in proposals
    ]
    parts += [_contradiction_line(contradiction) for contradiction in contradictions]
    if set_aside:
        parts.append(Text(f"{len(set_aside)} pairs were set aside: few values, or no more than chance.", style="dim"))
    return Group(*parts, Text(), Text(CAVEAT, style="dim"))


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
