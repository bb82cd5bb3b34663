"""The reference page of the catalogue, written from its entries: `python -m shoal.definitions.reference > page.md`."""

from __future__ import annotations

import sys

from shoal.definitions.catalogue import KINDS, Definition, all_definitions, dimensions, relation_kinds

HEAD = """# Definitions of privacy, all of them

Written from the catalogue (`src/shoal/definitions/catalogue.toml`), after the taxonomy of Desfontaines (2020), section 2.2,
restated, with its slips corrected. How to read and use it: [definitions](../theory/definitions.md). Properties: P
post-processing, X convexity, C composition; + yes, − no, ? unknown, ± restricted.
"""
TITLES = {
    "definition": "Definitions",
    "deployment model": "Deployment models",
    "sensitivity notion": "Notions of sensitivity",
    "out of scope": "Without a clear promise",
}
COLUMNS = "| id | idea | properties | relations | source |\n|---|---|---|---|---|"
_SIGNS = {"yes": "+", "no": "−", "unknown": "?", "restricted": "±"}


def reference_page() -> str:
    """The page, as Markdown."""
    parts = [HEAD, _listed("Dimensions", dimensions()), _listed("Relations", relation_kinds())]
    for kind in KINDS:
        entries = [one for one in all_definitions() if one.kind == kind]
        rows = "\n".join(_row(one) for one in entries)
        parts.append(f"## {TITLES[kind]} ({len(entries)})\n\n{COLUMNS}\n{rows}\n")
    return "\n".join(parts)


def _listed(title: str, meanings: dict[str, str]) -> str:
    return f"## {title}\n\n" + "\n".join(f"- **{name}**: {what}" for name, what in meanings.items()) + "\n"


def _row(one: Definition) -> str:
    names = [one.name, *([one.short] if one.short else []), *one.also_known_as]
    letters = f" [{' '.join(one.dimensions)}]" if one.dimensions else ""
    signs = f"P{_SIGNS[one.post_processing]} X{_SIGNS[one.convexity]} C{_SIGNS[one.composition]}"
    cells = (
        f"`{one.id}`<br>{_cell('; '.join(names))}{letters}",
        _cell(one.idea + (f". {one.note}" if one.note else "")),
        "" if one.kind == "sensitivity notion" else signs,
        "<br>".join(f"{kind} `{other}`" for kind, other in one.relations),
        _cell("; ".join(one.source)),
    )
    return f"| {' | '.join(cells)} |"


def _cell(text: str) -> str:
    """Text that stays inside its cell, and means nothing to Markdown."""
    for sign in "\\`*_[]<|":
        text = text.replace(sign, "\\" + sign)
    return text


if __name__ == "__main__":
    sys.stdout.write(reference_page())
