"""Who might own the rows: columns that look like an owner, for datasets where nobody said."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.catalog.owner_names import worth_a_look

if TYPE_CHECKING:
    import pyarrow as pa

    from shoal.risk.scanning.table_sketches import TableSketcher


def described_candidates(schema: pa.Schema, sketcher: TableSketcher) -> list[str]:
    """The five likeliest owners with the numbers that speak for or against them."""
    described = []
    for name in worth_a_look(schema.names):
        sketch = sketcher.sketches.get((name,))
        if sketch is None or sketch.distinct_values().value < 2:
            continue
        each = sketcher.rows / sketch.distinct_values().value
        described.append(f"{name} ({sketch.distinct_values().value:,.0f} values, {each:,.1f} rows each)")
    return described[:5]
