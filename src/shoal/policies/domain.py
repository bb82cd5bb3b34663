"""The domain T: every value a record may take, as a product of attributes.

Values are counted row by row, the last attribute fastest, so that a value of T is one integer below `size`.

    >>> domain = Domain({"age": range(0, 101), "ward": ["A", "B"]})
    >>> domain.size, domain.index((30, "B"))
    (202, 61)
    >>> domain.record(61)
    (30, 'B')
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from shoal.errors import InternalError, ShoalError
from shoal.frozen import dataclass

Indices = npt.NDArray[np.int64]

LARGEST_TABLE = 1 << 20
"""How many values of a domain may be looked at one by one."""
LARGEST_VALUE = 1 << 53
"""Ends of an ordered attribute stay where a double counts in ones."""


def usage(message: str, hint: str | None = None) -> ShoalError:
    """A wrong argument, before anything was read."""
    return ShoalError("E_USAGE", message, hint=hint)


@dataclass(frozen=True, slots=True)
class Attribute:
    """A part of every record: whole numbers in order (a range), or a list of values without one."""

    name: str
    values: range | tuple[Any, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise usage("The name of an attribute is text.")
        if not self.values:
            raise usage(f"The attribute {self.name!r} has no values.")
        if isinstance(self.values, range):
            self._check_range(self.values)
        else:
            self._check_list(self.values)

    def _check_range(self, values: range) -> None:
        if values.step != 1:
            raise usage(f"The attribute {self.name!r} is a range of step 1: whole numbers in order.")
        if max(abs(values.start), abs(values.stop)) > LARGEST_VALUE:
            raise ShoalError("E_LIMITS", f"The attribute {self.name!r} goes beyond 2^53.")

    def _check_list(self, values: tuple[Any, ...]) -> None:
        if not all(isinstance(value, str | int) for value in values):
            raise usage(
                f"The attribute {self.name!r} lists values that are neither text nor whole numbers.",
                "Ordered whole numbers are a range, as in range(0, 101).",
            )
        if len({(type(value), value) for value in values}) < len(values) or len({type(v) for v in values}) > 1:
            raise usage(f"The attribute {self.name!r} lists a value twice, or values of several types.")

    @property
    def ordered(self) -> bool:
        """Whether its values are whole numbers in order."""
        return isinstance(self.values, range)

    @property
    def size(self) -> int:
        """How many values it has."""
        return len(self.values)

    def position(self, value: object) -> int:
        """Where a value is; one that is not there is refused."""
        if isinstance(value, np.generic):
            value = value.item()
        if not isinstance(value, str | int) or (isinstance(value, bool) != isinstance(self.values[0], bool)):
            raise self._unknown(value)
        try:
            return self.values.index(value) if isinstance(self.values, tuple) else self.values.index(int(value))
        except ValueError:
            raise self._unknown(value) from None

    def _unknown(self, value: object) -> ShoalError:
        shown = repr(value)[:60]
        hint = f"Its values are {self.described}."
        return usage(f"{shown} is not a value of the attribute {self.name!r}.", hint)

    @property
    def described(self) -> str:
        """The values in a few words."""
        if isinstance(self.values, range):
            return f"{self.values[0]} to {self.values[-1]}"
        listed = ", ".join(map(str, self.values[:6]))
        return listed if self.size <= 6 else f"{listed}, … ({self.size} in all)"


@dataclass(frozen=True, init=False)
class Domain:
    """All values of a record: a mapping of attribute → range of whole numbers, or list of values."""

    attributes: tuple[Attribute, ...]

    def __init__(self, attributes: Mapping[str, range | Sequence[Any]]) -> None:
        if not isinstance(attributes, Mapping) or not attributes:
            raise usage("A domain is a mapping of attribute to values.", 'Domain({"age": range(0, 101)})')
        listed = tuple(Attribute(name, _values(name, values)) for name, values in attributes.items())
        object.__setattr__(self, "attributes", listed)

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes' names, in order."""
        return tuple(attribute.name for attribute in self.attributes)

    @property
    def shape(self) -> tuple[int, ...]:
        """How many values each attribute has."""
        return tuple(attribute.size for attribute in self.attributes)

    @property
    def size(self) -> int:
        """How many values there are."""
        return math.prod(self.shape)

    def attribute(self, name: str) -> Attribute:
        """The attribute of that name."""
        for attribute in self.attributes:
            if attribute.name == name:
                return attribute
        raise usage(f"The domain has no attribute {name!r}.", f"Its attributes: {', '.join(self.names)}.")

    def axis(self, name: str) -> int:
        """Where the attribute of that name is."""
        return self.attributes.index(self.attribute(name))

    def ordered(self, name: str) -> Attribute:
        """The ordered attribute of that name."""
        attribute = self.attribute(name)
        if not attribute.ordered:
            raise usage(f"The attribute {name!r} is a list without order.", "Give a range of whole numbers.")
        return attribute

    def projected(self, names: Sequence[str]) -> Domain:
        """The domain of these attributes alone, in the order of this one."""
        kept = [attribute for attribute in self.attributes if attribute.name in names]
        return Domain({attribute.name: attribute.values for attribute in kept})

    def require_enumerable(self) -> Domain:
        """Itself, where its values can be looked at one by one."""
        if self.size > LARGEST_TABLE:
            raise ShoalError(
                "E_LIMITS",
                f"The domain of {', '.join(self.names)} has more than 2^20 values.",
                hint="Ask about fewer attributes, or make their ranges coarser.",
            )
        return self

    # ---- values --------------------------------------------------------------------------------------------------

    def positions(self, record: object) -> tuple[int, ...]:
        """A record (a tuple, a dict, or the plain value of a single attribute) as positions in its attributes."""
        values = self._parts(record)
        return tuple(attribute.position(value) for attribute, value in zip(self.attributes, values, strict=True))

    def _parts(self, record: object) -> tuple[object, ...]:
        if isinstance(record, Mapping):
            if set(record) != set(self.names):
                raise usage(f"A record names the attributes {', '.join(self.names)}.")
            return tuple(record[name] for name in self.names)
        if isinstance(record, tuple | list):
            if len(record) != len(self.attributes):
                raise usage(f"A record has {len(self.attributes)} values: {', '.join(self.names)}.")
            return tuple(record)
        if len(self.attributes) > 1:
            raise usage(f"A record is a tuple of {', '.join(self.names)}.")
        return (record,)

    def index(self, record: object) -> int:
        """The number of a value."""
        return int(np.ravel_multi_index(self.positions(record), self.shape))

    def values_at(self, positions: Sequence[int]) -> tuple[Any, ...]:
        """The values at these positions."""
        return tuple(attribute.values[int(p)] for attribute, p in zip(self.attributes, positions, strict=True))

    def record(self, index: int) -> tuple[Any, ...]:
        """The value of this number, as a tuple."""
        return self.values_at(np.unravel_index(index, self.shape))  # type: ignore[arg-type]

    def plain(self, record: tuple[Any, ...]) -> Any:
        """A record as people write it: the bare value where there is one attribute only."""
        return record[0] if len(self.attributes) == 1 else record

    @cached_property
    def grid(self) -> tuple[Indices, ...]:
        """For every value of T, its position in each attribute."""
        self.require_enumerable()
        return tuple(np.asarray(axis).ravel() for axis in np.indices(self.shape, dtype=np.int64))

    def labels(self, names: Sequence[str]) -> Indices:
        """For every value of T, the number of its part in the domain of these attributes."""
        self.require_enumerable()
        kept = [axis for axis, attribute in enumerate(self.attributes) if attribute.name in names]
        if not kept:
            return np.zeros(self.size, dtype=np.int64)
        shape = [self.shape[axis] for axis in kept]
        return np.ravel_multi_index([self.grid[axis] for axis in kept], shape).astype(np.int64)

    def to_dict(self) -> dict[str, Any]:
        """The domain as the catalog writes it: [low, high], or a list of values."""
        return {a.name: _written(a) for a in self.attributes}

    @classmethod
    def from_dict(cls, written: Mapping[str, Any]) -> Domain:
        """Reads what `to_dict` and the catalog write."""
        if not isinstance(written, Mapping) or not written:
            raise usage("A domain names attributes with their values.")
        return cls({name: _read(name, values) for name, values in written.items()})


