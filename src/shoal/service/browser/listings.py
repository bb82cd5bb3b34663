"""Lists of a person's own questions."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shoal.service.people import Caller
    from shoal.service.store import Store

MOST_LISTED = 12


def own_questions(store: Store, caller: Caller, dataset: str, most: int = MOST_LISTED) -> list[dict[str, Any]]:
    """What the caller asked of a data set, newest first; only the latest of repeated questions."""
    with store.reading() as rows:
        found = rows.all(
            "SELECT id, question, state, answer, charged, epsilon, created FROM jobs WHERE number IN"
            " (SELECT max(number) FROM jobs WHERE person = ? AND dataset = ? GROUP BY fingerprint)"
            " ORDER BY number DESC LIMIT ?",
            *(caller.name, dataset, most),
        )
    return [_shown(row) for row in found]


def last_time(store: Store, caller: Caller, answer: str) -> dict[str, Any] | None:
    """When the caller last asked for this answer; None if they never did."""
    with store.reading() as rows:
        found = rows.one(
            "SELECT id, question, state, answer, charged, epsilon, created FROM jobs WHERE person = ? AND answer = ?"
            " ORDER BY number DESC LIMIT 1",
            *(caller.name, answer),
        )
    return None if found is None else _shown(found)


def approval_of(store: Store, caller: Caller, fingerprint: str) -> dict[str, Any] | None:
    """Who approved this question of the caller's, and their note; None if nobody did."""
    with store.reading() as rows:
        found = rows.one(
            "SELECT decided_by, note FROM approvals WHERE asker = ? AND fingerprint = ? AND state = 'approved'"
            " ORDER BY created DESC LIMIT 1",
            *(caller.name, fingerprint),
        )
    return None if found is None else {"by": found["decided_by"], "note": found["note"]}


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "job": row["id"],
        "sql": json.loads(row["question"])["sql"],
        "state": row["state"],
        "answer": row["answer"],
        "charged": bool(row["charged"]),
        "epsilon": float(Fraction(row["epsilon"])),
        "created": row["created"],
    }
