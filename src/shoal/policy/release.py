"""Release an answer under a policy: plan, charge, read, draw, and make it consistent."""

from __future__ import annotations

import json
from dataclasses import field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from shoal import params
from shoal.engines.domain_records import Records, check_columns, read_records
from shoal.engines.sources import as_arrow, open_source
from shoal.errors import ShoalError
from shoal.frozen import dataclass
from shoal.policies import answers, charging
from shoal.policies.planning import ReleasePlan, plan_release
from shoal.policies.policy import Policy
from shoal.policies.queries import Cumulative, Histogram, Linear, Query, Ranges, Sum

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from shoal.accounting.ledger import Ledger
    from shoal.engines.base import Engine

DATA = "data"


class Interval(NamedTuple):
    """A number with the ends of its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Release:
    """Answers under a policy. `values` are consistent (no negative counts, sums as known), `raw` the noisy ones."""

    values: Any
    raw: Any
    low: Any
    high: Any
    keys: list[Any]
    epsilon: Fraction
    promise: str
    mechanism: str
    level: float
    _plan: ReleasePlan = field(repr=False, compare=False)
    _n: int | None = field(repr=False, compare=False)

    def _counts(self) -> list[float]:
        if not isinstance(self._plan.query, Cumulative):
            raise ShoalError("E_USAGE", "Only a cumulative release has ranges and quantiles.", hint='cumulative("age")')
        return list(self.values)

    def cdf(self) -> list[float]:
        """How many records are at most each value: never falling, and n at the end where n is public."""
        return self._counts()

    def range(self, low: Any, high: Any) -> Interval:
        """How many records lie from low to high, both ends inside."""
        counts = [0.0, *self._counts()]
        raw = [0.0, *self.raw]
        (query,) = (self._plan.query,)
        attribute = self._plan.rule.domain.ordered(query.attributes(self._plan.rule.domain)[0])
        first, last = attribute.position(low), attribute.position(high) + 1
        if first >= last:
            raise ShoalError("E_USAGE", "A range is (low, high) with low ≤ high.")
        half = answers.range_half_width(self._plan, first, last, self.level)
        middle, top = raw[last] - raw[first], float("inf") if self._n is None else float(self._n)
        ends = (min(max(0.0, middle + sign * half), top) for sign in (-1, 1))
        return Interval(counts[last] - counts[first], *ends)

    def quantile(self, share: float) -> Any:
        """The smallest value that at least this share of the records does not exceed."""
        if not 0 <= share <= 1:
            raise ShoalError("E_USAGE", "A quantile is a share from 0 to 1.")
        counts = self._counts()
        wanted = share * counts[-1]
        return self.keys[min(int(np.searchsorted(counts, wanted - 1e-9, side="left")), len(counts) - 1)]

    def to_arrow(self) -> pa.Table:
        """A table of key, value, low, high; the promise is in its metadata."""
        import pyarrow as pa

        listed = [each if isinstance(each, list) else [each] for each in (self.values, self.low, self.high)]
        keys = [str(key) if isinstance(key, tuple) else key for key in self.keys]
        numbers = [[float(value) for value in each] for each in listed]
        table = pa.table({"key": keys, "value": numbers[0], "low": numbers[1], "high": numbers[2]})
        return table.replace_schema_metadata({"shoal.promise": self.promise})

    def to_dict(self) -> dict[str, Any]:
        """The release as a machine reads it."""
        return {
            "promise": self.promise,
            "epsilon": float(self.epsilon),
            "mechanism": self.mechanism,
            "level": self.level,
            "keys": [list(key) if isinstance(key, tuple) else key for key in self.keys],
            "values": _plain(self.values),
            "raw": _plain(self.raw),
            "low": _plain(self.low),
            "high": _plain(self.high),
        }

    def __repr__(self) -> str:
        shown = json.dumps(_plain(self.values))
        short = shown if len(shown) <= 200 else f"{shown[:200]} …"
        return f"{self.promise}\nε = {float(self.epsilon):g}, {self.mechanism}: {short}"


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return float(value) if isinstance(value, Fraction) else value


def release(
    data: Any,
    query: Query,
    rule: Policy,
    *,
    epsilon: float = 1.0,
    ledger: Ledger | str | Path | None = None,
    user: str | None = None,
    level: float = 0.95,
    owner: str | None = None,
    max_rows_per_owner: int = 1,
    totals: Mapping[Any, int] | None = None,
    table: str | None = None,
) -> Release:
    """Answers a question about records under a policy.

    Args:
        data: an Arrow, pandas or polars table, a dict of columns, or a path (as `connect` takes it); one row a record.
        query: `histogram`, `cumulative`, `ranges`, `sum`, `mean` or `linear`.
        rule: the policy.
        epsilon: the loss for each hop of the secret graph.
        ledger: a path or a Ledger. One about owners is charged the owner-level loss, and the release then makes no use of
            the number of records.
        user: who asks, for the ledger.
        level: of the intervals.
        owner: the column with the owner of a row. Without it the promise is about one row.
        max_rows_per_owner: how many rows of an owner are kept, drawn at random; noise grows with it.
        totals: known counts from the custodian, by the keys of the known cells; read from the data where that is allowed.
        table: which table of a path with several.
    """
    checked = _checked(query, rule, epsilon, level, owner, max_rows_per_owner)
    book = charging.opened(ledger)
    charging.require_floor(book, checked)
    public = charging.uses_public_counts(book)
    plan = plan_release(
        query, rule, checked, rows_per_owner=max_rows_per_owner, public_n=public, sampled=owner is not None
    )
    if book is not None:
        charging.loss_on(book, plan, owner)
    with opened(data, table) as source:
        check_columns(source.engine, source.table, rule.domain, owner)

        def run() -> tuple[list[list[int]], int, Mapping[Any, int] | None]:
            records = read_records(source.engine, source.table, rule.domain, owner, max_rows_per_owner)
            known = totals
            if known is None and charging.uses_known_totals(book, rule):
                known = _known_totals(rule, records, sampled=owner is not None)
            return answers.draw(plan, records), records.n, known

        drawn, n, known = charging.charged_run(book, plan, owner, user, f"policy {rule.name}: {query.name}", run)
    found = answers.answer(plan, drawn, n if public else None, float(level), known if public else None)
    return _released(found, plan, n if public else None, float(level), owner)


def _checked(
    query: Query, rule: Policy, epsilon: float, level: float, owner: str | None, max_rows_per_owner: int
) -> Fraction:
    if not isinstance(rule, Policy):
        raise ShoalError("E_USAGE", "A release needs a Policy.", hint="policy.Policy(domain, policy.distance(age=5))")
    if not isinstance(query, Histogram | Cumulative | Ranges | Sum | Linear):
        raise ShoalError("E_USAGE", "A release needs a question.", hint='policy.histogram("age")')
    params.confidence_level(level)
    params.whole_number(max_rows_per_owner, option="max_rows_per_owner")
    if owner is None and max_rows_per_owner != 1:
        raise ShoalError("E_USAGE", "max_rows_per_owner needs owner=: the column with the owner of a row.")
    return params.epsilon(epsilon)


def _known_totals(rule: Policy, records: Records, *, sampled: bool) -> Mapping[Any, int] | None:
    """Known counts, read from the data: they are public under the policy, unless rows were left out at random."""
    cells, domain = rule.cells, rule.domain
    if cells is None or sampled:
        return None
    names = cells.attributes(domain)
    if domain.projected(names).size > 1 << 20:
        return None
    label = cells.labels(domain, names)
    sums = np.bincount(label, weights=records.counts(names), minlength=len(cells.keys(domain)))
    return {key: int(total) for key, total in zip(cells.keys(domain), sums, strict=True)}


def _released(found: answers.Answers, plan: ReleasePlan, n: int | None, level: float, owner: str | None) -> Release:
    single = isinstance(plan.query, Sum) and len(plan.query.names) == 1
    single = single or (isinstance(plan.query, Linear) and len(found.values) == 1)

    def shaped(values: list[Any]) -> Any:
        return values[0] if single else values

    return Release(
        shaped(found.values),
        shaped(found.raw),
        shaped(found.low),
        shaped(found.high),
        plan.query.keys(plan.rule.domain),
        plan.epsilon,
        promise_text(plan, owner),
        plan.mechanism,
        level,
        plan,
        n,
    )


def promise_text(plan: ReleasePlan, owner: str | None) -> str:
    """The policy's promise, whose it is, and whether anything was released exactly."""
    whose = "about one row" if owner is None else f"about {plan.rows_per_owner} row(s) of each {owner}"
    exact = "; this answer is exact: no secret pair changes it" if plan.mechanism == "exact" else ""
    return f"{plan.rule.promise}; {whose}{exact}"


# ---- data ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Source:
    """An engine and the table to read; closes what it opened."""

    engine: Engine
    table: str

    def __enter__(self) -> Source:  # noqa: PYI034 - not subclassed
        return self

    def __exit__(self, *_: object) -> None:
        self.engine.close()


def opened(data: Any, table: str | None = None) -> Source:
    """The data behind whatever was given."""
    if not isinstance(data, str | Path):
        return Source(open_source({DATA: as_arrow(data)}), DATA)
    engine = open_source(data)
    names = list(engine.tables())
    if table is None and len(names) != 1:
        engine.close()
        raise ShoalError("E_USAGE", "The source has several tables.", hint="Name one: table=…")
    return Source(engine, table if table is not None else names[0])
