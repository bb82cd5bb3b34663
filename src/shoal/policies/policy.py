"""A policy: a domain, a secret graph on it, and counts that are known. Says how sensitive a query is and what is promised.

>>> from shoal.policies import queries, secrets
>>> ages = Domain({"age": range(0, 101)})
>>> rule = Policy(ages, secrets.distance(age=5), name="nearby_age")
>>> rule.l1(queries.sum("age")), rule.l1(queries.cumulative("age")), rule.l1(queries.histogram("age"))
(Fraction(5, 1), Fraction(5, 1), Fraction(2, 1))
>>> rule.distance(30, 41)
3
"""

from __future__ import annotations

import builtins
import hashlib
import json
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

from shoal import params
from shoal.accounting.neighbours import Neighbours
from shoal.errors import ShoalError
from shoal.frozen import dataclass
from shoal.policies import known as known_counts
from shoal.policies import secrets, sensitivity
from shoal.policies.domain import Domain, usage
from shoal.policies.graphs import paths
from shoal.policies.graphs.secret import Secret
from shoal.policies.known import CountsBy, CountsOf, Known
from shoal.policies.queries import Histogram, Query, Sum

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from shoal.policies.tables import Largest, Movable

_sum = builtins.sum


@dataclass(frozen=True)
class Policy:
    """Which pairs of values stay indistinguishable (`secret`), and which counts are public (`known`; n always is)."""

    domain: Domain
    secret: Secret
    known: tuple[Known, ...] = ()
    name: str = "policy"

    def __post_init__(self) -> None:
        if not isinstance(self.domain, Domain) or not isinstance(self.secret, Secret):
            raise usage("A policy is a Domain and a secret.", "Policy(domain, policy.distance(age=5))")
        if not isinstance(self.name, str) or not self.name.isprintable() or not 0 < len(self.name) <= 100:
            raise usage("The name of a policy is text of at most 100 characters.")
        object.__setattr__(self, "known", tuple(self.known))
        self.secret.check(self.domain)
        self._check_known()
        if not self.secret.has_edges(self.domain):
            raise usage("The secret graph has no edges: nothing would be hidden.")

    def _check_known(self) -> None:
        for each in self.known:
            if not isinstance(each, CountsBy | CountsOf):
                raise usage("Known counts are counts_by(…) or counts_of(…).", 'known=[policy.counts_by("ward")]')
            each.check(self.domain)
        if len(self.known) > 1:
            raise ShoalError(
                "E_POLICY",
                "Several families of known counts overlap; how sensitive a query is then cannot be decided.",
                hint="Name one family of disjoint cells, for instance the joint counts of ward and sex.",
            )

    @property
    def cells(self) -> Known | None:
        """The one family of known counts."""
        return self.known[0] if self.known else None

    # ---- sensitivity ---------------------------------------------------------------------------------------------

    @cached_property
    def moves(self) -> int:
        """How many records move at once between neighbours: 1 without known counts."""
        return known_counts.moves(self.domain, self.secret, self.cells)

    def l1(self, query: Query) -> Fraction:
        """Moves · max over edges ‖v(x) − v(y)‖₁, exactly; 0 means that the answer is not secret."""
        if isinstance(query, Sum):
            return Fraction(self.sum_steps(query))
        table = query.table(self.domain)
        return self.steps(query.attributes(self.domain), table) * table.grid

    def l2_squared(self, query: Query) -> Fraction:
        """moves² · max over edges ‖v(x) − v(y)‖₂², exactly."""
        if isinstance(query, Sum):
            names = query.attributes(self.domain)
            widest = max(self._squared_span(names, span) for span in self.secret.spans(self.domain))
            return Fraction(0 if self._sums_are_known(query) else self.moves**2 * widest)
        names, table = query.attributes(self.domain), query.table(self.domain)
        if self._is_known(names, table):
            return Fraction(0)
        found = sensitivity.over_edges(self.domain, self.secret, names, table, squared=True)
        return self.moves**2 * found.amount * table.grid**2

    def steps(self, names: Sequence[str], table: Movable, *, sampled: bool = False) -> int:
        """The L1 sensitivity of a table over these attributes, in steps of its grid.

        `sampled`: not all rows are kept, and known counts do not decide sums over those that are.
        """
        if not sampled and self._is_known(names, table):
            return 0
        return self.moves * self._largest(names, table).amount

    def sum_steps(self, query: Sum, *, sampled: bool = False) -> int:
        """The L1 sensitivity of sums of attributes, by closed form."""
        if not sampled and self._sums_are_known(query):
            return 0
        return self.moves * _sum(self.secret.farthest(self.domain, query.attributes(self.domain)))

    def _largest(self, names: Sequence[str], table: Movable) -> Largest:
        return sensitivity.over_edges(self.domain, self.secret, names, table)

    def _is_known(self, names: Sequence[str], table: Movable) -> bool:
        return self.cells is not None and sensitivity.is_constant_on_cells(self.domain, self.cells, names, table)

    def _sums_are_known(self, query: Sum) -> bool:
        cells = self.cells
        if isinstance(cells, CountsBy):
            return set(query.names) <= set(cells.names)
        return cells is not None and self._is_known(query.attributes(self.domain), query.table(self.domain))

    def _squared_span(self, names: Sequence[str], span: Sequence[int]) -> int:
        return _sum(gap**2 for name, gap in zip(self.domain.names, span, strict=True) if name in names)

    def witness(self, query: Query) -> tuple[Any, Any] | None:
        """A secret pair (x, y) that moves the answer farthest, or None where no pair moves it."""
        if self.l1(query) == 0:
            return None
        names = query.attributes(self.domain)
        if isinstance(query, Sum):
            pair = self.secret.attain(self.domain, self.secret.farthest(self.domain, names))
            return self._shown(pair[0]), self._shown(pair[1])
        found = self._largest(names, query.table(self.domain)).pair
        if found is None:
            return None
        seen = self.domain.projected(names)
        ends = tuple(tuple(a.position(v) for a, v in zip(seen.attributes, seen.record(i), strict=True)) for i in found)
        x, y = self.secret.lift(self.domain, names, ends[0], ends[1])
        return self._shown(x), self._shown(y)

    def _shown(self, positions: tuple[int, ...]) -> Any:
        return self.domain.plain(self.domain.values_at(positions))

    # ---- pairs of values -----------------------------------------------------------------------------------------

    def distance(self, x: Any, y: Any) -> int | float:
        """Hops between two values: moving a record from x to y costs ε for each; infinite where no path leads."""
        return paths.hops(self, self.domain.positions(x), self.domain.positions(y))

    def protects(self, x: Any, y: Any) -> bool:
        """Whether the pair is itself a secret: an edge."""
        return self.secret.is_edge(self.domain, self.domain.positions(x), self.domain.positions(y))

    # ---- composition ---------------------------------------------------------------------------------------------

    def parallel_cost(self, epsilons: Sequence[Any], by: str | Sequence[str] | None = None) -> Fraction:
        """What releases on disjoint groups cost together.

        `by=None`: groups of people, chosen without looking at protected values: the `moves` largest ε. By the value of
        attributes: twice as many where a secret edge crosses groups, because one move then touches two of them.
        """
        amounts = sorted((params.epsilon(epsilon) for epsilon in epsilons), reverse=True)
        touched = self.moves
        if by is not None:
            names = (by,) if isinstance(by, str) else tuple(by)
            crossed = sensitivity.over_edges(
                self.domain, self.secret, Histogram(names).attributes(self.domain), Histogram(names).table(self.domain)
            )
            touched *= 2 if crossed.amount else 1
        return _sum(amounts[:touched], Fraction(0))

    # ---- words and data ------------------------------------------------------------------------------------------

    @property
    def promise(self) -> str:
        """What is hidden and what is not, in one paragraph."""
        shown = ["presence in the data", "the number of records"]
        shown += [each.words() for each in self.known]
        shown.append("everything that no chain of secret pairs joins")
        if self.secret.kind == "partition":
            shown.append("the part itself")
        return (
            f"policy {self.name}: hidden: {self.secret.words(self.domain)} (ε per hop); "
            f"not hidden: {', '.join(shown)}; weaker than owner-level privacy"
        )

    @cached_property
    def neighbours(self) -> Neighbours:
        """The promise as events and ledgers carry it."""
        return Neighbours(self.name, self.canonical)

    @property
    def canonical(self) -> str:
        """The policy as one text: the same policy, the same text."""
        return json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"), ensure_ascii=True)

    @property
    def sha256(self) -> str:
        """The digest of the canonical text."""
        return hashlib.sha256(self.canonical.encode()).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """The policy as the catalog writes it."""
        return {
            "name": self.name,
            "attributes": list(self.domain.names),
            "domain": self.domain.to_dict(),
            "secret": self.secret.to_dict(),
            "known": [each.to_dict() for each in self.known],
        }

    @classmethod
    def from_dict(cls, written: Mapping[str, Any]) -> Policy:
        """Reads what `to_dict` writes."""
        try:
            domain = Domain.from_dict({name: written["domain"][name] for name in written["attributes"]})
            return cls(
                domain,
                secrets.from_dict(written["secret"]),
                tuple(known_counts.from_dict(each) for each in written.get("known", ())),
                written.get("name", "policy"),
            )
        except (KeyError, TypeError):
            raise usage("A policy is written as domain, secret and known.") from None


def stretch(of: Policy, under: Policy) -> int | float:
    """How much a release that keeps `of` at ε may cost under another policy: stretch · ε; includes its moves."""
    return paths.stretch(of, under)


__all__ = ["Policy", "stretch"]
