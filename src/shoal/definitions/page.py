"""The catalogue as one web page: search, filters, a graph of relations, the guide, formulas; no network.

Entries are written out, so that the page reads without scripts too; the script filters, draws and asks the guide's rules.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from html import escape
from importlib import resources
from typing import TYPE_CHECKING, Any

from shoal.definitions import advice, relations
from shoal.definitions.catalogue import KINDS, Definition, all_definitions, dimensions, get, relation_kinds
from shoal.pages.shell import page, top, write_page

if TYPE_CHECKING:
    from pathlib import Path

TITLE = "Definitions of privacy"
_PROPERTIES = (("post_processing", "post-processing"), ("convexity", "convexity"), ("composition", "composition"))
COMPOSITION = (
    ("basic", "Σε and Σδ"),
    ("advanced", "k times (ε, δ): min(kε, kε·tanh(ε/2) + ε√(2k ln(1/δ′)), kε·tanh(ε/2) + ε√(2k ln(e + √(kε²)/δ′)))"),
    ("optimal", "δ(ε) = 1 − Π(1−δᵢ)·(1 − E[(1 − e^{ε−L})₊]), L a sum of ±εᵢ with chances e^εᵢ/(1+e^εᵢ) and 1/(1+e^εᵢ)"),
    ("zcdp", "Σρ and Σξ"),
    ("renyi", "the sum at one order α; claims of different orders at the smaller one"),
    ("gdp", "√Σμ²"),
    ("group of k", "Pure kε; Approximate (kε, δ(e^{kε}−1)/(e^ε−1)); zCDP (ξkΣ 1/i, k²ρ); Gaussian kμ; Rényi, k = 2^c: (α/k, 3^cε)"),
    ("add/remove to replace-one", "a group of two: Pure 2ε; Approximate (2ε, δ(1 + e^ε)); zCDP (3ξ, 4ρ); Gaussian 2μ"),
    ("sample at rate q", "(ln(1 + q(e^ε − 1)), qδ)"),
)  # fmt: skip


def to_html(path: str | Path | None = None) -> str:
    """The page; written to a file where one is named."""
    folder = resources.files("shoal.definitions")
    style = (folder / "page.css").read_text(encoding="utf-8")
    script = (folder / "page.js").read_text(encoding="utf-8")
    entries = all_definitions()
    lead = f"{len(entries)} entries under seven dimensions: what each says, how they relate, and which one to choose."
    data = json.dumps(_data(entries), ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    body = (
        f"<style>{style}</style>{top(TITLE, lead)}<main>{_guide()}{_graph()}{_catalogue(entries)}{_formulas()}</main>"
        f'<script type="application/json" id="data">{data}</script>{_footer()}'
    )
    return write_page(page(TITLE, body, script), path)


def _data(entries: list[Definition]) -> dict[str, Any]:
    """What the script needs: names, how entries relate to their neighbours, and the rules of the guide."""
    kinds = tuple(relations.INVERSE)
    place = {one.id: number for number, one in enumerate(entries)}
    return {
        "kinds": kinds,
        "entries": [[one.id, one.short or one.name, one.name, one.idea, list(one.parameters)] for one in entries],
        "relations": {
            place[one.id]: [[place[other], *(kinds.index(kind) for kind in how)] for other, how in near.items()]
            for one in entries
            if (near := relations.neighbours(one.id))
        },
        "guide": {
            "definitions": _rules(advice.DEFINITIONS),
            "losses": _rules(advice.LOSSES),
            "notes": _rules(advice.NOTES),
            "offers": advice.OFFERS,
            "parameters": advice.PARAMETERS,
        },
    }


def _rules(rules: tuple[advice.Rule, ...]) -> list[dict[str, Any]]:
    return [{key: value for key, value in asdict(rule).items() if value} for rule in rules]


def _guide() -> str:
    choices = (("protects", advice.PROTECTS, 0), ("attacker", advice.ATTACKERS, 0), ("repeats", advice.REPEATS, 1))
    labels = {
        "protects": "What is protected",
        "attacker": "Against which attacker",
        "repeats": "How many answers",
    }
    selects = "".join(
        f'<label>{labels[name]}<select data-guide="{name}">'
        + "".join(
            f"<option{' selected' if i == chosen else ''}>{escape(word)}</option>" for i, word in enumerate(words)
        )
        + "</select></label>"
        for name, words, chosen in choices
    )
    boxes = "".join(
        f'<label class="box"><input type="checkbox" data-need="{escape(need)}"> {escape(need)}</label>'
        for need in advice.NEEDS
    )
    start = advice.guide()
    return (
        '<section class="card" id="guide"><div class="head"><h2>Which one?</h2></div>'
        f'<form class="pad ask">{selects}<fieldset><legend>Needs</legend>{boxes}</fieldset></form>'
        f'<div class="pad" id="advice" aria-live="polite"><p><a href="#{start.definition}">'
        f"{escape(get(start.definition).name)}</a></p></div></section>"
    )


def _graph() -> str:
    return (
        '<section class="card" id="graph"><div class="head"><h2>Relations</h2>'
        '<span class="meta">Click an entry to see its neighbours.</span></div>'
        '<div class="pad"><div id="drawing"><p class="soft">Without scripts, each entry below lists its relations.</p></div>'
        '<p id="chosen" class="soft" aria-live="polite"></p></div></section>'
    )


def _catalogue(entries: list[Definition]) -> str:
    letters = "".join(
        f'<label class="box" title="{escape(what)}"><input type="checkbox" data-dimension="{letter}"> <b>{letter}</b> '
        f"{escape(what.split(':')[0])}</label>"
        for letter, what in dimensions().items()
    )
    kinds = "".join(f"<option>{escape(kind)}</option>" for kind in KINDS)
    return (
        '<section class="card" id="catalogue"><div class="head"><h2>Catalogue</h2><span class="meta" id="count">'
        f'{len(entries)} entries</span></div><form class="pad filters">'
        '<label class="search">Search<input type="search" id="search" placeholder="concentrated, graph, GDP …" '
        'autocomplete="off"></label>'
        f'<label>Kind<select id="kind"><option value="">all</option>{kinds}</select></label>'
        f"<fieldset><legend>Dimensions</legend>{letters}</fieldset>"
        '<fieldset><legend>Properties</legend><label class="box"><input type="checkbox" id="composes"> composes</label>'
        '<label class="box"><input type="checkbox" id="axioms"> both privacy axioms</label></fieldset></form>'
        f'<div class="entries">{"".join(_entry(one) for one in entries)}</div></section>'
    )


def _entry(one: Definition) -> str:
    short = f'<span class="short">{escape(one.short)}</span>' if one.short else ""
    letters = "".join(f'<i class="dim">{letter}</i>' for letter in one.dimensions)
    other = "" if one.kind == "definition" else f'<span class="kind">{escape(one.kind)}</span>'
    facts = [
        ("Parameters", ", ".join(one.parameters)),
        ("Also known as", ", ".join(one.also_known_as)),
        ("Note", one.note),
    ]
    if one.kind != "sensitivity notion":
        facts.insert(1, ("Properties", "; ".join(f"{label}: {getattr(one, key)}" for key, label in _PROPERTIES)))
    rows = "".join(f"<dt>{name}</dt><dd>{escape(text)}</dd>" for name, text in facts if text)
    related = "".join(
        f'<li>{escape(kind)} <a href="#{other_id}">{escape(get(other_id).name)}</a></li>'
        for kind, other_id in one.relations
    )
    rows += f"<dt>Relations</dt><dd><ul>{related}</ul></dd>" if related else ""
    sources = "".join(f"<li>{escape(source)}</li>" for source in one.source)
    marks = f'data-d="{"".join(one.dimensions)}" data-c="{one.composes:d}" data-a="{one.axioms:d}" data-k="{one.kind}"'
    return (
        f'<details id="{one.id}" {marks}><summary><b>{escape(one.name)}</b>{short}{letters}{other}'
        f'<span class="idea">{escape(one.idea)}</span></summary><dl>{rows}<dt>Source</dt><dd><ul>{sources}</ul></dd></dl>'
        f'<button type="button" class="show" data-show="{one.id}">Show in the graph</button></details>'
    )


def _formulas() -> str:
    from shoal.guarantees.converting import conversions

    rows = "".join(
        f"<tr><td>{one.source.__name__}</td><td>{one.target.__name__}</td><td>{escape(one.formula)}</td></tr>"
        for one in conversions()
    )
    rules = "".join(
        f'<tr><td>{escape(name)}</td><td colspan="2">{escape(what)}</td></tr>' for name, what in COMPOSITION
    )
    return (
        '<section class="card" id="formulas"><div class="head"><h2>Formulas</h2><span class="meta">each runs: '
        "<code>shoal convert</code>, <code>shoal compose</code></span></div>"
        '<div class="scroll"><table class="formulas"><thead><tr><th>from</th><th>to</th><th>formula, rounded up</th></tr></thead>'
        f'<tbody>{rows}</tbody><thead><tr><th>together</th><th colspan="2">rule</th></tr></thead><tbody>{rules}</tbody></table>'
        "</div></section>"
    )


def _footer() -> str:
    letters = "".join(f"<dt>{letter}</dt><dd>{escape(what)}</dd>" for letter, what in dimensions().items())
    kinds = "".join(f"<dt>{escape(kind)}</dt><dd>{escape(what)}</dd>" for kind, what in relation_kinds().items())
    return (
        f"<footer><dl>{letters}</dl><dl>{kinds}</dl><p>After the taxonomy of Desfontaines (2020), section 2.2, restated; "
        "slips corrected.</p></footer>"
    )
