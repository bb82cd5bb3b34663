"""Types of bound expressions, and which casts have a value for every value."""

from __future__ import annotations

import json
from datetime import date, datetime, time
from typing import TYPE_CHECKING, Any

from shoal.engines.duckdb.checking.known_calls import BITS, DIGITS, SIGNED, UNSIGNED
from shoal.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Callable

    Json = dict[str, Any]

_TRUTH = ("BOOLEAN",)

Named = tuple[Any, ...]
"""A type: its name, and the width and scale of a decimal, or what a list holds."""


def surprise(what: str) -> InternalError:
    """The engine reads a statement differently from what it was written for."""
    return InternalError(f"the engine reads a statement with {what}")


def named(type_: Json) -> Named:
    """The type as it is compared: how strings are compared is part of it, unless that is by bytes."""
    name, info = type_["id"], type_.get("type_info")
    if info is None:
        return (name,)
    if name == "DECIMAL":
        return name, info["width"], info.get("scale", 0)
    if name == "VARCHAR":
        collation = info.get("collation", "")
        return (name,) if collation in {"", "binary"} else (name, collation)
    if name == "LIST":
        return name, named(info["child_type"])
    return name, json.dumps(info, sort_keys=True)


def type_of(expression: Json) -> Named:
    """The type of a bound expression."""
    if "return_type" in expression:
        return named(expression["return_type"])
    if expression["expression_class"] == "BOUND_CONSTANT":
        return named(expression["value"]["type"])
    if expression["expression_class"] in {"BOUND_CONJUNCTION", "BOUND_COMPARISON", "BOUND_BETWEEN"}:
        return _TRUTH
    raise surprise("a value of no type")


def always_casts(source: Named, target: Named) -> bool:
    """Whether every value of one type has a value of the other."""
    if source == target or source[0] == "NULL":
        return True
    name, wanted = source[0], target[0]
    if wanted == "DECIMAL":
        whole = source[1] - source[2] if name == "DECIMAL" else DIGITS.get(name, 99)
        return bool(target[1] - target[2] >= whole and target[2] >= (source[2] if name == "DECIMAL" else 0))
    if wanted == "DOUBLE":
        return name in BITS or name in {"FLOAT", "DECIMAL"}
    if wanted == "VARCHAR":
        return len(target) == 1 and (name in BITS or name in {"VARCHAR", "BOOLEAN", "DECIMAL"})
    if wanted == "BIT":
        return bool(name == "DOUBLE")
    return (name == "BOOLEAN" and wanted in BITS) or _is_wider(name, wanted)


def _is_wider(name: str, wanted: str) -> bool:
    """Whether an integer type holds all numbers of another one."""
    if name not in BITS or wanted not in BITS:
        return False
    same_sign = (name in SIGNED) == (wanted in SIGNED)
    return BITS[wanted] > BITS[name] and (same_sign or name in UNSIGNED)


def reads_constant(constant: Json, target: Named) -> bool:
    """Whether a constant has a value of the type: dates and large numbers are written as strings."""
    value, name = constant["value"], target[0]
    if value["is_null"]:
        return True
    held = value.get("value")
    if name in BITS:
        return isinstance(held, (int, str)) and fits(held, name)
    readers: dict[str, Callable[[str], object]] = {
        "DATE": date.fromisoformat,
        "TIMESTAMP": datetime.fromisoformat,
        "TIME": time.fromisoformat,
        "DOUBLE": float,
    }
    return name in readers and isinstance(held, str) and _can(readers[name], held)


def fits(written: int | str, name: str) -> bool:
    """Whether a whole number is one of the type."""
    if not _can(int, str(written)):
        return False
    bits = BITS[name]
    low, high = (-(1 << (bits - 1)), 1 << (bits - 1)) if name in SIGNED else (0, 1 << bits)
    return low <= int(written) < high


def _can(read: Callable[[str], object], text: str) -> bool:
    try:
        read(text)
    except ValueError:
        return False
    return True
