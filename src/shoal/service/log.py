r"""The log: one chained line for everything that happens. Tampering is detectable.

hash(0) = SHA-256("shoal log 1\n" ‖ identity); hash(n) = SHA-256(hash(n−1) as hex ‖ "\n" ‖ the line's JSON without `hash`), keys
sorted, no spaces, UTF-8. Amounts are written as p/q. No rows, tokens or durations are in it.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

from shoal.errors import ShoalError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from fractions import Fraction

    from shoal.service.store import Rows, Store

FIELDS = (
    "n",
    "at",
    "actor",
    "via",
    "action",
    "dataset",
    "outcome",
    "sql",
    "epsilon",
    "delta",
    "ledger",
    "charge",
    "answer_sha256",
    "detail",
)
_ANCHOR = re.compile(r"[0-9]{1,18}:[0-9a-f]{64}")
LONGEST_SQL = 65_536
REFUSALS_IN_FULL = 100
MOST_LINES = 1000


def write(
    rows: Rows,
    actor: str,
    via: str,
    action: str,
    *,
    dataset: str | None = None,
    outcome: str = "done",
    sql: str | None = None,
    cost: tuple[Fraction, Fraction] | None = None,
    ledger: str | None = None,
    charge: tuple[int, str] | None = None,
    answer_sha256: str | None = None,
    detail: str | None = None,
) -> None:
    """Appends a line, in the transaction of the event it records."""
    last = rows.one("SELECT n, hash FROM log ORDER BY n DESC LIMIT 1")
    n, before = (last["n"], last["hash"]) if last else (0, first_hash(_identity(rows)))
    line = {
        "n": n + 1,
        "at": rows.tick(),
        "actor": actor,
        "via": via,
        "action": action,
        "dataset": dataset,
        "outcome": outcome,
        "sql": None if sql is None else harmless(sql[:LONGEST_SQL]),
        "epsilon": None if cost is None else str(cost[0]),
        "delta": None if cost is None else str(cost[1]),
        "ledger": ledger,
        "charge": None if charge is None else f"{charge[0]}:{charge[1]}",
        "answer_sha256": answer_sha256,
        "detail": None if detail is None else harmless(detail[:LONGEST_SQL]),
    }
    text = canonical(line)
    rows.run("INSERT INTO log VALUES (?, ?, ?)", n + 1, text, next_hash(before, text))
    if ledger is not None and charge is not None:
        rows.run("INSERT INTO logged_charges VALUES (?, ?, ?) ON CONFLICT DO NOTHING", ledger, *charge)


def has_charge(rows: Rows, ledger: str, charge: int) -> bool:
    """Whether a charge has its line; whoever writes one asks in the same transaction."""
    found = rows.one("SELECT charge FROM logged_charges WHERE ledger = ? AND charge = ?", ledger, charge)
    return found is not None


def _identity(rows: Rows) -> str:
    return str(rows.all("SELECT value FROM identity")[0]["value"])


def count(rows: Rows, person: str, what: str, times: int = 1) -> int:
    """How often a person did this in this hour, including these times."""
    hour = rows.now()[:13]
    rows.run(
        "INSERT INTO counts VALUES (?, ?, ?, ?) ON CONFLICT (person, hour, what) DO UPDATE SET number = counts.number + ?",
        *(person, hour, what, times, times),
    )
    found = rows.one("SELECT number FROM counts WHERE person = ? AND hour = ? AND what = ?", person, hour, what)
    return int(found["number"]) if found else 0


def harmless(text: str) -> str:
    """Text without control, bidirectional or terminal characters: they are written out."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


def canonical(line: dict[str, Any]) -> str:
    """The text that is hashed."""
    return json.dumps(line, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def first_hash(identity: str) -> str:
    """hash(0)."""
    return hashlib.sha256(f"shoal log 1\n{identity}".encode()).hexdigest()


def next_hash(before: str, text: str) -> str:
    """hash(n)."""
    return hashlib.sha256(f"{before}\n{text}".encode()).hexdigest()


def lines(store: Store, after: int = 0, limit: int = MOST_LINES) -> list[dict[str, Any]]:
    """Lines after a number, each with its hash."""
    with store.reading() as rows:
        found = rows.all(
            "SELECT line, hash FROM log WHERE n > ? ORDER BY n LIMIT ?", after, max(0, min(limit, MOST_LINES))
        )
    return [json.loads(row["line"]) | {"hash": row["hash"]} for row in found]


def export(store: Store) -> Iterator[str]:
    """The whole log as JSON lines; the first one names the store. Everything reported is on disk."""
    store.keep_all()
    yield canonical({"log": 1, "identity": store.identity}) + "\n"
    after = 0
    while found := lines(store, after):
        for line in found:
            yield canonical(line) + "\n"
        after = found[-1]["n"]


def anchor(store: Store) -> str:
    """Number and hash of the last line on disk: noted elsewhere, they reveal a log that was rolled back."""
    store.keep_all()
    with store.reading() as rows:
        last = rows.one("SELECT n, hash FROM log ORDER BY n DESC LIMIT 1")
    return f"{last['n']}:{last['hash']}" if last else f"0:{first_hash(store.identity)}"


def verify(exported: Iterable[str], noted: str | None = None) -> int:
    """The number of lines in an export, all verified; E_LEDGER names the first bad one."""
    if noted is not None and _ANCHOR.fullmatch(noted) is None:
        raise ShoalError(
            "E_USAGE",
            "This is not an anchor of a log.",
            hint="It is written as NUMBER:HASH; see shoal service log anchor.",
        )
    texts = iter(exported)
    try:
        head = json.loads(next(texts))
        before = first_hash(head["identity"])
        right = head == {"log": 1, "identity": head["identity"]}
    except (StopIteration, ValueError, TypeError, KeyError):
        right = False
    if not right:
        raise _wrong(0, "it does not begin as a log does")
    number, hashes = 0, [before]
    for number, text in enumerate(texts, start=1):
        before = _checked(text, number, before)
        hashes.append(before)
    if noted is not None and not _has(noted, hashes):
        raise _wrong(number, "what was noted elsewhere is missing: the log was rolled back or replaced")
    return number


def _checked(text: str, number: int, before: str) -> str:
    try:
        line = json.loads(text)
        found = line.pop("hash")
        right = tuple(sorted(line)) == tuple(sorted(FIELDS)) and line["n"] == number
    except (ValueError, TypeError, KeyError, AttributeError):
        raise _wrong(number, "it cannot be read") from None
    if not right or found != next_hash(before, canonical(line)):
        raise _wrong(number, "it was changed, or a line before it is missing")
    return str(found)


def _has(noted: str, hashes: list[str]) -> bool:
    number, _, expected = noted.partition(":")
    return number.isdecimal() and int(number) < len(hashes) and hashes[int(number)] == expected


def _wrong(number: int, why: str) -> ShoalError:
    return ShoalError("E_LEDGER", f"The log is wrong at line {number}: {why}.", hint="Compare it with a copy.")
