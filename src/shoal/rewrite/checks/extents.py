"""How far one private row reaches: the rows it becomes, the bytes of their strings, and the time that all of it may take.

`check_fanout` says what these bounds are for. Sizes, repeats and strings of public tables are known (`PublicFacts`); rows that
an earlier SELECT released have the size that is assumed of them, which holds when they are read.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import field, replace
from typing import TYPE_CHECKING

from shoal.frozen import dataclass
from shoal.plan import nodes
from shoal.plan.expressions import Call, Column, WindowCall, columns_of, walk
from shoal.plan.nodes import OwnerShare
from shoal.plan.traverse import expressions_of, relations_in
from shoal.plan.types import Kind
from shoal.rewrite.check_windows import read_values
from shoal.rewrite.checks.row_work import (
    COMPUTED,
    GROUPED,
    GROUPED_COLUMN,
    SORTED_COLUMN,
    STORED_TEXT,
    held_texts,
    longest_of,
    longest_text,
    nanoseconds,
    text_work,
)
from shoal.sql.functions.forms import LONGEST_TEXT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from shoal.plan.expressions import Expression
    from shoal.plan.nodes import Node
    from shoal.plan.public_facts import PublicFacts
    from shoal.plan.releases import PrivateSelect

MAX_FANOUT = 10**7
"""How many rows one private row may become, and how many pairs may be examined for it."""
MAX_PUBLIC_ROWS = 10**9
"""How many rows a public relation inside a private query may have."""
MAX_TEXT_BYTES = 1 << 24
"""How many bytes of computed strings one private row may become."""
MAX_TEXT_WORK = 1 << 27
"""How many bytes of long strings functions may examine for one private row; some take longer than ten nanoseconds per byte."""
LONG_TEXT = 1 << 12
"""Shorter ones do not count: they take no longer than other values."""
MAX_PUBLIC_TEXT_WORK, LONG_PUBLIC_TEXT = 1 << 31, 1 << 15
"""The same for public relations inside a private query, which an engine does not compute if no private row meets them."""
MAX_FANOUT_OF_JOINED_OWNERS = 100
"""The same where several private tables multiply each other already, each by the rows of one owner."""
MOST_STORED_ROWS = 10**5
"""How many rows of an earlier SELECT a private one may read: they are written out, which takes time for each."""
STORED_TEXT_OF_JOINED_OWNERS = 4096
"""The longest string where private tables multiply each other."""
MAX_NANOSECONDS = 10**11
"""How long the expressions of a query may take for one private row and all that it becomes, by their worst measured times: a
third of a query's processor time."""
MAX_PUBLIC_NANOSECONDS = 4 * MAX_NANOSECONDS
"""The same for public relations inside a private query, whose strings are seldom as long as assumed."""
MAX_OWNER_BYTES = 1 << 30
"""How many bytes of strings all rows of one owner may have, where joins repeat them; and of rows that are grouped or sorted."""
VALUE_BYTES = 16
"""A number, a date or the place of a string, in a row that an engine keeps until all rows are there."""


@dataclass(frozen=True, slots=True)
class Extent:
    """`rows` of a public relation, or of one combination of private rows; how many private tables multiply; bytes of strings."""

    rows: int
    repeats: Mapping[str, int] = field(default_factory=dict)
    texts: Mapping[str, int] = field(default_factory=dict)
    private_tables: int = 0

    def sharing(self, symbol: str) -> int:
        """The most rows that share a value of a column."""
        return min(self.rows, self.repeats.get(symbol, self.rows))


@dataclass(frozen=True, slots=True)
class Released:
    """What is known when planning about the rows of a SELECT: how many there are, if that is public, and their keys.

    Keys that are strings have the bytes of the longest one if functions made it or it is public, else 0.
    """

    keys: Mapping[str, int]
    rows: int | None


@dataclass(frozen=True, slots=True)
class Assumed:
    """How many rows an earlier SELECT has released at most, and how long its strings are, where nobody can know that yet."""

    rows: int
    text: int


