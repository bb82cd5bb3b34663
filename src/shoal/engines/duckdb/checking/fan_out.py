"""Views of a custodian that make a bounded number of rows of one.

`FROM visits a JOIN visits b ON a.uid = b.uid` looks at all pairs of an owner's rows, before anybody can count them: 40,000 rows of
one owner take longer than a query has. So the plan that the engine has made of a view is read for its joins. Of every relation in
it we know how many rows it has at the most, and how many of them can agree in some columns (`row_bounds`): tables are counted when
a session opens, and what is grouped has one row for each group. A join by equality looks at the partners of each row, any other one
at all pairs.

A join also hands every string to all partners of its row, and a window to all rows of its partition: their bytes are bounded in the
same way (`string_bounds`).

The bound is that of the order which looks at the fewest pairs. The engine may take another one. Where every table is reached from
one of them, step by step, and each step leads to so many rows at the most, every part of the join is bounded too. So equalities of
several tables are never taken for one key.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

from shoal.engines.duckdb.checking.casts import surprise
from shoal.engines.duckdb.checking.row_bounds import (
    Column,
    Equality,
    Joined,
    RepeatedError,
    Rows,
    Side,
    Table,
    between,
    both,
    compared,
    equalities_of,
    looked_at,
    made,
    padded,
    plain,
    whole_of,
)
from shoal.engines.duckdb.checking.string_bounds import MOST_BYTES, Strings, hands_on_strings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shoal.engines.duckdb.checking.string_bounds import Statistics

    Json = dict[str, Any]
    Columns = tuple[Column | None, ...]

_JOINS = frozenset({"LOGICAL_COMPARISON_JOIN", "LOGICAL_ANY_JOIN", "LOGICAL_CROSS_PRODUCT"})
OF_A_WINDOW = "a window over strings"
_WINDOW = "LOGICAL_WINDOW"
_DECIDE = frozenset({"SEMI", "ANTI", "MARK"})


def check_fan_out(plan: Json, asked: Statistics) -> None:
    """MultipliedError where a bound plan may look at many pairs of rows for each row of its tables, or repeat long strings."""
    if any(part["type"] in _JOINS or _hands_on(part) for part in _operators(plan)):
        _Reading(asked).relation(plan)


def _operators(plan: Json) -> Iterator[Json]:
    stack = [plan]
    while stack:
        yield (part := stack.pop())
        stack.extend(part.get("children", ()))


def _hands_on(part: Json) -> list[Json]:
    """Windows that hand one string to many rows."""
    return [each for each in part["expressions"] if hands_on_strings(each)] if part["type"] == _WINDOW else []


class _Reading:
    """One plan, from its tables upwards."""

    def __init__(self, asked: Statistics) -> None:
        self._asked = asked
        self._named: dict[int, Rows] = {}

    def relation(self, part: Json, given: tuple[Equality, ...] = ()) -> Rows:
        """The rows of an operator; `given` are equalities that rows must keep further up."""
        kind = part["type"].removeprefix("LOGICAL_")
        if part["type"] in _JOINS:
            return self._join(part, given)
        read = getattr(self, f"_{kind.lower()}", None)
        if read is None:
            raise surprise(f"{kind} above or below a join")
        found: Rows = read(part) if kind not in {"FILTER", "PROJECTION"} else read(part, given)
        return found

    # ---- joins ----

    def _join(self, part: Json, given: tuple[Equality, ...]) -> Rows:
        if part.get("join_type", "INNER") != "INNER":
            return self._outer(part, given)
        parts, equalities, width = self._flattened(part, given if _is_inner(part) else ())
        while len(parts) > 1:
            pairs = [between(a, b, equalities) for a, b in combinations(parts, 2)]
            connected = [each for each in pairs if each.between] or pairs
            best = min(connected, key=lambda each: each.pairs(each.enough))
            whole = both(best, looked_at(best))
            whole.rows.check_strings(best.told)
            parts = [each for each in parts if each is not best.left and each is not best.right] + [whole]
        (whole,) = parts
        columns = tuple(whole.rows.columns[whole.places.index(i)] for i in range(len(whole.places)))
        return replace(whole.rows, columns=_handed_on(columns, part, width))

    def _flattened(self, part: Json, given: tuple[Equality, ...]) -> tuple[list[Joined], list[Equality], int]:
        """The relations of an inner join, and all equalities between them: the engine joins them in an order of its own.

        And how many columns its left side has.
        """
        parts: list[Joined] = []
        equalities = list(given)
        widths: list[int] = []
        for child in part["children"]:
            start = sum(widths)
            inside = tuple(moved for each in given if (moved := _within(each, start)) is not None)
            if _is_inner(child):
                found, more, _ = self._flattened(child, inside)
            else:
                found, more = [whole_of(self.relation(child, inside))], []
            parts += [Joined(each.rows, tuple(i + start for i in each.places)) for each in found]
            equalities += [Equality(e.left.moved(start), e.right.moved(start), e.nulls) for e in more]
            widths.append(sum(len(each.places) for each in found))
        return parts, [*equalities, *compared(part, widths[0])[0]], widths[0]

    def _outer(self, part: Json, given: tuple[Equality, ...]) -> Rows:
        kind, (first, second) = part["join_type"], part["children"]
        keeps_left = kind in {*_DECIDE, "LEFT"} and not part.get("left_projection_map")
        left, right = self.relation(first, given if keeps_left else ()), self.relation(second)
        width = len(left.columns)
        equalities, nothing_else = compared(part, width)
        partners = between(whole_of(left), whole_of(right, width), equalities)
        if kind in _DECIDE:
            if not nothing_else:
                looked_at(partners)
            mark = (None,) if kind == "MARK" else ()
            return replace(left, columns=(*_kept(left.columns, part.get("left_projection_map")), *mark))
        if kind not in {"LEFT", "RIGHT", "OUTER", "FULL"}:
            raise surprise(f"a join of kind {kind}")
        looked_at(partners)
        whole = padded(partners, kind)
        whole.check_strings(partners.told)
        return replace(whole, columns=_handed_on(whole.columns, part, width))

    # ---- everything else ----

    def _get(self, part: Json) -> Rows:
        if part.get("projection_ids") or any(set(each) - {"index"} for each in part["column_indexes"]):
            raise surprise("parts of columns in a join")
        table = Table(part, self._asked)
        columns = tuple(Column(table, i) for i in range(len(part["column_indexes"])))
        return Rows(table.rows, table.rows, columns, {table: lambda: 1})

    def _filter(self, part: Json, given: tuple[Equality, ...]) -> Rows:
        here = tuple(equalities_of(part.get("expressions", ())))
        (child,) = part["children"]
        found = self.relation(child, here if part.get("projection_map") else (*given, *here))
        return replace(found, columns=_kept(found.columns, part.get("projection_map")))

    def _projection(self, part: Json, given: tuple[Equality, ...]) -> Rows:
        (child,) = part["children"]
        bare = [_bare(each) for each in part["expressions"]]
        below = self.relation(child, tuple(found for each in given if (found := _through(each, bare)) is not None))
        columns = tuple(None if (i := plain(each)) is None else below.columns[i] for each in part["expressions"])
        return replace(below, columns=columns)

    def _order_by(self, part: Json) -> Rows:
        found = self._only(part)
        return replace(found, columns=_kept(found.columns, part.get("projection_map")))

    def _window(self, part: Json) -> Rows:
        found = self._only(part)
        columns = (*found.columns, *(None for _ in part["expressions"]))
        if not (handed := _hands_on(part)):
            return replace(found, columns=columns)
        more = Strings()
        for each in handed:
            known = {i for key in each.get("partitions", ()) if (i := plain(key)) is not None}
            more += _handed(found, [c for i in known if (c := found.columns[i]) is not None])
        return made(found.rows, len(columns), [(found, [*columns])], more=more)

    def _limit(self, part: Json) -> Rows:
        found = self._only(part)
        most = part.get("limit_val", {})
        rows = int(most.get("constant_integer", 0)) if most.get("type") == "CONSTANT_VALUE" else found.rows
        return made(min(rows, found.rows), len(found.columns), [(found, list(found.columns))])

    def _aggregate_and_group_by(self, part: Json) -> Rows:
        found, groups = self._only(part), part.get("groups", [])
        width = len(groups) + len(part.get("expressions", ())) + len(part.get("grouping_functions", ()))
        below = [None if (i := plain(each)) is None else found.columns[i] for each in groups]
        parts = [(found, below + [None] * (width - len(groups)))]
        sets = part.get("grouping_sets", [[]])
        if not groups and len(sets) <= 1:
            return made(1, width, parts, frozenset())
        whole = frozenset(range(len(groups)))
        if len(sets) > 1:
            # NULL is a value where a set leaves a column out, of any number of rows.
            return made((found.rows + 1) * len(sets), width, [(found, [None] * width)], times=2 * len(sets))
        return made(found.rows, width, parts, whole)

    def _distinct(self, part: Json) -> Rows:
        found = self._only(part)
        targets = [plain(each) for each in part.get("distinct_targets", ())]
        keys = [] if None in targets or not targets else [frozenset(i for i in targets if i is not None)]
        return made(found.rows, len(found.columns), [(found, list(found.columns))], *keys)

    def _union(self, part: Json) -> Rows:
        found = [self.relation(child) for child in part["children"]]
        return made(
            sum(each.rows for each in found), len(found[0].columns), [(each, list(each.columns)) for each in found]
        )

    def _except(self, part: Json) -> Rows:
        left, *others = [self.relation(child) for child in part["children"]]
        stored = left.stored + sum(each.stored for each in others)
        return Rows(left.rows, stored, left.columns, left.copies, left.padded)

    _intersect = _except

    def _materialized_cte(self, part: Json) -> Rows:
        defined, body = part["children"]
        self._named[part.get("table_index", 0)] = self.relation(defined)
        return self.relation(body)

    def _cte_ref(self, part: Json) -> Rows:
        found = self._named[part.get("cte_index", 0)]
        return made(found.rows, len(found.columns), [(found, list(found.columns))])

    def _dummy_scan(self, part: Json) -> Rows:  # noqa: ARG002 - like all others
        return Rows(1, 1, (None,))

    def _expression_get(self, part: Json) -> Rows:
        rows = len(part["expressions"])
        return Rows(rows, rows, (None,) * len(part["expr_types"]))

    def _empty_result(self, part: Json) -> Rows:
        return Rows(0, 0, (None,) * len(part.get("return_types", ())))

    def _only(self, part: Json) -> Rows:
        (child,) = part["children"]
        return self.relation(child)


def _handed(found: Rows, partition: list[Column]) -> Strings:
    """The strings that a window over a partition hands to its rows; RepeatedError where they are too long."""
    of_each = [[c for c in partition if c.source is source] for source in {c.source for c in partition}]
    most = min([found.rows, *(found.most(columns, nulls=True) for columns in of_each)])
    strings = found.strings
    if strings.longest * most > MOST_BYTES:
        raise RepeatedError(OF_A_WINDOW)
    handed = strings.repeated(most, found.rows)
    found.check_whole(handed, lambda: OF_A_WINDOW)
    return handed


def _bare(expression: Json) -> int | None:
    """The column that an expression is."""
    return int(expression.get("index", 0)) if expression["expression_class"] == "BOUND_REF" else None


def _through(equality: Equality, bare: list[int | None]) -> Equality | None:
    """An equality above a projection as one below it."""
    sides = []
    for side in (equality.left, equality.right):
        below = [bare[i] if i < len(bare) else None for i in side.reads]
        if None in below:
            return None
        column = None if side.column is None else bare[side.column]
        sides.append(Side(frozenset(i for i in below if i is not None), column))
    return Equality(sides[0], sides[1], equality.nulls)


def _within(equality: Equality, start: int) -> Equality | None:
    """An equality of columns of a later child, as that child counts them."""
    if min([*equality.left.reads, *equality.right.reads], default=-1) < start:
        return None
    return Equality(equality.left.moved(-start), equality.right.moved(-start), equality.nulls)


def _is_inner(part: Json) -> bool:
    """Whether an operator is an inner join that hands on all columns."""
    maps = part.get("left_projection_map") or part.get("right_projection_map")
    return part["type"] in _JOINS and part.get("join_type", "INNER") == "INNER" and not maps


def _kept(columns: Columns, places: list[int] | None) -> Columns:
    """The columns that an operator hands on."""
    return tuple(columns[i] for i in places) if places else columns


def _handed_on(columns: Columns, join: Json, width: int) -> Columns:
    left = _kept(columns[:width], join.get("left_projection_map"))
    return (*left, *_kept(columns[width:], join.get("right_projection_map")))
