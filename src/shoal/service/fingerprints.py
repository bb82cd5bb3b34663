"""What determines an answer, as one hash: equal fingerprints mean the same question about the same data.

Included: data set and its version, catalog version, the bound plan (output names, folded dates, ε, δ, κ, bounds), composition.
Excluded: the SQL text, comments and positions, and the level of the error bars, which can be chosen afterwards (unless the answer
is a report that spells them out).
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import hashlib
import json
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.errors import InternalError
from shoal.plan.releases import StatementPlan
from shoal.policies.policy import Policy

if TYPE_CHECKING:
    from collections.abc import Callable

    from shoal.release.policy_clause.plan import PolicyPlan

_TEXT = frozenset({"sql", "position", "notes", "groups_note"})
_LEVEL = frozenset({"confidence_level", "level"})


def fingerprint(
    plan: StatementPlan | PolicyPlan, dataset: str, version: int, catalog_version: str, composition: str
) -> str:
    """SHA-256 of everything that determines the answer."""
    if isinstance(plan, StatementPlan):
        reports = any(column.call.report is not None for select in plan.selects for column in select.columns)
        about: Any = plan
    else:
        reports, about = False, plan.select
    left_out = _TEXT if reports else _TEXT | _LEVEL
    said = ["shoal answer", dataset, version, catalog_version, composition, _plain(about, left_out)]
    return hashlib.sha256(json.dumps(said, separators=(",", ":"), ensure_ascii=True).encode()).hexdigest()


def answer_key(plan: StatementPlan | PolicyPlan, about: tuple[str, int, str, str], person: str | None = None) -> str:
    """The fingerprint; with a person, one specific to them."""
    found = fingerprint(plan, *about)
    return found if person is None else hashlib.sha256(f"{found}\x1f{person}".encode()).hexdigest()


def digest_of(value: Any) -> str:
    """SHA-256 of a value made of what plans are made of."""
    return hashlib.sha256(json.dumps(_plain(value, frozenset()), ensure_ascii=True).encode()).hexdigest()


def _plain(value: Any, left_out: frozenset[str]) -> Any:
    """A plan as JSON; an object is its class and the fields that its equality compares."""
    kind: Any = type(value)
    return value if kind in _AS_THEY_ARE else _writer(kind)(value, left_out)


@cache
def _writer(kind: Any) -> Callable[[Any, frozenset[str]], Any]:
    """How values of a class are written; plans have few classes and many values."""
    for kinds, written in _WRITERS:
        if issubclass(kind, kinds):
            return written
    if dataclasses.is_dataclass(kind):
        return _fields_of
    raise InternalError(f"a plan with a {kind.__name__} has no fingerprint")


def _fields_of(value: Any, left_out: frozenset[str]) -> Any:
    kind: Any = type(value)
    # Most values are written as they are, and a call for each would take longer than all the rest.
    fields = ((name, getattr(value, name)) for name in _names(kind, left_out))
    return [kind.__name__, {n: v if type(v) in _AS_THEY_ARE else _plain(v, left_out) for n, v in fields}]


@cache
def _names(kind: Any, left_out: frozenset[str]) -> tuple[str, ...]:
    return tuple(f.name for f in dataclasses.fields(kind) if f.compare and f.name not in left_out)


def _sequence(value: Any, left_out: frozenset[str]) -> Any:
    return [item if type(item) in _AS_THEY_ARE else _plain(item, left_out) for item in value]


def _map(value: Any, left_out: frozenset[str]) -> Any:
    return ["map", sorted(([_plain(k, left_out), _plain(v, left_out)] for k, v in value.items()), key=str)]


def _set(value: Any, left_out: frozenset[str]) -> Any:
    return ["set", sorted((_plain(item, left_out) for item in value), key=str)]


def _array(value: Any, _: frozenset[str]) -> Any:
    return ["array", str(value.dtype), list(value.shape), hashlib.sha256(value.tobytes()).hexdigest()]


_AS_THEY_ARE = frozenset({type(None), bool, int, str})
_WRITERS: tuple[tuple[type | tuple[type, ...], Callable[[Any, frozenset[str]], Any]], ...] = (
    (tuple(_AS_THEY_ARE), lambda value, _: value),
    (float, lambda value, _: ["float", value.hex()]),
    ((Fraction, Decimal, dt.date, dt.time, dt.timedelta), lambda value, _: [type(value).__name__, str(value)]),
    (Enum, lambda value, _: [type(value).__name__, value.name]),
    (Policy, lambda value, _: ["Policy", value.canonical]),
    ((tuple, list), _sequence),
    (dict, _map),
    ((frozenset, set), _set),
    (np.ndarray, _array),
)
"""The first that fits; every other value of a plan is a dataclass."""
