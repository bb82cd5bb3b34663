"""A SELECT WITH POLICY as data: what it adds up for every value of the policy's domain."""

from __future__ import annotations

from dataclasses import field as dataclass_field
from typing import TYPE_CHECKING, Literal

from shoal.frozen import dataclass

if TYPE_CHECKING:
    from fractions import Fraction

    from shoal.plan.expressions import Expression, Position
    from shoal.plan.nodes import Field, Node
    from shoal.policies.policy import Policy

Kind = Literal["count", "sum", "avg", "quantile", "quantiles"]


@dataclass(frozen=True, slots=True)
class PolicyAggregate:
    """One aggregate. `attribute` and `shares` are for quantiles: of which attribute, and at which shares."""

    field: Field
    kind: Kind
    argument: Expression | None = None
    condition: Expression | None = None
    attribute: str = ""
    shares: tuple[Fraction, ...] = ()
    continuous: bool = True
    written: str = ""
    position: Position = dataclass_field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class PolicySelect:
    """A query under a policy. `domain_fields` are the attributes as columns; `root` is the answer over stored rows 0."""

    sql: str
    table: str
    owner: str
    rule: Policy
    rows_per_owner: int
    epsilon: Fraction
    level: Fraction
    domain_fields: tuple[Field, ...]
    where: Expression | None
    keys: tuple[tuple[Field, Expression], ...]
    aggregates: tuple[PolicyAggregate, ...]
    root: Node
    position: Position = dataclass_field(default=None, compare=False)
