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


# demands, and the best recoding by looking at all of them


def holds(name, value, rows, table, people, distance):
    """Whether a class keeps one demand; `people` are the population's rows of the same class."""
    owners = len(owners_of(rows))
    match name:
        case "k":
            return owners >= value
        case "l":
            return distinct_l(rows, "s") >= value
        case "entropy_l":
            held = sorted(holders(rows, "s").values())
            total = sum(held)
            return Fraction(total) ** total >= Fraction(value) ** total * math.prod(c**c for c in held)
        case "recursive":
            held = sorted(holders(rows, "s").values(), reverse=True)
            return held[0] < value[0] * sum(held[value[1] - 1 :])
        case "t":
            return closeness(rows, table, "s", distance) <= Fraction(str(value))
        case "k_map":
            return len(owners_of(people)) >= value
        case "presence":
            low, high = (Fraction(str(limit)) for limit in value)
            return low * len(owners_of(people)) <= owners <= high * len(owners_of(people))
    raise AssertionError(name)


def evaluate(rows, people, recode, demands, distance, limit):
    """The rows that stay under a recoding, or None where it is no solution."""
    recoded = [row | recode(row) for row in rows]
    classes = classes_of(recoded, ["a", "b"])
    theirs = classes_of([row | recode(row) for row in people or []], ["a", "b"])
    low = demands.get("presence", (0, 1))[0]
    table = recoded
    while True:
        kept = {
            key: part
            for key, part in classes.items()
            if all(holds(n, v, part, table, theirs.get(key, []), distance) for n, v in demands.items())
        }
        if len(kept) == len(classes):
            break
        classes, table = kept, [row for part in kept.values() for row in part]
    if low > 0 and (set(theirs) - set(kept) or len(table) < len(rows)):
        return None
    if not table or len(rows) - len(table) > limit:
        return None
    return table


def best(rows, people, ladders, demands, distance, limit):
    """(loss, suppressed, levels) of the best global recoding, or None; `ladders[column][level][value]` is a label."""
    found = []
    for i in range(len(ladders["a"])):
        for j in range(len(ladders["b"])):
            levels = {"a": ladders["a"][i], "b": ladders["b"][j]}
            kept = evaluate(
                rows,
                people,
                lambda row, levels=levels: {n: levels[n][row[n]] for n in levels},
                demands,
                distance,
                limit,
            )
            if kept is not None:
                found.append((loss_of(rows, kept, ladders, (i, j)), len(rows) - len(kept), (i, j)))
    return min(found, default=None)


def loss_of(rows, kept, ladders, levels):
    total = Fraction(2 * (len(rows) - len(kept)))
    for name, level in zip(["a", "b"], levels, strict=True):
        leaves = set(ladders[name][0])
        labels = ladders[name][level]
        for row in kept:
            under = sum(labels[leaf] == row[name] for leaf in leaves)
            total += Fraction(under - 1, len(leaves) - 1) if len(leaves) > 1 else 0
    return total / (2 * len(rows))
