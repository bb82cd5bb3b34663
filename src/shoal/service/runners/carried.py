"""A plan from the process that made it to the one that runs it: a statement that was just planned is not planned again.

Planning is most of the wait for many questions, and both processes would do the same. A plan is right for the catalog, the types
and the facts about public tables that it was made with, so it carries their digest and is used only where they are the same.
It is verified again where it arrives. The service between them keeps its bytes and never reads them.
"""

from __future__ import annotations

import io
import pickle
from dataclasses import is_dataclass
from enum import Enum
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from shoal.plan.releases import StatementPlan
from shoal.rewrite.verify.statement import verify
from shoal.service.fingerprints import digest_of

if TYPE_CHECKING:
    from shoal.service.runners.errand import Place
    from shoal.session import Session

LARGEST = 64 * 1024
"""A larger plan is made again: the service keeps some hundreds of them."""
_OF_OTHERS = frozenset(
    {
        ("fractions", "Fraction"),
        ("decimal", "Decimal"),
        *(("datetime", name) for name in ("date", "datetime", "time", "timedelta", "timezone")),
        *(("builtins", name) for name in ("frozenset", "set")),
    }
)
"""Values in plans whose classes are not ours."""


def basis_of(session: Session, place: Place) -> str:
    """A digest of all that a plan depends on besides its statement."""
    catalog, schemas, facts = session.planned_on
    return digest_of([place.version, place.seconds, catalog.version, schemas, facts])


def packed(plan: Any, basis: str) -> bytes:
    """A plan with its basis; nothing where it cannot travel."""
    if not isinstance(plan, StatementPlan):
        return b""
    try:
        data = basis.encode() + pickle.dumps(plan, 5)
    except (pickle.PicklingError, AttributeError, TypeError, RecursionError):
        return b""
    return data if len(data) <= LARGEST else b""


def unpacked(data: bytes, basis: str, session: Session) -> StatementPlan | None:
    """The plan, verified; None where there is none, or it was made on another basis."""
    if not data.startswith(basis.encode()):
        return None
    try:
        plan = _Reader(io.BytesIO(data[len(basis) :])).load()
    except Exception:  # noqa: BLE001 - bytes that are not a plan can fail in any way, and the statement is planned again
        return None
    return verify(plan, session.planned_on[0]) if isinstance(plan, StatementPlan) else None


class _Reader(pickle.Unpickler):
    """Makes records and values of our own, and the few others that plans hold; everything else is refused."""

    def find_class(self, module: str, name: str) -> Any:
        """See `pickle.Unpickler`."""
        return _class_of(module, name)


@cache
def _class_of(module: str, name: str) -> type:
    if ((module, name) in _OF_OTHERS or module.startswith("shoal.")) and "." not in name:
        found = getattr(import_module(module), name, None)
        if isinstance(found, type) and ((module, name) in _OF_OTHERS or is_dataclass(found) or issubclass(found, Enum)):
            return found
    raise pickle.UnpicklingError(f"a plan has no {name}")
