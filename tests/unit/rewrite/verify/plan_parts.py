"""The parts of a finished plan: every dataclass that it holds."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

from shoal.plan import nodes

if TYPE_CHECKING:
    from collections.abc import Iterator


def name_of(thing: Any) -> str:
    """The class; the plan's own Column is told from the expression."""
    kind = type(thing)
    return "plan.Column" if kind.__name__ == "Column" and kind.__module__.endswith("releases") else kind.__name__


def fields_of(thing: Any) -> list[str]:
    """The fields of a dataclass that make a difference."""
    return [f.name for f in fields(thing) if f.compare]


def everything(thing: Any) -> Iterator[Any]:
    """Every dataclass that something holds, itself first."""
    stack, seen = [thing], set()
    while stack:
        part = stack.pop()
        if isinstance(part, tuple):
            stack.extend(part)
        elif is_dataclass(part) and id(part) not in seen:
            seen.add(id(part))
            yield part
            stack.extend(getattr(part, name) for name in fields_of(part))


def is_private(node: Any) -> bool:
    return any(isinstance(part, nodes.Scan) and part.owner is not None for part in everything(node))