class TooMuchError(Exception):
    """One private row would become too much of something."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what


class Extents:
    """Extents of a tree, each shared part once. Public strings are read up to `public_texts` bytes."""

    def __init__(
        self, facts: PublicFacts, released: Sequence[Released], assumed: Assumed, public_texts: int = STORED_TEXT
    ) -> None:
        self._facts = facts
        self._released = released
        self._assumed = assumed
        self._public_texts = public_texts
        self._known: dict[int, Extent] = {}
        self._private: dict[int, bool] = {}
        self._pairs: dict[int, int] = {}
        self._times: dict[int, tuple[int, int]] = {}
        self._most_rows_of_one = 1
        self._most_held = 0
        self._most_kept = 1
        self._most_tables = 0

    @property
    def longest_text(self) -> int:
        """How long a stored string may be, so that all copies of it stay within the bound for strings."""
        longest = LONGEST_TEXT if self._most_tables <= 1 else STORED_TEXT_OF_JOINED_OWNERS
        return max(STORED_TEXT, min(longest, MAX_TEXT_BYTES // self._most_rows_of_one))

    def is_private(self, node: Node) -> bool:
        """Whether private rows decide about a relation."""
        if id(node) not in self._private:
            inside = [relation for value in expressions_of(node) for relation in relations_in(value)]
            below = [*nodes.inputs(node), *inside]
            own = isinstance(node, nodes.Scan) and node.owner is not None
            self._private[id(node)] = own or any(map(self.is_private, below))
        return self._private[id(node)]

    def check_keys(self, select: PrivateSelect) -> None:
        """What a SELECT reads, the strings it groups by, and those it computes on the way."""
        found = self._with_relations(self.of(select.input), read_values(select))
        self._check_work(found, read_values(select), private=True)
        for _, key in select.keys:
            if key.type.kind is Kind.TEXT and found.rows * longest_text(key, found.texts) > MAX_TEXT_BYTES:
                raise TooMuchError("bytes")
        self._check_held(found.rows, longest_of(read_values(select), found.texts))
        self._check_kept(found.rows, len(read_values(select)) + 1)

    def released(self, select: PrivateSelect) -> Released:
        """What later SELECTs may know of the rows of this one."""
        found = self._with_relations(self.of(select.input), [value for _, value in select.keys])
        keys = {f.symbol: _long(longest_of([value], found.texts)) for f, value in select.keys}
        listed = select.public_groups
        return Released(keys, self.of(listed).rows if listed is not None else None if keys else 1)

    def check_time(self, select: PrivateSelect, selects: int) -> None:
        """How long all expressions of a SELECT may take, if a statement has several SELECTs."""
        private, public = self._time_of(select)
        if private > MAX_NANOSECONDS // selects or public > MAX_PUBLIC_NANOSECONDS // selects:
            raise TooMuchError("computations")

    def _time_of(self, select: PrivateSelect) -> tuple[int, int]:
        """Nanoseconds for private and for public rows; what is read is grouped by owner."""
        found = self._with_relations(self.of(select.input), read_values(select))
        private, public = self._times[id(select.input)]
        each = GROUPED + sum(GROUPED_COLUMN + nanoseconds(value, found.texts) for value in read_values(select))
        return private + found.rows * each, public

    def owner_share(self, select: PrivateSelect, selects: int) -> OwnerShare:
        """How many rows one owner may have, so that together they stay within a query's limits; at least one."""
        rows = min(MAX_NANOSECONDS // selects // self._time_of(select)[0], MAX_OWNER_BYTES // self._most_kept)
        if self._most_held:
            rows = min(rows, MAX_OWNER_BYTES // self._most_held)
        return OwnerShare(rows, self._most_rows_of_one)

    def _with_relations(self, below: Extent, values: Sequence[Expression]) -> Extent:
        """The rows that values are computed for, with the strings that relations inside them yield."""
        inside = [self.of(relation) for value in values for relation in relations_in(value)]
        texts = {symbol: size for part in inside for symbol, size in part.texts.items()}
        return replace(below, texts={**below.texts, **texts}) if texts else below

    def _check_held(self, rows: int, size: int) -> None:
        """Computed strings that an engine keeps for all rows; stored ones get shorter as their rows multiply."""
        if size <= STORED_TEXT:
            return
        if rows * size > MAX_TEXT_BYTES:
            raise TooMuchError("bytes")
        self._most_held = max(self._most_held, rows * size)

    def _check_kept(self, rows: int, columns: int) -> None:
        """Rows that an engine keeps until it has seen all of them, on a disk where memory is short."""
        if rows * columns * VALUE_BYTES > MAX_OWNER_BYTES:
            raise TooMuchError("bytes")
        self._most_kept = max(self._most_kept, rows * columns * VALUE_BYTES)

    @staticmethod
    def _check_work(below: Extent, values: Sequence[Expression], *, private: bool) -> None:
        long, most = (LONG_TEXT, MAX_TEXT_WORK) if private else (LONG_PUBLIC_TEXT, MAX_PUBLIC_TEXT_WORK)
        if below.rows * sum(text_work(value, below.texts, long) for value in values) > most:
            raise TooMuchError("bytes")

    def of(self, node: Node) -> Extent:
        """The extent of a relation; one that is too large is refused on the way."""
        if id(node) not in self._known:
            for value in expressions_of(node):
                for relation in relations_in(value):
                    self.of(relation)
            found = self._found(node)
            if found.rows > self._most_rows(node, found):
                raise TooMuchError("rows")
            if found.rows * max(found.texts.values(), default=0) > MAX_TEXT_BYTES and self.is_private(node):
                raise TooMuchError("bytes")
            read = self._evaluated_on(node)
            self._check_work(read, expressions_of(node), private=self.is_private(node))
            if self.is_private(node):
                self._check_held(read.rows, _held(node, read))
                self._check_kept(max(read.rows, found.rows), _kept_columns(node))
                if isinstance(node, nodes.Join):
                    self._check_joined_by(node, read)
                self._most_rows_of_one = max(self._most_rows_of_one, found.rows)
                self._most_tables = max(self._most_tables, found.private_tables)
            self._known[id(node)] = found
            self._times[id(node)] = self._time(node, found, read)
        return self._known[id(node)]

    def _time(self, node: Node, found: Extent, read: Extent) -> tuple[int, int]:
        """Nanoseconds for private and for public rows, with everything below; shared parts count each time they are used."""
        compared = isinstance(node, nodes.Aggregate | nodes.Distinct | nodes.SetOperation)
        each = (GROUPED if compared else COMPUTED) + sum(nanoseconds(v, read.texts) for v in expressions_of(node))
        each += (GROUPED_COLUMN if compared else SORTED_COLUMN * len(_windows(node))) * _kept_columns(node)
        own = max(read.rows, found.rows) * each
        inside = [relation for value in expressions_of(node) for relation in relations_in(value)]
        below = [self._times[id(part)] for part in (*nodes.inputs(node), *inside)]
        private, public = sum(time for time, _ in below), sum(time for _, time in below)
        return (private + own, public) if self.is_private(node) else (private, public + own)

    def _check_joined_by(self, node: nodes.Join, read: Extent) -> None:
        """Computed strings that an engine keeps for all rows of one side of a join."""
        for side in (node.left, node.right):
            here = {f.symbol for f in side.fields}
            size = longest_of((c for c in _calls(node.condition) if columns_of(c) <= here), read.texts)
            if self.is_private(side):
                self._check_held(self.of(side).rows, size)
            elif size > STORED_TEXT and self.of(side).rows * size > MAX_PUBLIC_TEXT_WORK:
                raise TooMuchError("bytes")

    def _evaluated_on(self, node: Node) -> Extent:
        """The rows that a node's expressions are computed for: those below it, and in a join all pairs."""
        below = [self.of(part) for part in nodes.inputs(node)]
        texts = {symbol: size for part in below for symbol, size in part.texts.items()}
        rows = self._pairs.get(id(node), max((part.rows for part in below), default=1))
        return self._with_relations(Extent(rows, texts=texts), expressions_of(node))

    def _most_rows(self, node: Node, found: Extent) -> int:
        if not self.is_private(node):
            return MAX_PUBLIC_ROWS
        return MAX_FANOUT_OF_JOINED_OWNERS if found.private_tables > 1 else MAX_FANOUT

    def _found(self, node: Node) -> Extent:
        match node:
            case nodes.Scan():
                return self._scan(node)
            case nodes.Values():
                return _listed(node)
            case nodes.StoredRows():
                return self._stored(node)
            case nodes.Project():
                return self._computed(node)
            case nodes.Join():
                return self._join(node)
            case nodes.Aggregate():
                below = self.of(node.input)
                unique = {f.symbol: 1 for f, _ in node.keys} if len(node.keys) == 1 else {}
                tables = below.private_tables if len(node.keys) > 1 else 0
                return Extent(below.rows if node.keys else 1, unique, self._aggregated(node), tables)
            case nodes.Distinct():
                below = self.of(node.input)
                return replace(below, repeats={node.fields[0].symbol: 1} if len(node.fields) == 1 else below.repeats)
            case nodes.SetOperation():
                sides = self.of(node.left), self.of(node.right)
                tables = max(s.private_tables for s in sides)
                return Extent(sum(s.rows for s in sides), texts=self._united(node), private_tables=tables)
            case nodes.PythonRows():  # strings from functions are cut as short as stored ones
                below = self.of(node.input)
                return Extent(below.rows * node.step.most, private_tables=below.private_tables)
            case nodes.Sort():
                below = self.of(node.input)
                return replace(below, rows=below.rows if node.limit is None else min(below.rows, node.limit))
            case _:
                return self.of(node.input)

    def _scan(self, node: nodes.Scan) -> Extent:
        if node.owner is not None:
            return Extent(1, private_tables=1)
        table = node.table
        repeats = {
            f.symbol: self._facts.most_rows(table, column) for f, column in zip(node.fields, node.columns, strict=True)
        }
        texts = {
            f.symbol: _long(self._public_text(table, column))
            for f, column in zip(node.fields, node.columns, strict=True)
            if f.type.kind is Kind.TEXT
        }
        return Extent(max(1, self._facts.size(table)), repeats, texts)

    def _public_text(self, table: str, column: str) -> int:
        longest = self._facts.longest_text(table, column)
        return self._public_texts if longest is None else min(longest, self._public_texts)

    def _stored(self, node: nodes.StoredRows) -> Extent:
        """Rows that were released: what is read of them is what is assumed here."""
        known = self._released[node.select]
        rows = self._assumed.rows if known.rows is None else known.rows
        if rows > MOST_STORED_ROWS:
            raise TooMuchError("rows")
        texts = {
            f.symbol: known.keys.get(f.symbol) or _long(self._assumed.text)
            for f in node.fields
            if f.type.kind is Kind.TEXT
        }
        return Extent(max(1, rows), dict.fromkeys(known.keys, 1) if len(known.keys) == 1 else {}, texts)

    def _aggregated(self, node: nodes.Aggregate) -> dict[str, int]:
        read = self._evaluated_on(node)
        keys = {f.symbol: _long(longest_of([value], read.texts)) for f, value in node.keys}
        return keys | {
            f.symbol: _long(longest_of(a.arguments, read.texts)) for f, a in node.aggregates if f.type.kind is Kind.TEXT
        }

    def _united(self, node: nodes.SetOperation) -> dict[str, int]:
        sides = [(side.fields, self.of(side).texts) for side in (node.left, node.right)]
        return {
            f.symbol: max(_long(texts.get(fields[position].symbol, 0)) for fields, texts in sides)
            for position, f in enumerate(node.fields)
        }

    def _computed(self, node: nodes.Project) -> Extent:
        below = self._with_relations(self.of(node.input), [value for _, value in node.items])
        copies = {f.symbol: v.symbol for f, v in node.items if isinstance(v, Column)}
        return Extent(
            below.rows,
            {new: below.repeats[old] for new, old in copies.items() if old in below.repeats},
            {f.symbol: longest_text(v, below.texts) for f, v in node.items if f.type.kind is Kind.TEXT},
            below.private_tables,
        )

    def _join(self, node: nodes.Join) -> Extent:
        left, right = self.of(node.left), self.of(node.right)
        equal, only_equal = equalities(node)
        to_right = min((right.sharing(theirs) for _, theirs in equal), default=right.rows)
        to_left = min((left.sharing(ours) for ours, _ in equal), default=left.rows)
        pairs = (
            min(left.rows * to_right, right.rows * to_left) if not self.is_private(node.left) else left.rows * to_right
        )
        if self.is_private(node.right) and not self.is_private(node.left):
            pairs = right.rows * to_left
        looked_at = left.rows if only_equal and node.kind in {"semi", "anti"} else pairs
        self._pairs[id(node)] = max(pairs, left.rows, right.rows)
        if self.is_private(node) and looked_at > MAX_FANOUT:
            raise TooMuchError("pairs to compare")
        if node.kind in {"semi", "anti"}:
            return left
        unmatched = {"left": left.rows, "right": right.rows, "full": left.rows + right.rows}.get(node.kind, 0)
        repeats = {symbol: n * to_right for symbol, n in left.repeats.items()}
        repeats |= {symbol: n * to_left for symbol, n in right.repeats.items()}
        tables = left.private_tables + right.private_tables
        return Extent(max(pairs, unmatched, 1), repeats, {**left.texts, **right.texts}, tables)


def _held(node: Node, read: Extent) -> int:
    """Bytes of computed strings that an engine keeps for every row, to sort them or to compare them with all others."""
    match node:
        case nodes.Project():
            return sum(held_texts(value, read.texts) for _, value in node.items)
        case nodes.Aggregate():
            different = [a for _, aggregate in node.aggregates if aggregate.distinct for a in aggregate.arguments]
            return longest_of(different, read.texts)
        case _:
            return 0


def _kept_columns(node: Node) -> int:
    """Columns of rows that an engine keeps: those it compares, and all of them where it sorts, as ties are broken by all."""
    match node:
        case nodes.Aggregate() | nodes.Distinct() | nodes.SetOperation():
            return len(node.fields)
        case nodes.Project() | nodes.Filter() if _windows(node):
            return len(node.input.fields) + len(node.fields)
    return 0


def _windows(node: Node) -> list[WindowCall]:
    return [part for value in expressions_of(node) for part in walk(value) if isinstance(part, WindowCall)]


def _calls(condition: Expression) -> list[Call]:
    return [part for part in walk(condition) if isinstance(part, Call)]


def _long(size: int) -> int:
    """The bytes of a string longer than the assumed length of a stored one; 0 for others, which count as stored ones."""
    return size if size > STORED_TEXT else 0


def _listed(node: nodes.Values) -> Extent:
    columns = list(zip(*node.rows, strict=True)) if node.rows else [()] * len(node.fields)
    named = list(zip(node.fields, columns, strict=False))
    repeats = {f.symbol: max(Counter(map(repr, column)).values(), default=1) for f, column in named}
    texts = {
        f.symbol: _long(max((len(str(value).encode("utf-8", "replace")) for value in column), default=0))
        for f, column in named
    }
    return Extent(max(1, len(node.rows)), repeats, texts)


def equalities(node: nodes.Join) -> tuple[list[tuple[str, str]], bool]:
    """(left, right) symbols that a join condition sets equal, and whether it says nothing else."""
    here = {f.symbol for f in node.left.fields}
    there = {f.symbol for f in node.right.fields}
    found, parts = [], _conjuncts(node.condition)
    for part in parts:
        if isinstance(part, Call) and part.function == "equal":
            first, second = part.arguments
            if isinstance(first, Column) and isinstance(second, Column):
                if first.symbol in here and second.symbol in there:
                    found.append((first.symbol, second.symbol))
                elif first.symbol in there and second.symbol in here:
                    found.append((second.symbol, first.symbol))
    return found, len(found) == len(parts)


def _conjuncts(condition: Expression) -> list[Expression]:
    if isinstance(condition, Call) and condition.function == "and":
        return [part for argument in condition.arguments for part in _conjuncts(argument)]
    return [condition]
