"""Whatever a mechanism returns, as numbers and labels: the space in which events are chosen.

A sample becomes a row of numbers plus a label. The numbers are its numeric cells; the label names everything else
about it: its strings, its missing cells, the exception it raised. Two samples with equal numbers and labels are the
same output.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable
from dataclasses import field
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.errors import ShoalError
from shoal.frozen import dataclass

if TYPE_CHECKING:
    from numpy.typing import NDArray

_NUMBERS = (int, float, np.number, np.bool_, Fraction, Decimal)
_SINGLE_CALLS = 1000


@dataclass(slots=True)
class Vocabulary:
    """Labels met so far; a label keeps its code for the whole run."""

    codes: dict[Hashable, int] = field(default_factory=dict)

    def code(self, label: Hashable) -> int:
        """The code of a label, new if it was never met."""
        return self.codes.setdefault(label, len(self.codes))

    def codes_of(self, labels: Iterable[Hashable]) -> NDArray[np.int64]:
        """The codes of many labels."""
        return np.array([self.code(label) for label in labels], dtype=np.int64)

    def text(self, code: int) -> str:
        """A label as a person reads it."""
        return str(list(self.codes)[code])


@dataclass(frozen=True, slots=True)
class Outcomes:
    """n samples: `numbers` of shape (n, columns), NaN where a cell is not a number, and one label code a row."""

    numbers: NDArray[np.float64]
    labels: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.labels)

    def rows(self, chosen: slice | NDArray[np.int64]) -> Outcomes:
        """Some of the samples."""
        return Outcomes(self.numbers[chosen], self.labels[chosen])

    def widened(self, columns: int) -> Outcomes:
        """The same samples with room for more columns, all undefined."""
        missing = columns - self.numbers.shape[1]
        if missing <= 0:
            return self
        return Outcomes(np.pad(self.numbers, ((0, 0), (0, missing)), constant_values=np.nan), self.labels)


def run_mechanism(mechanism: Callable[[Any, int], Any], dataset: Any, samples: int, vocabulary: Vocabulary) -> Outcomes:
    """Draw n outputs of the mechanism. Raising is an output.

    A call that raises says nothing about how often one output would fail, so it is followed by up to 1000 calls for a
    single sample each, and those are the sample: a smaller one, and honest whether the failure is certain or a matter
    of chance.
    """
    try:
        returned = mechanism(_fresh(dataset), samples)
    except Exception:  # noqa: BLE001 - whatever the mechanism raises is one of its outputs
        return _run_singly(mechanism, dataset, min(samples, _SINGLE_CALLS), vocabulary)
    return encode(returned, samples, vocabulary)


def _run_singly(mechanism: Callable[[Any, int], Any], dataset: Any, calls: int, vocabulary: Vocabulary) -> Outcomes:
    outcomes = []
    for _ in range(calls):
        try:
            returned = mechanism(_fresh(dataset), 1)
        except Exception as error:  # noqa: BLE001 - same
            label = vocabulary.code(f"raised {type(error).__name__}: {error}")
            outcomes.append(Outcomes(np.full((1, 1), np.nan), np.array([label])))
        else:
            outcomes.append(encode(returned, 1, vocabulary))
    columns = max(single.numbers.shape[1] for single in outcomes)
    outcomes = [single.widened(columns) for single in outcomes]
    return Outcomes(np.concatenate([o.numbers for o in outcomes]), np.concatenate([o.labels for o in outcomes]))


def _fresh(dataset: Any) -> Any:
    """A fresh list for each call, so that a mechanism that sorts in place disturbs nobody."""
    return list(dataset) if isinstance(dataset, list) else dataset


def encode(samples: Any, expected: int, vocabulary: Vocabulary) -> Outcomes:
    """Samples of any supported shape as outcomes: numbers, rows, strings, None, or a mixture."""
    array = _as_array(samples)
    if array.ndim == 0 or len(array) != expected:
        found = "a single value" if array.ndim == 0 else f"{len(array)} samples"
        raise ShoalError(
            "E_USAGE",
            f"The mechanism was asked for {expected} samples and returned {found}.",
            hint="mechanism(dataset, n) returns an array with n entries: numbers, rows, strings or None.",
        )
    columns = [_encode_column(column) for column in _columns(array)]
    if not columns:
        return Outcomes(np.full((expected, 1), np.nan), np.full(expected, vocabulary.code("an empty row")))
    return Outcomes(np.column_stack([column.numbers for column in columns]), _label_rows(columns, vocabulary))


def _as_array(samples: Any) -> NDArray[Any]:
    if isinstance(samples, np.ndarray) or hasattr(samples, "__array__"):
        return np.asarray(samples)
    if isinstance(samples, (str, bytes, dict)) or not isinstance(samples, Iterable):
        return np.array(None, dtype=object)
    return np.fromiter(samples, dtype=object)


_ROWS = {tuple, list, np.ndarray}


class _NoCell:
    """Stands where a row is shorter than the longest."""

    def __repr__(self) -> str:
        return "no cell"


_NO_CELL = _NoCell()


def _columns(array: NDArray[Any]) -> list[NDArray[Any]]:
    """The columns of the samples' rows: one for plain values, one a field or position for rows."""
    if array.dtype.names:
        return [array[name] for name in array.dtype.names]
    if array.ndim > 1:
        flat = array.reshape(len(array), -1)
        return [flat[:, i] for i in range(flat.shape[1])]
    if array.dtype == object and _ROWS & set(map(type, array)):
        rows = [tuple(row) if type(row) in _ROWS else (row,) for row in array]
        transposed = itertools.zip_longest(*rows, fillvalue=_NO_CELL)
        return [np.fromiter(column, dtype=object, count=len(rows)) for column in transposed]
    return [array]


