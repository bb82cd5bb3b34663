"""A question as it arrives: checked once, and hashed so that a key can be matched to it."""

from __future__ import annotations

import json
from dataclasses import asdict
from fractions import Fraction
from typing import Any

from shoal import params
from shoal.errors import ShoalError
from shoal.frozen import dataclass

LONGEST_REASON = 4096
LONGEST_ANSWER_TIME = 3600.0
_KNOWN = {"sql": str, "fresh": bool, "composition": str, "reason": str}


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked; how long to wait and the level to show are not part of it."""

    sql: str
    fresh: bool = False
    composition: str = "basic"
    reason: str = ""
    epsilon: float | None = None
    answer_time: float | None = None
    """A reply time longer than the service's own."""

    def __post_init__(self) -> None:
        for name, kind in _KNOWN.items():
            if not isinstance(getattr(self, name), kind):
                raise ShoalError("E_USAGE", f"'{name}' is a {'true or false' if kind is bool else 'string'}.")
        if self.composition not in {"basic", "pld"}:
            raise ShoalError("E_USAGE", "composition must be 'basic' or 'pld'.")
        if self.epsilon is not None:
            params.epsilon(self.epsilon)
        if self.answer_time is not None:
            checked_answer_time(self.answer_time)
        if len(self.reason) > LONGEST_REASON:
            raise ShoalError("E_USAGE", f"A reason has at most {LONGEST_REASON} characters.")

    def to_dict(self) -> dict[str, Any]:
        """As a job stores it."""
        return asdict(self)

    @property
    def canonical(self) -> bytes:
        """One canonical string per question."""
        said = {name: value for name, value in asdict(self).items() if value is not None}
        return json.dumps(said, sort_keys=True, separators=(",", ":")).encode()


def checked_answer_time(seconds: float, code: str = "E_USAGE") -> float:
    """A time at which replies leave."""
    is_number = isinstance(seconds, int | float | Fraction) and not isinstance(seconds, bool)
    if not is_number or not 0 < seconds <= LONGEST_ANSWER_TIME:
        raise ShoalError(code, f"answer_time is a number of seconds, more than 0 and at most {LONGEST_ANSWER_TIME:g}.")
    return float(seconds)


def only_explained() -> ShoalError:
    """A statement that asks for its explanation has no answer."""
    return ShoalError("E_USAGE", "EXPLAIN PRIVACY is not a query here.", hint="Ask for its explanation instead.")
