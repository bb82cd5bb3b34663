"""An explanation as a page shows it: the price, what is left, how accurate each number will be, what it means for a person."""

from __future__ import annotations

import hashlib
import re
from decimal import ROUND_CEILING, Context, Decimal
from typing import TYPE_CHECKING, Any

from shoal.errors import ShoalError
from shoal.params import many, percent
from shoal.sql.grammar.tokens import tokenize
from shoal.web.console import charts
from shoal.web.console.rendering import number

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PRIOR = 0.1
LONGEST_LINE = 160
_WHERE = {
    "query": "the bounds are given in the query",
    "catalog": "bounds from the catalog",
    "listed": "bounds from the catalog's list of values",
    "expression": "bounded by the expression itself",
    "inferred": "bounds are found privately first, for a part of ε",
    "found": "its limit is found privately first, for a part of ε",
    "guessed": "its limit is a public guess",
    "one row": "the bounds of one row are public",
    "none": "no bounds needed",
}
_ADDING = ("COUNT", "SUM")
"""To these, a person adds something; of others, they move the result."""
_OWNER = re.compile(r"""(?<![(.\"`])(?<!DISTINCT )\b(owners'|owners|owner)(?![\w(`\"]|\.\w)""")
_PEOPLE = {"owners'": "people's", "owners": "people", "owner": "person"}
_PLAIN_NAME = re.compile(r"[a-z_][a-z0-9_]*")


def explanation_view(explained: dict[str, Any], sql: str) -> dict[str, Any]:
    """What `_explanation.html` shows about a question that can be asked."""
    epsilon, delta = explained["price"]["epsilon"], explained["price"]["delta"]
    left = smallest_left(explained)
    means = explained["meaning"]
    limits = [each["max_epsilon_per_query"] for each in explained["allowances"]]
    most = min((limit for limit in limits if limit is not None), default=None)
    return {
        "epsilon": epsilon,
        "delta": delta,
        "left": left,
        "meter": None if left is None else charts.meter(epsilon / left if left else 1.0, "Share of what is left"),
        "after": None if left is None else max(0.0, left - epsilon),
        "affordable": explained["affordable"],
        "most": most if most is not None and epsilon > most else None,
        "delta_left": smallest_left(explained, "delta"),
        "replay": explained["replay"],
        "needs_approval": explained["needs_approval"],
        "columns": columns_of(explained),
        "limits": [line for select in explained.get("selects", ()) for line in limits_of(select)],
        "sentences": sentences(means),
        "picture": _picture(means) if epsilon else None,
        "unit": explained["unit"],
        "delta_is": [line.replace("one owner", explained["unit"]) for line in explained.get("delta_is", [])],
        "advice": for_people(explained["advice"], explained["unit"]),
        "notes": _notes(explained),
        "text": explained["text"],
        "explained": digest_of(sql, epsilon, delta),
        "output": explained.get("output", []),
    }


def columns_of(explained: dict[str, Any]) -> list[dict[str, str]]:
    """How accurate every number will be."""
    return [
        _column(column, example=_seeks(select))
        for select in explained.get("selects", ())
        for column in select["columns"]
    ]


def smallest_left(explained: dict[str, Any], of: str = "epsilon") -> float | None:
    """What may still be spent, from the ledger and from each of the caller's allowances."""
    position = ("epsilon", "delta").index(of)
    ledger = [] if explained.get("remaining") is None else [explained["remaining"][position]]
    own = [each["left"][of] for each in explained["allowances"] if each["left"] is not None]
    return min([*ledger, *own], default=None)


def digest_of(sql: str, epsilon: float, delta: float) -> str:
    """A hash of the explained statement and its price: people pay for exactly what was on the screen."""
    return hashlib.sha256(f"{epsilon!r}\x1f{delta!r}\x1f{sql}".encode(errors="surrogatepass")).hexdigest()


def sentences(means: dict[str, Any]) -> list[str]:
    """The odds, and somebody who is 10 % sure."""
    said: list[str] = means["sentences"]
    return [said[0], said[2]]


def _picture(means: dict[str, Any]) -> Any:
    row = next(row for row in means["table"] if row["prior"] == PRIOR)
    return charts.belief(PRIOR, row["low"], row["high"], "How far the belief of somebody who is 10% sure may move")


def _column(column: dict[str, Any], *, example: bool) -> dict[str, str]:
    name = ", ".join(column["outputs"]) or column["written"]
    error, level = column["expected_error"], percent(column["confidence_level"])
    has_noise = any(release["mechanism"] != "none" for release in column["releases"])
    exactness = "exact" if not has_noise else "± shown with the answer" if error is None else f"± {number(error)}"
    where = _WHERE.get(column["bounds_source"], column["bounds_source"])
    if column["bounds"] and column["bounds_source"] != "none":
        counts = "one person adds" if column["aggregate"].startswith(_ADDING) else "values are taken to be"
        where = f"{counts} between {number(column['bounds'][0])} and {number(column['bounds'][1])}: {where}"
    return {
        "name": name,
        "written": column["written"],
        "error": f"about {exactness}" if example and error else exactness,
        "level": f"at {level}" if has_noise and error is not None else "",
        "bounds": where,
    }


