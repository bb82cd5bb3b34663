"""Whole owners measured apart, and the integers added up: how one question runs on many machines, or on one piece by piece.

Everything below a private aggregate is a function of one owner's rows and of public tables. So the rows may be cut into buckets in
any way that keeps the rows of an owner together: `measure_bucket` answers for one bucket by the embedded engine, unchanged, and
`add` puts the answers together. The sum is the answer for the whole table, to the last integer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.engines.duckdb.filled import filled
from shoal.engines.partials import Partials, add, partials_from

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import pyarrow as pa

    from shoal.engines.duckdb.engine import DuckDBEngine
    from shoal.plan.totals import SamplingKey, TotalsQuery

__all__ = ["add", "measure_bucket", "partials_of"]


def measure_bucket(
    question: TotalsQuery,
    key: SamplingKey,
    tables: Mapping[str, pa.Table | pa.RecordBatchReader],
    *,
    threads: int | None = None,
    memory_limit: str | None = None,
    spill_under: str | Path | None = None,
) -> Partials:
    """The answer for some owners: `tables` holds all rows of each of them, and public tables in full."""
    with filled(tables, threads=threads, memory_limit=memory_limit, spill_under=spill_under) as engine:
        return partials_of(question, key, engine)


def partials_of(question: TotalsQuery, key: SamplingKey, engine: DuckDBEngine) -> Partials:
    """The answer of an engine that holds some owners."""
    return partials_from(question, engine.totals(question, key), engine.kept_values(question, key))