def _values(name: str, values: object) -> range | tuple[Any, ...]:
    if isinstance(values, range):
        return values
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise usage(f"The values of {name!r} are a range or a list.", "range(0, 101), or ['A', 'B'].")
    return tuple(values)


def _written(attribute: Attribute) -> list[Any]:
    if isinstance(attribute.values, range):
        return [attribute.values[0], attribute.values[-1]]
    if all(isinstance(value, str) for value in attribute.values):
        return list(attribute.values)
    return [{"value": value} for value in attribute.values]


def _read(name: str, values: object) -> range | tuple[Any, ...]:
    if not isinstance(values, list | tuple):
        raise usage(f"The values of {name!r} are [low, high] or a list of strings.")
    if len(values) == 2 and all(isinstance(v, int) and not isinstance(v, bool) for v in values):
        low, high = values
        if low > high:
            raise usage(f"The values of {name!r} are [low, high] with low ≤ high.")
        return range(low, high + 1)
    if all(isinstance(value, str) for value in values):
        return tuple(values)
    if all(isinstance(value, dict) and set(value) == {"value"} for value in values):
        return tuple(value["value"] for value in values)
    raise usage(f"The values of {name!r} are [low, high] of whole numbers, or a list of strings.")


def require(condition: bool, sentence: str) -> None:
    """A bug of ours where it does not hold."""
    if not condition:
        raise InternalError(sentence)