def _seeks(select: dict[str, Any]) -> bool:
    """Whether limits are to be found first; what is said of the rest is then an example."""
    limits = select["limits"]
    if limits is None:
        return False
    return limits["those_of_select"] is not None or any(sought["candidates"] for sought in limits["sought"])


def limits_of(select: dict[str, Any]) -> list[str]:
    """How much of each person counts."""
    contribution = select["contribution"]
    grouped = not contribution["kept_of_each_owner"].startswith("everything")
    if _seeks(select):
        found = [
            "How much of each person counts is found privately first, for a part of ε; limits in the query save it."
        ]
        if grouped:
            example = many(contribution["max_groups_per_owner"], "group")
            advice = "name max_groups_contributed to know them beforehand"
            found.append(f"The figures here are an example, with {example} for each person: {advice}.")
        return found
    if contribution["max_rows_per_owner"] is not None:
        return [f"At most {many(contribution['max_rows_per_owner'], 'row')} of each person count, chosen at random."]
    groups = many(contribution["max_groups_per_owner"], "group")
    return [f"Each person counts in at most {groups}, chosen at random."] if grouped else []


def _notes(explained: dict[str, Any]) -> list[str]:
    inner = [note for select in explained.get("selects", ()) for note in select["notes"]]
    return for_people([*explained.get("notes", ()), *inner], explained["unit"])


def for_people(notes: Iterable[str], unit: str) -> list[str]:
    """Each note once, in the words of the pages: where an owner is one person, it is called so; what is written as SQL stays.

    >>> for_people(["COUNT(DISTINCT owner) has the owners' own limits, for each owner."], "one person")
    ["COUNT(DISTINCT owner) has the people's own limits, for each person."]
    """
    said = dict.fromkeys(notes)
    if unit != "one person":
        return list(said)
    return [_OWNER.sub(lambda found: _PEOPLE[found[1]], note) for note in said]


# ---- errors -------------------------------------------------------------------------------------------------------


def error_view(error: ShoalError, sql: str) -> dict[str, Any]:
    """What is wrong and what to write instead, with the line concerned."""
    return error.to_dict() | {"line": marked_line(error.position, sql)}


def marked_line(position: Sequence[int] | None, sql: str) -> tuple[int, str, str, str] | None:
    """(number, before, the marked word, after) for the line that an error is about."""
    if not position:
        return None
    lines, (number_, column) = sql.splitlines(), position
    if not 0 < number_ <= len(lines):
        return None
    line = lines[number_ - 1]
    start = min(max(0, column - 1), len(line))
    word = re.match(r"\w+|\S", line[start:])
    end = start + (word.end() if word else 0)
    cut = max(0, start - LONGEST_LINE // 2)
    return number_, line[cut:start], line[start:end] or " ", line[end : end + LONGEST_LINE]


# ---- from the ± one can live with ---------------------------------------------------------------------------------


def short_epsilon(epsilon: float) -> str:
    """An ε as people write it, in three digits. Rounded up: with less, the ± would be wider than was asked for.

    >>> short_epsilon(0.2843485281384), short_epsilon(2.0)
    ('0.285', '2')
    """
    exact = Decimal(repr(epsilon))
    digits = Context(prec=3, rounding=ROUND_CEILING)
    return format(digits.plus(exact).normalize(), "f")


def with_epsilon(sql: str, epsilon: float) -> str:
    """The same question at another ε; E_USAGE if it does not name one."""
    written = short_epsilon(epsilon)
    tokens = tokenize(sql).tokens
    places = [
        (tokens[i + 2].start, tokens[i + 2].end)
        for i in range(len(tokens) - 2)
        if tokens[i].key == "EPSILON" and tokens[i + 1].key == "="
    ]
    if len(places) != 1:
        raise ShoalError(
            "E_USAGE",
            f"ε = {written} would do, but the question does not name its ε in one place.",
            hint=f"Write OPTIONS(epsilon = {written}) after WITH DIFFERENTIAL_PRIVACY.",
        )
    ((start, end),) = places
    return f"{sql[:start]}{written}{sql[end:]}"


# ---- examples -----------------------------------------------------------------------------------------------------


def examples(tables: dict[str, Any]) -> list[tuple[str, str]]:
    """First questions about these tables, from the catalog alone: what each is about, and its SQL."""
    found: list[tuple[str, str]] = []
    for name, table in tables.items():
        owner, columns = table["owner"], table["columns"]
        if table["public"] or not _PLAIN_NAME.fullmatch(name):
            continue
        usable = {column: facts for column, facts in columns.items() if _PLAIN_NAME.fullmatch(column)}
        counted = f"COUNT(DISTINCT {owner})" if owner in usable else "COUNT(*)"
        clause = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 0.5)"
        key = next((c for c, facts in usable.items() if facts["type"] == "text"), None)
        if key is not None:
            sql = f"{clause}\n  {key}, {counted} AS people\nFROM {name}\nGROUP BY {key}\nORDER BY people DESC"
            found.append((f"People in {name} by {key}", sql))
        value = next((c for c, facts in usable.items() if facts["bounds"]), None)
        if value is not None and key is not None:
            sql = f"{clause}\n  {key}, AVG({value}) AS average\nFROM {name}\nGROUP BY {key}"
            found.append((f"Average {value} by {key}", sql))
        if key is None:
            found.append((f"How many people are in {name}", f"{clause}\n  {counted} AS people\nFROM {name}"))
    return found[:4]
