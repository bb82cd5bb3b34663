"""Definitions spelled out row by row in plain Python: slow, obvious, and what the quick code is held to."""

from __future__ import annotations

import math
from collections import defaultdict
from fractions import Fraction


def classes_of(rows, quasi):
    """Class → rows."""
    found = defaultdict(list)
    for row in rows:
        found[tuple(row[name] for name in quasi)].append(row)
    return dict(found)


def owners_of(rows):
    return {row["owner"] for row in rows}


def holders(rows, column):
    """Value → owners who have it."""
    found = defaultdict(set)
    for row in rows:
        found[row[column]].add(row["owner"])
    return {value: len(owners) for value, owners in found.items()}


def distinct_l(rows, column):
    held, owners = holders(rows, column), len(owners_of(rows))
    return 1 if max(held.values()) == owners else min(len(held), owners)


def entropy_l(rows, column):
    held = holders(rows, column)
    total = sum(held.values())
    return math.exp(-sum(count / total * math.log(count / total) for count in held.values()))


def recursive_c(rows, column, level):
    held = sorted(holders(rows, column).values(), reverse=True)
    rest = sum(held[level - 1 :])
    return math.inf if rest == 0 else held[0] / rest


def in_order(values):
    return sorted(values, key=lambda value: (value is not None, value if value is not None else 0))


def closeness(rows, table, column, distance):
    """Earth mover's distance as a fraction: `equal` or `ordered`."""
    part, whole = holders(rows, column), holders(table, column)
    total, overall = sum(part.values()), sum(whole.values())
    excess = [Fraction(part.get(v, 0), total) - Fraction(whole[v], overall) for v in in_order(whole)]
    if distance == "equal":
        return sum(map(abs, excess)) / 2
    running, moved = Fraction(0), Fraction(0)
    for each in excess[:-1]:
        running += each
        moved += abs(running)
    return moved / (len(excess) - 1) if len(excess) > 1 else Fraction(0)


def profile_k(rows, quasi):
    sets = defaultdict(set)
    for row in rows:
        sets[row["owner"]].add(tuple(row[name] for name in quasi))
    counts = defaultdict(int)
    for classes in sets.values():
        counts[frozenset(classes)] += 1
    return min(counts.values())
