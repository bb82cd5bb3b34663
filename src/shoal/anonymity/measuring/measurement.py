"""What was measured of a table: every definition at once, exact, each number an attribute."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from shoal.anonymity.measuring import diversity
from shoal.anonymity.measuring.definitions import Closeness
from shoal.anonymity.measuring.demands import Ground, demands_from
from shoal.anonymity.measuring.reidentification import Risk, probability_below, risk_of
from shoal.anonymity.measuring.tuples import distinct_rows
from shoal.anonymity.measuring.verdicts import Finding, Verdict
from shoal.anonymity.reports.limits import not_protected
from shoal.anonymity.reports.page import measurement_page
from shoal.anonymity.reports.terminal import measurement_text
from shoal.frozen import dataclass
from shoal.pages import embedded, write_page

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from shoal.anonymity.measuring.classes import Classes, Held
    from shoal.anonymity.measuring.definitions import Demand
    from shoal.anonymity.measuring.distances import Distance
    from shoal.anonymity.measuring.tuples import Tuples

    Mask = NDArray[np.bool_]

RECURSIVE_LEVELS = (2, 3, 4)


@dataclass(frozen=True, slots=True)
class Share:
    """A part of a table, as counts."""

    classes: int
    owners: int
    rows: int


@dataclass(frozen=True)
class Sensitive:
    """What the classes of a table give away about one sensitive column; the worst class speaks for all."""

    column: str
    held: Held
    table_owners: int
    ground: Distance

    @cached_property
    def distinct(self) -> int:
        """Distinct l."""
        return int(diversity.distinct_l(self.held).min(initial=len(self.held.held)))

    @cached_property
    def entropy(self) -> float:
        """Entropy l."""
        return float(diversity.entropy_l(self.held).min(initial=float(len(self.held.held))))

    def recursive(self, level: int) -> float:
        """c(l): recursive (c, l)-diversity holds exactly for every c above it; infinite where a class has fewer values."""
        return diversity.recursive_c(self.held, level)

    @cached_property
    def alpha(self) -> float:
        """How sure an attacker is, at most."""
        return float(diversity.alpha(self.held).max(initial=0.0))

    @cached_property
    def beta(self) -> float:
        """The largest relative gain over knowing the whole table."""
        return float(diversity.beta(self.held, self.table_owners).max(initial=0.0))

    @cached_property
    def t(self) -> float:
        """The largest distance of a class from the table."""
        return float(self.ground.by_class(self.held).max(initial=0.0))

    @property
    def distance(self) -> str:
        """Which distance t is measured in."""
        return self.ground.name

    @cached_property
    def homogeneous(self) -> int:
        """Owners in classes where one value is held by all."""
        return int(self.held.sizes[diversity.homogeneous(self.held)].sum())

    @cached_property
    def nearly_known(self) -> int:
        """Owners whose value is known for certain, or once an attacker rules out one value."""
        return int(self.held.sizes[diversity.distinct_l(self.held) <= 2].sum())

    @cached_property
    def surest(self) -> int:
        """Owners of the classes in which an attacker is surest."""
        alpha = diversity.alpha(self.held)
        return int(self.held.sizes[alpha >= self.alpha - 1e-12].sum()) if len(alpha) else 0

    def to_dict(self) -> dict[str, object]:
        """For machines."""
        return {
            "distinct": self.distinct,
            "entropy": self.entropy,
            "recursive": {str(level): self.recursive(level) for level in RECURSIVE_LEVELS},
            "alpha": self.alpha,
            "beta": self.beta,
            "t": self.t,
            "distance": self.distance,
            "homogeneous": self.homogeneous,
        }


@dataclass(frozen=True)
class Measurement:
    """Everything measured for one table and one choice of quasi-identifiers."""

    tuples: Tuples
    found: Classes
    distances: Mapping[str, Distance]
    suppressed: int
    threshold: float
    unit: str  # owners or rows
    warnings: tuple[str, ...] = ()
    extra: Mapping[str, int] | None = None  # columns published beside the quasi-identifiers → owners they make unique

    @property
    def quasi(self) -> tuple[str, ...]:
        """The names of the quasi-identifiers."""
        return tuple(column.name for column in self.tuples.quasi)

    @property
    def rows(self) -> int:
        """Rows that were measured."""
        return self.tuples.total

    @property
    def owners(self) -> int:
        """Owners of the table."""
        return self.tuples.owners

    @property
    def classes(self) -> int:
        """Distinct combinations of the quasi-identifiers."""
        return self.found.count

    @cached_property
    def k(self) -> int:
        """The owners of the smallest class."""
        return int(self.found.owners.min(initial=self.owners))

    @cached_property
    def profile_k(self) -> int:
        """The least number of owners with the same set of classes."""
        if not self.tuples.spanning:
            return self.k
        alone = self.tuples.alone[self.tuples.alone > 0]
        sizes = [int(alone.min())] if len(alone) else []
        owner, cls = distinct_rows(*self.tuples.pairs)
        ends = np.flatnonzero(np.diff(owner, append=-1)) + 1
        sets: dict[bytes, int] = {}
        for start, end in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True):
            content = cls[start:end].tobytes()
            sets[content] = sets.get(content, 0) + 1
        return min([*sizes, *sets.values()])

    @cached_property
    def k_map(self) -> int | None:
        """The smallest number of owners that a class has in the population."""
        return None if self.found.population is None else int(self.found.population.min(initial=self.owners))

    @property
    def k_map_estimate(self) -> float | None:
        """The same, estimated from the sampling fraction."""
        return None if self.found.sampling is None else self.k / self.found.sampling

    def chance_below(self, k: int) -> float | None:
        """How likely the smallest class has fewer than k owners in the population, by the sampling fraction."""
        return None if self.found.sampling is None else probability_below(k, self.k, self.found.sampling)

    @cached_property
    def presence(self) -> tuple[float, float] | None:
        """The least and the largest share of a class's population that is in the table."""
        population = self.found.population
        if population is None or not len(population) or (self.found.owners > population).any():
            return None
        ratio = self.found.owners / population
        return (0.0 if self.found.absent else float(ratio.min()), float(ratio.max()))

    @cached_property
    def sizes(self) -> dict[int, int]:
        """Class size → number of classes."""
        sizes, counts = np.unique(self.found.owners, return_counts=True)
        return dict(zip(sizes.tolist(), counts.tolist(), strict=True))

    def below(self, k: int) -> Share:
        """What is in classes of fewer than k owners."""
        return self._share(self.found.owners < k)

    def _share(self, chosen: Mask) -> Share:
        found = self.found
        return Share(int(chosen.sum()), int(found.owners[chosen].sum()), int(found.rows[chosen].sum()))

    @cached_property
    def sensitive(self) -> dict[str, Sensitive]:
        """The sensitive columns."""
        return {
            name: Sensitive(name, held, self.owners, self.distances[name]) for name, held in self.found.values.items()
        }

    @cached_property
    def risk(self) -> Risk:
        """Risk of re-identification by attacker."""
        return risk_of(self.found, self.threshold)

    @cached_property
    def unique(self) -> int:
        """Owners who are alone in a class."""
        return int((self.found.owners == 1).sum())

    @cached_property
    def population_unique(self) -> int | None:
        """Of those, the owners who are alone in the population too."""
        if self.found.population is None:
            return None
        return int(((self.found.owners == 1) & (self.found.population == 1)).sum())

    # demands

    def demands(self, asked: Mapping[str, Any]) -> tuple[Demand, ...]:
        """Demands in this measurement's columns."""
        ground = Ground(self.distances, self.found.population is not None, self.found.sampling is not None)
        return demands_from(asked, ground)

    def failing(self, *, limit: int = 100, **asked: Any) -> pa.Table:
        """The classes that break a demand, smallest first: their values, owners and rows, and which demands they break."""
        return self.failing_classes(self.demands(asked), limit)

    def failing_classes(self, demands: tuple[Demand, ...], limit: int) -> pa.Table:
        """The same for demands that were read before."""
        broken = {demand.name: ~demand.holds(self.found) for demand in demands}
        anything = np.any(list(broken.values()), axis=0) if broken else np.zeros(self.classes, dtype=bool)
        chosen = np.flatnonzero(anything)
        order = chosen[np.lexsort((chosen, self.found.owners[chosen]))][:limit]
        columns = {
            column.name: column.values.take(pa.array(self.tuples.codes[order, position]))
            for position, column in enumerate(self.tuples.quasi)
        }
        names = [", ".join(name for name, mask in broken.items() if mask[at]) for at in order.tolist()]
        return pa.table(
            [*columns.values(), self.found.owners[order], self.found.rows[order], pa.array(names, pa.string())],
            names=[
                *columns,
                *(name if name not in columns else f"{name} of the class" for name in ("owners", "rows", "breaks")),
            ],
        )

    def check(self, **asked: Any) -> Verdict:
        """Hold the table to demands."""
        return Verdict(tuple(self.finding(demand) for demand in self.demands(asked)))

    def finding(self, demand: Demand) -> Finding:
        """What one demand says."""
        broken = ~demand.holds(self.found)
        share = self._share(broken)
        fails = share.classes > 0
        if demand.name == "presence" and getattr(demand, "low", 0) > 0 and self.found.absent:
            fails = True
        sentence = f"{demand.sentence[0].upper()}{demand.sentence[1:]}"
        if fails:
            classes = "1 class" if share.classes == 1 else f"{share.classes:,} classes"
            sentence += f": broken by {classes} with {share.owners:,} {self.unit}"
            sentence += (
                f", and {self.found.absent:,} classes of the population are missing" if not share.classes else ""
            )
        measured = self._measured(demand)
        subject = demand.column or ", ".join(self.quasi)
        return Finding(demand.name, subject, fails, f"{sentence}.", measured, _limit_of(demand))

    def _measured(self, demand: Demand) -> float | None:
        if demand.name == "k":
            return self.k
        if demand.name == "k_map":
            return self.k_map if self.k_map is not None else self.k_map_estimate
        if demand.name == "presence":
            return None if self.presence is None else self.presence[1]
        column = self.sensitive[str(demand.column)]
        if isinstance(demand, Closeness):
            return column.t
        return {"l": column.distinct, "entropy_l": column.entropy}.get(demand.name)

    # how it is shown

    @cached_property
    def not_protected(self) -> tuple[Any, ...]:
        """What none of this protects from, each with a number of this table."""
        return not_protected(self)

    def to_dict(self) -> dict[str, object]:
        """For machines; no value of the data is in it."""
        return {
            "rows": self.rows,
            "owners": self.owners,
            "unit": self.unit,
            "suppressed": self.suppressed,
            "classes": self.classes,
            "k": self.k,
            "profile_k": self.profile_k,
            "k_map": self.k_map,
            "k_map_estimate": self.k_map_estimate,
            "presence": None if self.presence is None else list(self.presence),
            "sizes": [list(pair) for pair in self.sizes.items()],
            "unique": self.unique / max(self.owners, 1),
            "population_unique": None
            if self.population_unique is None
            else self.population_unique / max(self.owners, 1),
            "sensitive": {name: column.to_dict() for name, column in self.sensitive.items()},
            "risk": self.risk.to_dict(),
            "not_protected": [limit.to_dict() for limit in self.not_protected],
        }

    def to_html(self, path: str | Path | None = None, *, show_values: bool = False, k: int = 5) -> str:
        """A page that needs nothing but a browser; written to the path if one is given."""
        return write_page(measurement_page(self, k=k, show_values=show_values), path)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return embedded(self.to_html())

    def __str__(self) -> str:
        return measurement_text(self)


def _limit_of(demand: Demand) -> float | None:
    for name in ("k", "at_least", "t", "high"):
        value = getattr(demand, name, None)
        if value is not None and not isinstance(value, str):
            return float(value)
    return None
