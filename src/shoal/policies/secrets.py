"""The secret graph G: which pairs of values nobody may tell apart.

Five kinds, as people and catalogs write them; the graphs themselves are in `graphs/`. Each knows its edges as *pieces* over any
choice of attributes: labels (all pairs of values with the same label) or lists of pairs. Projected onto fewer attributes, a graph
of the first four kinds is again one of its kind; edges that move other attributes only become loops, which change nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shoal.exact import as_fraction
from shoal.policies.domain import usage
from shoal.policies.graphs.distances import Distance, Within
from shoal.policies.graphs.facts import Attributes, Full
from shoal.policies.graphs.listed import Graph
from shoal.policies.graphs.parts import Partition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shoal.policies.graphs.secret import Secret


def full() -> Secret:
    """All pairs: hides the value of a record (replacement privacy); not its presence."""
    return Full()


def attributes(count: int) -> Secret:
    """Pairs that differ in at most `count` attributes: hides any that many facts about one person."""
    return Attributes(count)


def distance(*, within: Any = None, **reach: Any) -> Secret:
    """Hides values up to a resolution.

    `distance(age=5)`: |x − y| ≤ 5 in age, all else equal; several names are several kinds of step, one at a time.
    `distance(within=10, lat=1, lon=2)`: |Δlat| + 2·|Δlon| ≤ 10, the attributes together.
    """
    try:
        amounts = {name: as_fraction(value) for name, value in reach.items()}
        limit = None if within is None else as_fraction(within)
    except (TypeError, ValueError):
        raise usage("Distances are numbers.", "distance(age=5)") from None
    if limit is not None:
        return Within(limit, tuple(amounts.items()))
    for name, amount in amounts.items():
        if amount < 1:
            raise usage(f"The distance of {name!r} is below 1: nothing would be hidden.", "distance(age=5)")
    return Distance(tuple((name, int(amount)) for name, amount in amounts.items()))


def partition(**parts: Any) -> Secret:
    """Hides which value a record has inside its part; the part itself is public.

    `partition(age=[0, 11, 21])`: ages 0–10, 11–20, 21 and above. A list without order has lists of values as parts.
    """
    for name, cuts in parts.items():
        if not isinstance(cuts, list | tuple | range):
            raise usage(f"The parts of {name!r} are a list of cut points.", "partition(age=[0, 11, 21])")
    frozen = {
        name: tuple(tuple(cut) if isinstance(cut, list | tuple) else cut for cut in cuts)
        for name, cuts in parts.items()
    }
    return Partition(tuple(frozen.items()))


def graph(edges: Sequence[Any]) -> Secret:
    """Hides the pairs listed: `graph([((30, "A"), (31, "A")), …])`; with one attribute `graph([(30, 31), …])`."""
    listed = []
    for edge in edges:
        try:
            x, y = edge
        except (TypeError, ValueError):
            raise usage("The edges of a graph are pairs of values.", "graph([(30, 31), (31, 32)])") from None
        listed.append((_frozen(x), _frozen(y)))
    return Graph(tuple(listed))


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        raise usage("A value of a graph is a tuple in the order of the domain's attributes.")
    return tuple(value) if isinstance(value, list | tuple) else value


def from_dict(written: Any) -> Secret:
    """Reads what `to_dict` and the catalog write."""
    if written == "full":
        return Full()
    if not isinstance(written, dict) or len(written) != 1:
        raise usage("A secret is 'full', or one of attributes, distance, partition, graph with its value.")
    ((kind, value),) = written.items()
    if kind == "attributes":
        return Attributes(value)
    if kind == "graph" and isinstance(value, list | tuple):
        return graph(value)
    if kind in {"distance", "partition"} and isinstance(value, dict):
        return (distance if kind == "distance" else partition)(**value)
    raise usage(f"{kind!r} is not a kind of secret, or has the wrong value.", "secret = { distance = { age = 5 } }")
