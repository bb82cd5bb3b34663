"""Functions of the current time: folded to constants when a query is planned, the same for the whole query."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.plan.expressions import Literal
from shoal.plan.types import DATE, TIME, TIMESTAMP

if TYPE_CHECKING:
    from datetime import datetime

_DATES = frozenset({"current_date", "today"})
_TIMES = frozenset({"current_time", "localtime", "get_current_time"})
_TIMESTAMPS = frozenset(
    {"current_timestamp", "now", "localtimestamp", "current_datetime", "transaction_timestamp", "get_current_timestamp"}
)
ENVIRONMENT_NAMES = _DATES | _TIMES | _TIMESTAMPS


def fold_environment(name: str, now: datetime) -> Literal | None:
    """The constant that CURRENT_DATE and the like mean; `now` is in UTC. None for other names.

    >>> from datetime import datetime
    >>> fold_environment("CURRENT_DATE", datetime(2026, 5, 1, 12, 30)).value
    datetime.date(2026, 5, 1)
    """
    lowered, moment = name.lower(), now.replace(tzinfo=None)
    if lowered in _DATES:
        return Literal(moment.date(), DATE)
    if lowered in _TIMES:
        return Literal(moment.time(), TIME)
    return Literal(moment, TIMESTAMP) if lowered in _TIMESTAMPS else None
