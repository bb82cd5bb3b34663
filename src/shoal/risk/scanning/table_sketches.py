"""All columns of a table in one pass: each column of a batch is hashed once, the owners once for all columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shoal.frozen import dataclass
from shoal.risk.hashing.encoding import ColumnEncoder, Encoded, combine
from shoal.risk.sketch.arrays import encode_owners
from shoal.risk.sketch.khll import Sketch

if TYPE_CHECKING:
    import pyarrow as pa

    from shoal.risk.hashing.keys import Key

Subject = tuple[str, ...]
"""What a sketch is of: one column, or a combination of columns."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to sketch of a table."""

    owner: str | None  # None: every row is an owner of its own
    subjects: tuple[Subject, ...]
    k: int
    m: int

    @property
    def columns(self) -> list[str]:
        """The columns to read."""
        named = [column for subject in self.subjects for column in subject]
        return list(dict.fromkeys([*named, *([self.owner] if self.owner is not None else [])]))

    def to_dict(self) -> dict[str, Any]:
        """The plan for a worker."""
        return {"owner": self.owner, "subjects": [list(subject) for subject in self.subjects], "k": self.k, "m": self.m}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Plan:
        """The plan a worker was given."""
        return cls(data["owner"], tuple(tuple(subject) for subject in data["subjects"]), data["k"], data["m"])


class TableSketcher:
    """Takes in batches of a table, or other sketchers of disjoint rows."""

    def __init__(self, plan: Plan, key: Key) -> None:
        self.plan = plan
        self.sketches = {subject: Sketch(plan.k, plan.m, key=key) for subject in plan.subjects}
        self.rows = 0
        self._key = key
        self._encoders = {column: ColumnEncoder(key.values) for column in plan.columns}
        self._owner_encoder = ColumnEncoder(key.owners)

    def take(self, batch: pa.RecordBatch) -> None:
        """Take in rows."""
        self.rows += batch.num_rows
        kept, owners = None, None
        if self.plan.owner is not None:
            kept, owners = encode_owners(batch.column(self.plan.owner), self._owner_encoder, self._key.owners)
        encoded: dict[str, Encoded] = {}
        for subject, sketch in self.sketches.items():
            columns = [self._encoded(batch, column, encoded) for column in subject]
            values = columns[0] if len(columns) == 1 else combine(columns, self._key.values)
            sketch.absorb(values if kept is None else values.take(kept), owners)

    def _encoded(self, batch: pa.RecordBatch, column: str, encoded: dict[str, Encoded]) -> Encoded:
        if column not in encoded:
            encoded[column] = self._encoders[column].encode(batch.column(column))
        return encoded[column]

    def absorb(self, rows: int, sketches: dict[Subject, Sketch]) -> None:
        """Take in the sketches of rows that were read elsewhere."""
        self.rows += rows
        for subject, sketch in sketches.items():
            self.sketches[subject].absorb_sketch(sketch)
