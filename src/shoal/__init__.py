"""shoal: query personal data in SQL and get answers that are safe to share.

    >>> import shoal
    >>> session = shoal.connect({"t": {"uid": [1, 2, 3]}}, catalog={"tables": {"t": {"owner": "uid"}}})
    >>> len(session.query("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1) COUNT(DISTINCT uid) AS n FROM t"))
    1

Heavy parts are imported when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shoal import anonymity, audit, definitions, guarantees, knowledge, local, policy, risk, tuning
    from shoal.accounting.claims.meaning import meaning
    from shoal.catalog import Catalog
    from shoal.collections import aggregates
    from shoal.collections.collection import Collection
    from shoal.errors import InternalError, ShoalError
    from shoal.explain import Explanation
    from shoal.result import Result
    from shoal.session import Session, connect

__version__ = "0.1.0"

_HOMES = {
    "Catalog": "shoal.catalog",
    "Collection": "shoal.collections.collection",
    "Explanation": "shoal.explain",
    "InternalError": "shoal.errors",
    "Result": "shoal.result",
    "Session": "shoal.session",
    "ShoalError": "shoal.errors",
    "connect": "shoal.session",
    "meaning": "shoal.accounting.claims.meaning",
}
_MODULES_ELSEWHERE = {"aggregates": "shoal.collections.aggregates"}
_MODULES = ("anonymity", "audit", "definitions", "guarantees", "knowledge", "local", "policy", "risk", "tuning")

__all__ = [
    "Catalog",
    "Collection",
    "Explanation",
    "InternalError",
    "Result",
    "Session",
    "ShoalError",
    "__version__",
    "aggregates",
    "anonymity",
    "audit",
    "connect",
    "definitions",
    "guarantees",
    "knowledge",
    "local",
    "meaning",
    "policy",
    "risk",
    "tuning",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in _MODULES:
        return import_module(f"shoal.{name}")
    if name in _MODULES_ELSEWHERE:
        return import_module(_MODULES_ELSEWHERE[name])
    raise AttributeError(f"module 'shoal' has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)


def load_ipython_extension(shell: Any) -> None:
    """What `%load_ext shoal` calls."""
    import_module("shoal.cli.asking.notebook").load(shell)
