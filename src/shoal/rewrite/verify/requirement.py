"""What `verify` requires, and what it says when a plan does not comply."""

from __future__ import annotations

from shoal.errors import InternalError


def require(condition: bool, otherwise: str) -> None:
    """Raises the internal error that says what is wrong with a plan; nothing was read and nothing is charged."""
    if not condition:
        raise InternalError(otherwise)
