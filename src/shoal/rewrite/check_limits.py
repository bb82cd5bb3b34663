"""How large a query may become: bounds on the plan itself, set before any data is read and independent of it.

A short query can expand to a huge plan (a WITH table used twice, twice, twice …), and a plan that is too deep or too large
would fail, or take minutes, at a point where failing already reveals something. The binder counts relations while it makes them
(`MAX_RELATIONS` of `sql.binding`); here the finished tree is measured.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from shoal.errors import ShoalError
from shoal.params import Bounds
from shoal.plan import nodes
from shoal.plan.measures import SATURATION_BITS
from shoal.plan.totals import grid_measure_of
from shoal.plan.traverse import COMPUTED, MAX_WEIGHT, Weights, expressions_of, relations_in, too_heavy

if TYPE_CHECKING:
    from shoal.plan.expressions import Expression
    from shoal.plan.nodes import Node
    from shoal.plan.releases import PrivateSelect, SelectPlan
    from shoal.sql.binding.statement import BoundStatement

MAX_DEPTH = 100
"""Relations inside relations."""


def check_limits(bound: BoundStatement) -> None:
    """Refuses a plan that is too deep or too large to be worth compiling."""
    measured = Size()
    trees = [bound.root, *(tree for select in bound.selects for tree in _trees(select))]
    if max(map(measured.depth, trees)) > MAX_DEPTH:
        raise ShoalError(
            "E_LIMITS",
            f"The query nests relations more than {MAX_DEPTH} levels deep.",
            hint="Merge subqueries and WITH tables that only pass rows on.",
        )
    written = [value for select in bound.selects for value in _values(select)]
    if sum(map(measured.weight_below, trees)) + sum(map(measured.weight, written)) > MAX_WEIGHT:
        raise too_heavy()


def _trees(select: PrivateSelect) -> list[Node]:
    return [select.input, *([select.public_groups] if select.public_groups is not None else [])]


def _values(select: PrivateSelect) -> list[Expression]:
    arguments = (getattr(call.aggregate, "argument", None) for call in select.aggregates)
    return [*(value for _, value in select.keys), *(a for a in arguments if a is not None)]


class Size(Weights):
    """Measures trees whose parts may be shared: each part once, however often it is in the tree."""

    def __init__(self) -> None:
        super().__init__()
        self._depths: dict[int, int] = {}
        self._weights_below: dict[int, int] = {}

    def depth(self, node: Node) -> int:
        """Levels of relations, those inside expressions included."""
        if id(node) not in self._depths:
            self._depths[id(node)] = 1 + max(map(self.depth, _below(node)), default=0)
        return self._depths[id(node)]

    def weight_below(self, node: Node) -> int:
        """The weight of all expressions of a tree."""
        if id(node) not in self._weights_below:
            cells = len(node.rows) * len(node.fields) if isinstance(node, nodes.Values) else 0
            own = cells // COMPUTED + sum(map(self.weight, expressions_of(node)))
            self._weights_below[id(node)] = own + sum(map(self.weight_below, _below(node)))
        return self._weights_below[id(node)]


def _below(node: Node) -> list[Node]:
    inside = [relation for expression in expressions_of(node) for relation in relations_in(expression)]
    return [*nodes.inputs(node), *inside]


def check_epsilon(selects: list[PrivateSelect], limit: Fraction | None) -> None:
    """The catalog's limit holds for a whole query, however many private SELECTs it is cut into."""
    if limit is not None and sum((s.options.epsilon for s in selects), Fraction(0)) > limit:
        raise ShoalError(
            "E_POLICY",
            f"The catalog allows at most epsilon = {float(limit):g} for one query, and its private SELECTs add up to more.",
            hint="Give each of them a smaller epsilon.",
            position=selects[-1].position,
        )


def check_steps(plan: SelectPlan) -> None:
    """Bounds must be within what rows saturate at, counted in steps of their grid.

    The grid follows the noise, and the noise of a centred measure follows the width of its bounds: very narrow bounds far from
    0 would give numbers that no engine can compute with, and it would fail as soon as there is a row. Whole numbers use steps
    of 1, and bounds beyond that would overflow in sums over very many owners.
    """
    for column in plan.columns:
        for release in (plan.releases[i] for i in column.releases):
            if not isinstance(release.bounds, Bounds):
                continue
            steps = grid_measure_of(release.measure, release.bounds, release.noise.grid).steps
            if steps is not None and steps.magnitude > 2**SATURATION_BITS:
                raise ShoalError(
                    "E_BOUNDS_INVALID",
                    "The bounds are too large, or too close together for their distance from 0.",
                    hint="Subtract the common part in the query, as in AVG(x - 1000000), or give wider bounds.",
                    position=column.call.position,
                )
