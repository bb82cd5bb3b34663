"""The published table: quasi-identifiers recoded, sensitive columns, columns kept; rows sorted by what is published."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from shoal.anonymity.hierarchies.values import Kind, kind_of
from shoal.anonymity.measuring.rows import Column, Rows
from shoal.anonymity.measuring.tuples import Tuples
from shoal.errors import ShoalError
from shoal.frozen import dataclass
from shoal.mechanisms.entropy import SYSTEM

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Integers = NDArray[np.int64]
    Mask = NDArray[np.bool_]

ENDINGS = (".csv", ".parquet", ".pq")


@dataclass(frozen=True, eq=False, slots=True)
class Labels:
    """What a column's cells become: distinct published values, and for each tuple which of them."""

    values: pa.Array
    of_tuple: Integers

    @classmethod
    def of_texts(cls, texts: Sequence[str | None], of_tuple: Integers) -> Labels:
        """Labels as text; equal strings are one label."""
        seen: dict[str | None, int] = {}
        number = np.array([seen.setdefault(text, len(seen)) for text in texts], dtype=np.int64)
        return cls(pa.array(list(seen), pa.string()), number[of_tuple])

    def column(self, name: str, chosen: Integers) -> Column:
        """As a column of combinations: values in order, NULL first, unused ones left out."""
        used = np.unique(self.of_tuple[chosen])
        values = self.values.take(pa.array(used))
        kind: Kind = kind_of(values.type)
        order = _order(values, kind)
        position = np.zeros(int(used.max(initial=0)) + 1, dtype=np.int64)
        position[used[order]] = np.arange(len(order))
        return Column(name, kind, values.take(pa.array(order)), position[self.of_tuple[chosen]])


def _order(values: pa.Array, kind: Kind) -> Integers:
    import pyarrow.compute as pc

    if kind == "text" and not pa.types.is_string(values.type):
        listed = values.to_pylist()
        return np.array(sorted(range(len(listed)), key=lambda at: (listed[at] is not None, str(listed[at]))), np.int64)
    return np.asarray(pc.array_sort_indices(values, null_placement="at_start"), dtype=np.int64)


def recoded_rows(rows: Rows, of_row: Integers, quasi: Sequence[str], labels: Sequence[Labels], kept: Mask) -> Rows:
    """The combinations that stay, with their quasi-identifiers recoded."""
    stays = kept[of_row]
    chosen = of_row[stays]
    rest = rows.where(stays)
    columns = {name: each.column(name, chosen) for name, each in zip(quasi, labels, strict=True)} | {
        name: column for name, column in rest.columns.items() if name not in quasi
    }
    return Rows(rows.table, columns, rest.owner, rest.count, rows.left_out)


def recoded_tuples(people: Tuples, labels: Sequence[Labels]) -> Tuples:
    """The population under the same labels; equal tuples need not be merged, classes are numbered anew."""
    everyone = np.arange(len(people.rows))
    columns = [each.column(column.name, everyone) for each, column in zip(labels, people.quasi, strict=True)]
    codes = np.stack([column.codes for column in columns], axis=1)
    return Tuples(tuple(columns), codes, people.rows, people.alone, people.pairs, people.owners, {}, people.of_row)


def published_table(rows: Rows, names: Sequence[str], owner: str | None) -> pa.Table:
    """The rows themselves, in the order of what they show; the owner, where wanted, as a random number."""
    columns = [rows.columns[name] for name in names]
    codes = [column.codes for column in columns]
    pseudonyms = None
    if owner is not None and rows.owner is not None:
        pseudonyms = _pseudonyms(rows.owner)
        codes.append(pseudonyms)
    order = np.lexsort(codes[::-1]) if len(rows.count) else np.zeros(0, dtype=np.int64)
    repeated = np.repeat(order, rows.count[order])
    arrays = [column.values.take(pa.array(column.codes[repeated])) for column in columns]
    if pseudonyms is not None:
        arrays.append(pa.array(pseudonyms[repeated]))
    return pa.table(arrays, names=[*names, *([] if pseudonyms is None else [str(owner)])])


def _pseudonyms(owner: Integers) -> Integers:
    """A random number from 1 for each owner: nothing of the old one is left in it."""
    distinct, position = np.unique(owner, return_inverse=True)
    return (SYSTEM.permutation(len(distinct)) + 1)[position]


def check_ending(path: str | Path) -> Path:
    """A place to write to, by its ending parquet or CSV."""
    target = Path(path)
    if target.suffix.lower() not in ENDINGS:
        raise ShoalError("E_USAGE", f"The output {str(path)!r} is neither .parquet nor .csv.", hint="-o out.parquet")
    return target


def write_table(table: pa.Table, path: str | Path) -> None:
    """Write a table beside its place and move it there whole."""
    target = check_ending(path)
    try:
        beside = target.with_name(f".{target.name}.{SYSTEM.bytes(8).hex()}")
        try:
            _write(table, beside, csv=target.suffix.lower() == ".csv")
            beside.replace(target)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise ShoalError(
            "E_USAGE", f"The output {str(path)!r} was not written: {error.strerror or 'the system refused'}."
        ) from None


def _write(table: pa.Table, path: Path, *, csv: bool) -> None:
    if csv:
        from pyarrow import csv as arrow_csv

        arrow_csv.write_csv(table, path)
    else:
        import pyarrow.parquet as pq

        pq.write_table(table, path)