@dataclass(frozen=True, slots=True)
class _Column:
    """Numbers (NaN elsewhere), and for each row which of `names` it carries; names[0] = "·" stands for a number."""

    numbers: NDArray[np.float64]
    codes: NDArray[np.int64]
    names: list[str]


def _encode_column(column: NDArray[Any]) -> _Column:
    if column.dtype.kind in "biuf":
        numbers = column.astype(np.float64)
        return _Column(numbers, np.isnan(numbers).astype(np.int64), ["·", "nan"])
    if column.dtype.kind in "mM":
        return _encode_column(column.astype(np.int64))
    if column.dtype.kind == "O":
        return _encode_objects(column)
    values, codes = np.unique(column, return_inverse=True)
    return _Column(np.full(len(column), np.nan), codes + 1, ["·", *(repr(value.item()) for value in values)])


def _encode_objects(column: NDArray[Any]) -> _Column:
    """Type by type: numbers of one type are converted at once, anything else is known by its repr."""
    numbers = np.full(len(column), np.nan)
    codes = np.zeros(len(column), dtype=np.int64)
    names = ["·", "nan"]
    kinds: dict[type, int] = {}
    kind_of = np.fromiter((kinds.setdefault(type(cell), len(kinds)) for cell in column), np.int64, len(column))
    for kind, position in kinds.items():
        here = kind_of == position
        if issubclass(kind, _NUMBERS):
            numbers[here] = column[here].astype(np.float64)
            codes[here] = np.isnan(numbers[here])
        else:
            texts, inverse = _distinct([repr(cell) for cell in column[here]])
            codes[here] = inverse + len(names)
            names += texts
    return _Column(numbers, codes, names)


def _distinct(texts: list[str]) -> tuple[list[str], NDArray[np.int64]]:
    positions: dict[str, int] = {}
    inverse = np.array([positions.setdefault(text, len(positions)) for text in texts], dtype=np.int64)
    return list(positions), inverse


def _label_rows(columns: list[_Column], vocabulary: Vocabulary) -> NDArray[np.int64]:
    """One label code a row, for what is not a number in any of its columns."""
    combined = np.zeros(len(columns[0].codes), dtype=np.int64)
    for column in columns:
        if column.codes.any():
            _, combined = np.unique(combined * len(column.names) + column.codes, return_inverse=True)
    _, first = np.unique(combined, return_index=True)
    names = [_row_name([column.names[column.codes[i]] for column in columns]) for i in first]
    return vocabulary.codes_of(names)[combined]


def _row_name(cells: list[str]) -> str:
    if all(cell == "·" for cell in cells):
        return "a number" if len(cells) == 1 else f"{len(cells)} numbers"
    return cells[0] if len(cells) == 1 else "(" + ", ".join(cells) + ")"
