"""An answer as bytes, and back: Arrow for the rows, JSON for the rest, from a list of fields; never pickle.

    magic, length of the JSON (8 bytes, big-endian), JSON, length of the rows, Arrow stream, length of the numbers, Arrow stream

Reading it back gives the same rows and the same error bars at any level, bit for bit. The reader is strict: an unknown
field, class or type, a wrong length or an extra byte is E_USAGE.
"""

from __future__ import annotations

import dataclasses
import json
import re
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import pyarrow as pa

from shoal.accounting.events import Randomised, RankTarget, Shift
from shoal.errors import InternalError, ShoalError
from shoal.frozen import dataclass
from shoal.params import Bounds
from shoal.plan import aggregates
from shoal.plan.aggregates import Aggregate, NoisyMeasure
from shoal.plan.expressions import Literal
from shoal.plan.measures import Measure, Steps
from shoal.plan.types import Kind, Type
from shoal.release.cuts.one_group import Tail
from shoal.release.cuts.widening import Widening
from shoal.release.error_bars import NO_VALUES, CopiedAggregate, ErrorBars

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from shoal.release.policy_clause.intervals import CopiedSpread

PROMISE_KEY = "shoal.promise"
"""The schema metadata key under which tables and files carry the promise."""
OWNER_LEVEL = "owner-level differential privacy"
AGGREGATES = tuple(
    one
    for one in map(vars(aggregates).get, aggregates.__all__)
    if isinstance(one, type) and issubclass(one, Aggregate) and one is not Aggregate
)
"""The aggregates an answer may hold: the classes listed in the package of aggregates."""
MAGIC = b"shoal answer 1\n"
MEDIA_TYPE = "application/vnd.shoal.answer"
PART_CELLS = 65_536
"""A cell takes a hundred times the memory in Python that it takes in Arrow."""
_FIELDS = frozenset({"promise", "epsilon", "delta", "level", "private", "notes", "columns", "drawn", "spreads"})
_LEFT_OUT = {"neighbours"}
_FRACTION = re.compile(r"-?[0-9]{1,4000}(?:/[0-9]{1,4000})?")


