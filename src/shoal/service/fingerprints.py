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
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.errors import InternalError
from shoal.plan.releases import StatementPlan
from shoal.policies.policy import Policy

if TYPE_CHECKING:
    from shoal.release.policy_clause.plan import PolicyPlan

_TEXT = {"sql", "position", "notes", "groups_note"}
_LEVEL = {"confidence_level", "level"}


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


def _plain(value: Any, left_out: set[str]) -> Any:
    """A plan as JSON; an object is its class and the fields that its equality compares."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return ["float", value.hex()]
    if isinstance(value, Fraction | Decimal):
        return [type(value).__name__, str(value)]
    if isinstance(value, dt.date | dt.time | dt.timedelta):
        return [type(value).__name__, str(value)]
    if isinstance(value, Enum):
        return [type(value).__name__, value.name]
    if isinstance(value, Policy):
        return ["Policy", value.canonical]
    if isinstance(value, tuple | list):
        return [_plain(item, left_out) for item in value]
    if isinstance(value, dict):
        return ["map", sorted(([_plain(k, left_out), _plain(v, left_out)] for k, v in value.items()), key=str)]
    if isinstance(value, frozenset | set):
        return ["set", sorted((_plain(item, left_out) for item in value), key=str)]
    if isinstance(value, np.ndarray):
        return ["array", str(value.dtype), list(value.shape), hashlib.sha256(value.tobytes()).hexdigest()]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        kept = [f.name for f in dataclasses.fields(value) if f.compare and f.name not in left_out]
        return [type(value).__name__, {name: _plain(getattr(value, name), left_out) for name in kept}]
    raise InternalError(f"a plan with a {type(value).__name__} has no fingerprint")
