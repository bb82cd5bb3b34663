"""How definitions relate: what is stored, its inverse, and what follows; never a guess.

Stronger and weaker are inverse, so are extends and special case; equivalent is symmetric. A weaker extension is also
weaker, a stronger one also stronger. Stronger is transitive, also through equivalents; extends is transitive. Being a
special case of a frame implies nothing by itself.

    >>> relation("dp", "approximate-dp").kind, relation("approximate-dp", "dp").kind
    ('stronger', 'weaker')
    >>> relation("pixel-dp", "earth-movers-privacy") is None
    True
"""

from __future__ import annotations

from collections import deque
from dataclasses import asdict
from functools import cache
from typing import Any

from shoal.definitions.catalogue import all_definitions, get
from shoal.errors import ShoalError
from shoal.frozen import dataclass

INVERSE = {
    "stronger": "weaker",
    "weaker": "stronger",
    "equivalent": "equivalent",
    "extends": "special case",
    "special case": "extends",
}
_STORED = {
    "stronger than": ("stronger",),
    "weaker than": ("weaker",),
    "equivalent to": ("equivalent",),
    "extends": ("extends",),
    "special case of": ("special case",),
    "weaker extension of": ("weaker", "extends"),
    "stronger extension of": ("stronger", "extends"),
}


@dataclass(frozen=True)
class Step:
    """One stored relation, read from left to right; `conversion` says how to execute it, where that is known."""

    source: str
    kind: str
    target: str
    conversion: str | None = None

    def convert(self, claim: Any, **parameters: object) -> Any:
        """Execute the step on a claim of `shoal.guarantees`; see its `convert` for the parameters."""
        from shoal.guarantees.converting import TARGETS, convert

        target = next((one for one in TARGETS.values() if one.__name__ == get(self.target).claim), None)
        if self.conversion is None or target is None:
            raise ShoalError("E_UNSUPPORTED", f"No conversion executes the step from {self.source} to {self.target}.")
        return convert(claim, target, **parameters)

    def __str__(self) -> str:
        runs = f"   {self.conversion}" if self.conversion else ""
        return f"{self.source} is {_IN_WORDS[self.kind]} {self.target}{runs}"


@dataclass(frozen=True)
class Relation:
    """How one definition relates to another, and the stored steps it follows from."""

    source: str
    kind: str
    target: str
    steps: tuple[Step, ...]

    @property
    def implies(self) -> bool:
        """Whether the first implies the second, for suitable parameters."""
        return self.kind in {"stronger", "equivalent"}

    def to_dict(self) -> dict[str, Any]:
        """For machines."""
        return {**asdict(self), "implies": self.implies}

    def __str__(self) -> str:
        first = f"{self.source} is {_IN_WORDS[self.kind]} {self.target}"
        return first if len(self.steps) < 2 else "\n".join([f"{first}, because", *(f"  {step}" for step in self.steps)])


_IN_WORDS = {
    "stronger": "stronger than",
    "weaker": "weaker than",
    "equivalent": "equivalent to",
    "extends": "an extension of",
    "special case": "a special case of",
}


def relation(first: str, second: str) -> Relation | None:
    """How `first` relates to `second`: stored, inverse, or by transitivity with its steps; None where nothing is known."""
    get(first)
    get(second)
    if first == second:
        return Relation(first, "equivalent", second, ())
    stored = _edges().get((first, second), ())
    if stored:
        return Relation(first, stored[0], second, (Step(first, stored[0], second),))
    for kind in ("stronger", "weaker", "extends", "special case"):
        steps = _chain(first, second, kind)
        if steps:
            strict = any(step.kind == kind for step in steps)
            return Relation(first, kind if strict else "equivalent", second, tuple(steps))
    return None


def path(first: str, second: str) -> list[Step] | None:
    """The shortest chain of implications; each step with the conversion that executes it; None where none is known."""
    get(first)
    get(second)
    steps = _chain(first, second, "stronger")
    if steps is None:
        return None
    return [Step(step.source, step.kind, step.target, _conversion(step.source, step.target)) for step in steps]


def _chain(first: str, second: str, kind: str) -> list[Step] | None:
    """The shortest chain of steps of one kind; stronger and weaker may pass through equivalents."""
    allowed = {kind, "equivalent"} if kind in {"stronger", "weaker"} else {kind}
    queue, came_by = deque([first]), {first: Step(first, kind, first)}
    while queue:
        here = queue.popleft()
        if here == second:
            steps: list[Step] = []
            while here != first:
                steps.append(came_by[here])
                here = came_by[here].source
            return steps[::-1]
        for target, kinds in neighbours(here).items():
            usable = next((one for one in kinds if one in allowed), None)
            if usable is not None and target not in came_by:
                came_by[target] = Step(here, usable, target)
                queue.append(target)
    return None


def neighbours(name: str) -> dict[str, tuple[str, ...]]:
    """Every entry with a stored relation, and how `name` relates to it."""
    return _by_source().get(name, {})


@cache
def _by_source() -> dict[str, dict[str, tuple[str, ...]]]:
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    for (source, target), kinds in _edges().items():
        found.setdefault(source, {})[target] = kinds
    return found


@cache
def _edges() -> dict[tuple[str, str], tuple[str, ...]]:
    """(a, b) → how a relates to b, both directions, implications first."""
    edges: dict[tuple[str, str], set[str]] = {}
    for one in all_definitions():
        for stored, other in one.relations:
            for kind in _STORED[stored]:
                edges.setdefault((one.id, other), set()).add(kind)
                edges.setdefault((other, one.id), set()).add(INVERSE[kind])
    order = tuple(INVERSE)
    return {pair: tuple(sorted(kinds, key=order.index)) for pair, kinds in edges.items()}


@cache
def _conversions() -> dict[tuple[str, str], str]:
    """Pairs of claims that can be converted, as calls of `guarantees`."""
    from shoal.guarantees.converting import conversions

    return {
        (one.source.__name__, one.target.__name__): f"convert(…, {one.target.__name__}): {one.formula}"
        for one in conversions()
    }


def _conversion(source: str, target: str) -> str | None:
    first, second = get(source).claim, get(target).claim
    return None if first is None or second is None else _conversions().get((first, second))