@dataclass(frozen=True)
class KeptAnswer:
    """Everything that is released with an answer."""

    table: pa.Table
    promise: str
    epsilon: Fraction
    delta: Fraction
    level: Fraction
    private: bool
    notes: tuple[str, ...]
    bars: ErrorBars
    spreads: Mapping[int, CopiedSpread] | None = None
    """For an answer under a policy, which has no other bars."""

    def parts(self) -> Iterator[KeptAnswer]:
        """The answer a few rows at a time, at least once: whoever makes Python objects of cells makes few at once."""
        rows = max(1, PART_CELLS // max(1, self.table.num_columns))
        if self.table.num_rows <= rows:
            yield self
            return
        for start in range(0, self.table.num_rows, rows):
            yield self._part(start, rows)

    def _part(self, start: int, rows: int) -> KeptAnswer:
        spreads = None
        if self.spreads is not None:
            spreads = {
                i: dataclasses.replace(s, origin=s.origin[start : start + rows]) for i, s in self.spreads.items()
            }
        bars = dataclasses.replace(self.bars, numbers=self.bars.numbers.slice(start, rows))
        return dataclasses.replace(self, table=self.table.slice(start, rows), bars=bars, spreads=spreads)


# ---- writing ---------------------------------------------------------------------------------------------------------


def to_bytes(answer: KeptAnswer) -> bytes:
    """The bytes of an answer; the same answer gives the same bytes."""
    said = {
        "promise": answer.promise,
        "epsilon": str(answer.epsilon),
        "delta": str(answer.delta),
        "level": str(answer.level),
        "private": answer.private,
        "notes": list(answer.notes),
        "drawn": {str(i): widened for i, widened in answer.bars.drawn.items()},
        "columns": {str(i): [_copied(each) for each in found] for i, found in answer.bars.columns.items()},
        "spreads": _spreads(answer.spreads),
    }
    text = json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode()
    parts = (text, _stream(answer.table), _stream(answer.bars.numbers))
    return MAGIC + b"".join(len(part).to_bytes(8, "big") + part for part in parts)


def _stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return bytes(sink.getvalue())


def _copied(source: CopiedAggregate) -> dict[str, Any]:
    return {
        "aggregate": _data(source.aggregate),
        "numbers": list(source.numbers),
        "classes": [[_taken(each) for each in taken] for taken in source.classes],
        "widenings": [_data(each) for each in source.widenings],
        "levels": list(source.levels),
    }


def _taken(reading: NoisyMeasure) -> dict[str, Any]:
    return {name: _data(getattr(reading, name)) for name in ("measure", "noise", "grid", "bounds", "steps")}


def _spreads(spreads: Mapping[int, CopiedSpread] | None) -> Any:
    if spreads is None:
        return None
    return {str(i): _data(spread) for i, spread in spreads.items()}


def _data(value: Any) -> Any:
    """A public parameter as JSON: numbers, names, and objects of the classes listed above."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Fraction):
        return {"fraction": str(value)}
    if isinstance(value, tuple):
        return {"tuple": [_data(item) for item in value]}
    if isinstance(value, _classes().get(type(value).__name__, ())):
        fields = {f.name: _field(value, f.name) for f in dataclasses.fields(value) if f.name not in _LEFT_OUT}
        return {"class": type(value).__name__, "fields": fields}
    raise InternalError(f"{type(value).__name__} is not part of an answer")


def _field(value: Any, name: str) -> Any:
    """A field of an object; of what an aggregate is about only the type is kept, which its intervals depend on."""
    found = getattr(value, name)
    if name == "argument":
        return None if found is None else {"type": [found.type.kind.value, found.type.precision, found.type.scale]}
    return _data(found)


# ---- reading ---------------------------------------------------------------------------------------------------------


def from_bytes(data: bytes) -> KeptAnswer:
    """The answer that was written; E_USAGE for anything else."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise ShoalError("E_USAGE", "An answer is read from bytes.")
    try:
        return _read(bytes(data))
    except (ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError, ArithmeticError):
        pass
    except (pa.ArrowException, OSError, InternalError, ShoalError):
        pass
    raise ShoalError(
        "E_USAGE",
        "These are not the bytes of an answer.",
        hint="Result.to_bytes makes them; a newer shoal may write what this one cannot read.",
    )


def _read(data: bytes) -> KeptAnswer:
    _require(data.startswith(MAGIC))
    parts, rest = [], memoryview(data)[len(MAGIC) :]
    for _ in range(3):
        size = int.from_bytes(rest[:8], "big")
        _require(len(rest) >= 8 + size)
        parts.append(bytes(rest[8 : 8 + size]))
        rest = rest[8 + size :]
    _require(not rest)
    said, table, numbers = json.loads(parts[0]), _table(parts[1]), _table(parts[2])
    _require(isinstance(said, dict) and said.keys() == _FIELDS)
    _require(isinstance(said["promise"], str) and isinstance(said["private"], bool))
    _require(isinstance(said["notes"], list) and all(isinstance(note, str) for note in said["notes"]))
    columns = {int(i): tuple(map(_read_copied, found)) for i, found in said["columns"].items()}
    _require(all(0 <= index < table.num_columns for index in columns))
    _require(not numbers.num_columns or numbers.num_rows == table.num_rows)
    drawn = {int(i): widened for i, widened in said["drawn"].items()}
    _require(all(isinstance(widened, bool) and 0 <= i < table.num_columns for i, widened in drawn.items()))
    bars = ErrorBars(numbers, columns, drawn)
    answer = KeptAnswer(
        table,
        said["promise"],
        _fraction(said["epsilon"]),
        _fraction(said["delta"]),
        _fraction(said["level"]),
        said["private"],
        tuple(said["notes"]),
        bars,
        _read_spreads(said["spreads"], table),
    )
    _require(answer.epsilon >= 0 and 0 <= answer.delta <= 1 and 0 < answer.level < 1)
    for part in answer.parts():
        for index in (*columns, *drawn):
            part.bars.interval(index, part.table, float(answer.level))
    return answer


def _require(condition: bool) -> None:
    if not condition:
        raise ValueError


def _fraction(text: Any) -> Fraction:
    """As `str` writes it: an exponent could mean a billion digits."""
    _require(isinstance(text, str) and _FRACTION.fullmatch(text) is not None)
    return Fraction(text)


def _table(stream: bytes) -> pa.Table:
    source = pa.BufferReader(stream)
    table = pa.ipc.open_stream(source).read_all()
    _require(source.tell() == len(stream))
    table.validate(full=True)
    return table


def _read_copied(data: Any) -> CopiedAggregate:
    _require(data.keys() == {"aggregate", "numbers", "classes", "widenings", "levels"})
    aggregate = _value(data["aggregate"])
    _require(isinstance(aggregate, AGGREGATES))
    _require(all(isinstance(name, str) for name in data["numbers"]) and bool(data["numbers"]))
    classes = tuple(tuple(map(_read_taken, taken)) for taken in data["classes"])
    widenings = tuple(_value(each) for each in data["widenings"])
    _require(all(isinstance(each, Widening) for each in widenings) and len(widenings) == len(classes))
    levels = tuple(data["levels"])
    _require(all(isinstance(level, float) and 0 < level < 1 for level in levels))
    return CopiedAggregate(aggregate, tuple(data["numbers"]), classes, widenings, levels)


def _read_taken(data: Any) -> NoisyMeasure:
    _require(data.keys() == {"measure", "noise", "grid", "bounds", "steps"})
    measure, noise, grid, bounds, steps = (
        _value(data[name]) for name in ("measure", "noise", "grid", "bounds", "steps")
    )
    _require(isinstance(measure, get_args(Measure)) and isinstance(noise, get_args(Randomised)))
    _require(isinstance(grid, Fraction) and isinstance(bounds, Bounds | None) and isinstance(steps, Steps | None))
    return NoisyMeasure(measure, noise, grid, bounds, steps, np.array(NO_VALUES))


@cache
def _classes() -> dict[str, Any]:
    """What may be in the bytes: public parameters of a release."""
    # only answers under a policy need this, so it is loaded when one is read
    from shoal.policies.answers import PrefixNoise
    from shoal.release.policy_clause.intervals import CopiedSpread, OneDraw, QuantileSpread, Ratio

    kinds = (
        *AGGREGATES,
        *get_args(Measure),
        *get_args(Randomised),
        RankTarget,
        Shift,
        Bounds,
        Steps,
        Widening,
        Tail,
    )
    return {kind.__name__: kind for kind in (*kinds, CopiedSpread, OneDraw, Ratio, QuantileSpread, PrefixNoise)}


def _value(data: Any) -> Any:
    if data is None or isinstance(data, bool | int | float | str):
        return data
    if data.keys() == {"fraction"}:
        return _fraction(data["fraction"])
    if data.keys() == {"tuple"}:
        return tuple(_value(item) for item in data["tuple"])
    if data.keys() == {"type"}:
        kind, precision, scale = data["type"]
        return Literal(None, Type(Kind(kind), precision, scale))
    _require(data.keys() == {"class", "fields"})
    return _classes()[data["class"]](**{name: _value(found) for name, found in data["fields"].items()})


def _read_spreads(data: Any, table: pa.Table) -> dict[int, CopiedSpread] | None:
    if data is None:
        return None
    from shoal.release.policy_clause.intervals import CopiedSpread

    found = {int(i): _value(spread) for i, spread in data.items()}
    for index, spread in found.items():
        _require(isinstance(spread, CopiedSpread) and 0 <= index < table.num_columns)
        spread.interval(table.column(index).to_pylist(), 0.5)
    return found
