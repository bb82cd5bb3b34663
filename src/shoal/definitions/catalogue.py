"""The entries: read once from `catalogue.toml`, checked, and searched.

>>> [one.id for one in find("concentrated", axioms=True, composes=True)][:2]
['zero-concentrated-dp', 'bounded-concentrated-dp']
>>> get("reny-dp")
Traceback (most recent call last):
shoal.errors.ShoalError: E_USAGE: There is no definition 'reny-dp'.
"""

from __future__ import annotations

from dataclasses import asdict
from functools import cache
from typing import Any

from shoal.errors import InternalError, ShoalError
from shoal.frozen import dataclass

KINDS = ("definition", "deployment model", "sensitivity notion", "out of scope")
PROPERTIES = ("post_processing", "convexity", "composition")
VALUES = frozenset({"yes", "no", "unknown", "restricted"})


@dataclass(frozen=True)
class Definition:
    """One entry. Properties are yes, no, unknown or restricted."""

    id: str
    name: str
    kind: str
    idea: str
    source: tuple[str, ...]
    short: str | None = None
    also_known_as: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    dimensions: tuple[str, ...] = ()
    post_processing: str = "unknown"
    convexity: str = "unknown"
    composition: str = "unknown"
    relations: tuple[tuple[str, str], ...] = ()
    """As the entry states them: (kind, id of the other one)."""
    claim: str | None = None
    """The class of `shoal.guarantees` that represents it."""
    note: str | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS or not self.source or not self.idea:
            raise InternalError(f"the entry {self.id} of the catalogue is incomplete")
        if not {self.post_processing, self.convexity, self.composition} <= VALUES:
            raise InternalError(f"the entry {self.id} of the catalogue has an unknown property")

    @property
    def properties(self) -> dict[str, str]:
        """Post-processing, convexity and composition, by name."""
        return {name: str(getattr(self, name)) for name in PROPERTIES}

    @property
    def composes(self) -> bool:
        """Whether losses add up when it is used several times."""
        return self.composition == "yes"

    @property
    def axioms(self) -> bool:
        """Whether both privacy axioms hold: post-processing, and choosing between two private mechanisms at random."""
        return self.post_processing == self.convexity == "yes"

    def to_dict(self) -> dict[str, Any]:
        """For machines."""
        fields = asdict(self)
        fields["properties"] = {name: fields.pop(name) for name in PROPERTIES}
        fields["relations"] = [{"kind": kind, "to": other} for kind, other in self.relations]
        return fields

    def __str__(self) -> str:
        names = ", ".join(self.also_known_as)
        lines = [
            f"{self.name}{f' ({self.short})' if self.short else ''}  [{self.id}]",
            f"  {self.idea}",
            f"  kind: {self.kind}; parameters: {', '.join(self.parameters) or 'none'}",
            f"  dimensions: {', '.join(self.dimensions) or 'none'}",
            f"  post-processing: {self.post_processing}; convexity: {self.convexity}; composition: {self.composition}",
            *([f"  also known as: {names}"] if names else []),
            *(f"  {kind} {other}" for kind, other in self.relations),
            *([f"  note: {self.note}"] if self.note else []),
            *(f"  {source}" for source in self.source),
        ]
        return "\n".join(lines)


def all_definitions() -> list[Definition]:
    """Every entry, in the order of the catalogue."""
    return list(entries().values())


def get(name: str) -> Definition:
    """One entry by its id; an unknown one is refused with the three nearest."""
    known = entries()
    if not isinstance(name, str) or name not in known:
        raise _unknown(str(name))
    return known[name]


def find(
    text: str = "",
    *,
    dimension: str | None = None,
    composes: bool | None = None,
    axioms: bool | None = None,
    kind: str | None = None,
) -> list[Definition]:
    """Entries whose names, ideas or notes hold the text, narrowed by dimension, properties and kind."""
    if dimension is not None and dimension not in dimensions():
        listed = "; ".join(f"{letter}: {what}" for letter, what in dimensions().items())
        raise ShoalError("E_USAGE", "There is no such dimension.", hint=f"Dimensions: {listed}.")
    if kind is not None and kind not in KINDS:
        raise ShoalError("E_USAGE", "There is no such kind.", hint=f"Kinds: {', '.join(KINDS)}.")
    return [
        one
        for one in all_definitions()
        if text.casefold() in _words(one)
        and (dimension is None or dimension in one.dimensions)
        and (composes is None or composes == one.composes)
        and (axioms is None or axioms == one.axioms)
        and (kind is None or kind == one.kind)
    ]


def dimensions() -> dict[str, str]:
    """The seven dimensions, by letter."""
    return dict(_stored()["dimensions"])


def relation_kinds() -> dict[str, str]:
    """What each kind of relation means."""
    return dict(_stored()["relation_kinds"])


def _words(one: Definition) -> str:
    return " ".join((one.id, one.name, one.short or "", *one.also_known_as, one.idea, one.note or "")).casefold()


def _unknown(name: str) -> ShoalError:
    from difflib import get_close_matches

    words = {one.id: one.id for one in all_definitions()}
    for one in all_definitions():
        words |= {other.casefold(): one.id for other in (one.name, one.short or one.id, *one.also_known_as)}
    near = list(dict.fromkeys(words[word] for word in get_close_matches(name[:100].casefold(), words, n=8, cutoff=0.0)))
    return ShoalError("E_USAGE", f"There is no definition {name[:100]!r}.", hint=f"The nearest: {', '.join(near[:3])}.")


@cache
def entries() -> dict[str, Definition]:
    """Id → entry."""
    return {row["id"]: _entry(row) for row in _stored()["definitions"]}


def _entry(row: dict[str, Any]) -> Definition:
    lists: dict[str, Any] = {
        key: tuple(value)
        for key, value in row.items()
        if key in {"also_known_as", "parameters", "dimensions", "source"}
    }
    plain = {key: row[key] for key in ("id", "name", "kind", "idea", "short", "claim", "note") if key in row}
    relations = tuple((one["kind"], one["to"]) for one in row.get("relations", ()))
    return Definition(**plain, **lists, **row.get("properties", {}), relations=relations)


@cache
def _stored() -> dict[str, Any]:
    import tomllib
    from importlib import resources

    return tomllib.loads((resources.files("shoal.definitions") / "catalogue.toml").read_text(encoding="utf-8"))
