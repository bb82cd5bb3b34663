"""Joinability as a web page."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from shoal.pages import heads, page, tile, top
from shoal.risk.reports.columns import badge, counted, share
from shoal.risk.sketch.assessment import CAVEAT, WHAT_TO_DO_ABOUT_JOINS
from shoal.risk.sketch.grading import Grade, percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shoal.risk.joining.labels import Contradiction, Proposal
    from shoal.risk.joining.pairs import Pair
    from shoal.risk.joining.paths import LinkPath

_HEADINGS = (
    ("Pair", True), ("Risk", False), ("A in B", False), ("B in A", False), ("Common values", False),
    ("A singles out", False), ("B singles out", False), ("Score", False),
)  # fmt: skip


def join_page(
    spaces: dict[str, tuple[str | None, bool]],
    pairs: Sequence[Pair],
    set_aside: Sequence[Pair],
    paths: Sequence[LinkPath],
    groups: list[list[str]],
    proposals: Sequence[Proposal],
    contradictions: Sequence[Contradiction],
) -> str:
    """The page of a comparison."""
    links = sum(pair.links_identified and pair.grade >= Grade.MEDIUM for pair in pairs)
    tiles = [
        tile(str(len(spaces)), "datasets compared"),
        tile(str(len(pairs)), "pairs of columns that join"),
        tile(str(links), "link identified to pseudonymous owners", "critical" if links else ""),
        tile(str(len(paths)), "ways over other datasets", "high" if paths else ""),
    ]
    body = (
        top("Joinability", "Which datasets can be linked through which columns, directly or over others.")
        + f"<main><div class='tiles'>{''.join(tiles)}</div>{_pairs('Joinable pairs', pairs)}{_paths(paths)}"
        + _datasets(spaces, groups) + _labels(proposals, contradictions)
        + (_pairs("Set aside", set_aside) if set_aside else "") + "</main>" + _footer()
    )  # fmt: skip
    return page("Joinability", body)


def _card(title: str, inside: str) -> str:
    return f'<section class="card"><div class="head"><h2>{escape(title)}</h2></div>{inside}</section>'


def _pairs(title: str, pairs: Sequence[Pair]) -> str:
    if not pairs:
        return _card(title, '<p class="path">No pair of columns joins two datasets.</p>')
    rows = "".join(_row(pair) for pair in pairs)
    return _card(title, f'<div class="scroll"><table class="main">{heads(_HEADINGS)}{rows}</table></div>')


def _row(pair: Pair) -> str:
    shares = "".join(f'<td data-sort="{e.value:.6f}">{share(e)}</td>' for e in (pair.a_in_b, pair.b_in_a))
    alone = "".join(f'<td data-sort="{e.value:.6f}">{share(e)}</td>' for e in (pair.a_uniqueness, pair.b_uniqueness))
    link = '<span class="kind">identified ⇄ pseudonymous</span>' if pair.links_identified else ""
    why = f"Set aside: {pair.set_aside}." if pair.set_aside else pair.reason
    return (
        f'<tbody><tr><td></td><td class="text name"><span class="name">{escape(pair.a)} = {escape(pair.b)}</span>{link}'
        f'<span class="reason">{escape(why)}</span></td><td data-sort="{int(pair.grade)}">{badge(pair.grade)}</td>{shares}'
        f'<td data-sort="{pair.common:.0f}">{counted(pair.common)}</td>{alone}'
        f'<td data-sort="{pair.score:.6f}">{pair.score:.2f}</td></tr></tbody>'
    )


def _paths(paths: Sequence[LinkPath]) -> str:
    if not paths:
        return ""
    lines = "".join(
        f'<div class="path"><strong>{escape(" → ".join(path.datasets))}</strong> '
        f'<span class="off">score {path.score:.2f}</span><br>'
        + ", then ".join(f"<code>{escape(pair.a)} = {escape(pair.b)}</code>" for pair in path.pairs)
        + "</div>"
        for path in paths
    )
    return _card("Ways over other datasets", lines)


def _datasets(spaces: dict[str, tuple[str | None, bool]], groups: list[list[str]]) -> str:
    lines = []
    for name, (space, guessed) in spaces.items():
        together = next((group for group in groups if name in group), [name])
        others = ", ".join(other for other in together if other != name) or "nothing"
        kind = f"{space}{' (guessed from names)' if guessed else ''}" if space else "owners not said to be identified"
        lines.append(
            f'<div class="path"><code>{escape(name)}</code> {escape(kind)}; hangs together with {escape(others)}</div>'
        )
    return _card("Datasets", "".join(lines))


def _labels(proposals: Sequence[Proposal], contradictions: Sequence[Contradiction]) -> str:
    lines = [
        f'<div class="path"><code>{escape(proposal.column)}</code> might be “{escape(proposal.label)}”, '
        f"like <code>{escape(proposal.because_of)}</code></div>"
        for proposal in proposals
    ]
    lines += [
        '<div class="path"><span class="bad medium">contradiction</span> '
        + ", ".join(f"<code>{escape(c)}</code> is “{escape(label)}”" for c, label in contradiction.labels.items())
        + "</div>"
        for contradiction in contradictions
    ]
    return _card("Labels", "".join(lines)) if lines else ""


def _footer() -> str:
    return (
        f"<footer><p>{escape(CAVEAT)}</p><dl><dt>A in B</dt><dd>share of the distinct values of A that B has too</dd>"
        "<dt>singles out</dt><dd>share of the values that one owner alone has</dd>"
        f"<dt>score</dt><dd>larger containment × both of these shares; from {percent(0.1)} on, a pair is a link of a way"
        f"</dd></dl><p>{escape(WHAT_TO_DO_ABOUT_JOINS)}</p></footer>"
    )
