"""Who might own the rows: columns that look like an owner, for datasets where nobody said."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

    from shoal.risk.scanning.table_sketches import TableSketcher

_PERSON = (
    r"user|customer|client|patient|person|people|member|subscriber|employee|student|driver|passenger|guest|visitor|"
    r"household|account|device|owner|subject|citizen|donor|voter|tenant|player|author"
)
_SURE = re.compile(rf"^(uid|userid|({_PERSON})_?(id|uid|key|no|number|hash)?|ssn|nhs_?(no|number)?|email|e_?mail)$")
_LIKELY = re.compile(rf"(^|_)({_PERSON})(_|$)|email|phone|msisdn|imei|passport|cookie")
_ANY_ID = re.compile(r"(^|_)(id|uuid|guid|key)$|id$")


def candidate_names(schema: pa.Schema) -> list[str]:
    """Columns whose names sound like an owner, the likeliest first."""
    scored = [(_score(name), place, name) for place, name in enumerate(schema.names)]
    return [name for score, _, name in sorted(scored) if score < 3]


def _score(name: str) -> int:
    plain = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().replace(" ", "_").replace("-", "_")
    for score, pattern in enumerate((_SURE, _LIKELY, _ANY_ID)):
        if pattern.search(plain):
            return score
    return 3


def described_candidates(schema: pa.Schema, sketcher: TableSketcher) -> list[str]:
    """The five likeliest owners with the numbers that speak for or against them."""
    described = []
    for name in candidate_names(schema):
        sketch = sketcher.sketches.get((name,))
        if sketch is None or sketch.distinct_values().value < 2:
            continue
        each = sketcher.rows / sketch.distinct_values().value
        described.append(f"{name} ({sketch.distinct_values().value:,.0f} values, {each:,.1f} rows each)")
    return described[:5]
