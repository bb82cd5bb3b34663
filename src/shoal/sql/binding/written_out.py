"""Expands shorthand: GROUP BY ALL into its keys; ROLLUP, CUBE and GROUPING SETS into one SELECT for each grouping.

Each grouping of a private SELECT is a separate release with separate limits, and all of them share the SELECT's ε and δ.
A key that a grouping leaves out is NULL in its rows.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

from sqlglot import exp

from shoal.catalog import fold
from shoal.errors import ShoalError
from shoal.sql.binding.after_grouping import has_aggregate, select_items
from shoal.sql.binding.split_columns import is_unnested
from shoal.sql.parse import function_call, position_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MAX_GROUPINGS = 16
_SETS = (exp.Rollup, exp.Cube, exp.GroupingSets)
_TAIL = ("order", "limit", "offset")
Grouping = tuple[exp.Expr, ...]


def written_out(tree: exp.Select) -> exp.Select:
    """The SELECT with the keys of GROUP BY ALL, the UNNEST of a key in FROM, and missing values counted as such."""
    return _missing_counted(_unnested_in_from(_with_keys(tree)))


def _missing_counted(tree: exp.Select) -> exp.Select:
    """COUNT(*) - COUNT(x) is COUNT(*) FILTER (WHERE x IS NULL): one small number, not the difference of two large ones.

    Where one of the two stands alone as well, they stay, so that the numbers of an answer fit each other.
    """
    counts = [call for call in tree.find_all(exp.Anonymous) if call.name.upper() == "COUNT"]
    differences = [part for part in tree.find_all(exp.Sub) if _are_counts(part)]
    if not differences or len(counts) != 2 * len(differences):
        return tree
    found = tree.copy()
    for difference in [part for part in found.find_all(exp.Sub) if _are_counts(part)]:
        every, present = difference.this, difference.expression
        missing = exp.Is(this=present.expressions[0].copy(), expression=exp.Null())
        counted = exp.Filter(this=every.copy(), expression=exp.Where(this=missing))
        for made in (missing, missing.expression, counted, counted.expression):
            made.meta.update(every.meta)
        difference.replace(counted)
    return found


def _are_counts(difference: exp.Sub) -> bool:
    """Whether it is all rows less those in which something is present."""
    every, present = difference.this, difference.expression
    if not all(isinstance(each, exp.Anonymous) and each.name.upper() == "COUNT" for each in (every, present)):
        return False
    if len(every.expressions) != 1 or len(present.expressions) != 1:
        return False
    star, value = every.expressions[0], present.expressions[0]
    return isinstance(star, exp.Star) and isinstance(value, exp.Column) and not value.is_star


def _unnested_in_from(tree: exp.Select) -> exp.Select:
    """SELECT UNNEST(x) AS part, COUNT(*) FROM t GROUP BY part: the parts are those of FROM t, UNNEST(x) AS part."""
    items = select_items(tree.expressions)
    if tree.args.get("group") is None or not any(is_unnested(value) for _, value in items):
        return tree
    found = tree.copy()
    for position, (alias, value) in enumerate(select_items(found.expressions)):
        if not is_unnested(value):
            continue
        name = exp.Identifier(this=alias or "unnest", quoted=True)
        relation = exp.Table(this=value.copy(), alias=exp.TableAlias(this=name))
        join = exp.Join(this=relation, kind="CROSS")
        shown = exp.Alias(this=exp.Column(this=name.copy()), alias=name.copy())
        for made in (relation, join, *shown.walk()):
            made.meta.update(value.meta)
        found.append("joins", join)
        found.expressions[position].replace(shown)
    return found


def _with_keys(tree: exp.Select) -> exp.Select:
    """GROUP BY ALL: every output that contains no aggregate."""
    clause = tree.args.get("group")
    if clause is None or not clause.args.get("all"):
        return tree
    items = select_items(tree.expressions)
    if any(value.is_star for _, value in items):
        raise ShoalError(
            "E_GROUPING",
            "GROUP BY ALL needs column names, not a star.",
            hint="Name the columns.",
            position=position_of(clause),
        )
    positions: list[int] = []
    computed: set[str] = set()
    for position, (alias, value) in enumerate(items, start=1):
        if _is_key(value) and not computed & {fold(c.name) for c in value.find_all(exp.Column) if not c.table}:
            positions.append(position)
        elif alias is not None:
            computed.add(fold(alias))
    found = tree.copy()
    found.set(
        "group", exp.Group(expressions=[exp.Literal.number(position) for position in positions]) if positions else None
    )
    return found


def _is_key(value: exp.Expr) -> bool:
    constant = isinstance(value, (exp.Literal, exp.Boolean, exp.Null))
    return not (constant or has_aggregate(value) or value.find(exp.Window, exp.Select) is not None)


def groupings_of(tree: exp.Select) -> list[exp.Select] | None:
    """One SELECT for each grouping, without ORDER BY and LIMIT; None if there is nothing to expand."""
    clause = tree.args.get("group")
    if clause is None or not any(isinstance(item, (*_SETS, exp.Tuple)) for item in clause.expressions):
        return None
    sets: list[Grouping] = [()]
    for item in clause.expressions:
        sets = [(*one, *other) for one in sets for other in _grouped(item)]
        if len(sets) > MAX_GROUPINGS:
            raise ShoalError(
                "E_LIMITS",
                f"GROUP BY makes more than {MAX_GROUPINGS} groupings, and each is a separate release.",
                hint="List the groupings you need: GROUPING SETS ((a, b), (a), ()).",
                position=position_of(clause),
            )
    every = list(dict.fromkeys(key for one in sets for key in one))
    return [_one_grouping(tree, list(dict.fromkeys(one)), every) for one in sets]


def _grouped(item: exp.Expr) -> list[Grouping]:
    """The groupings that one item of GROUP BY expands to."""
    parts = [_keys(part) for part in item.expressions] if isinstance(item, (exp.Rollup, exp.Cube)) else []
    match item:
        case exp.Rollup():
            return [_flat(parts[:length]) for length in range(len(parts), -1, -1)]
        case exp.Cube():
            if 2 ** len(parts) > MAX_GROUPINGS:
                return [()] * (MAX_GROUPINGS + 1)
            return [_flat(chosen) for length in range(len(parts), -1, -1) for chosen in combinations(parts, length)]
        case exp.GroupingSets():
            return [one for part in item.expressions for one in _grouped(part)]
    return [_keys(item)]


def _keys(item: exp.Expr) -> Grouping:
    """The keys of (a, b), of (a) or of a."""
    bare = item.this if isinstance(item, exp.Paren) else item
    return tuple(bare.expressions) if isinstance(bare, exp.Tuple) else (bare,)


def _flat(parts: Sequence[Grouping]) -> Grouping:
    return tuple(key for part in parts for key in part)


def _one_grouping(tree: exp.Select, kept: list[exp.Expr], every: list[exp.Expr]) -> exp.Select:
    """The SELECT grouped by some of the keys; the others are NULL wherever they occur outside an aggregate."""
    left_out = [key for key in every if key not in kept]
    found = tree.copy()
    for part in (*_TAIL, "with_", "group"):
        found.set(part, None)
    if kept:
        found.set("group", exp.Group(expressions=[key.copy() for key in kept]))
    items = select_items(found.expressions)
    shown = [
        exp.Null() if _names(left_out, position, alias) else _without(value, left_out, kept)
        for position, (alias, value) in enumerate(items, start=1)
    ]
    names = [alias or _own_name(value) for alias, value in items]
    found.set("expressions", [_aliased(value, name) for value, name in zip(shown, names, strict=True)])
    if found.args.get("having") is not None:
        found.args["having"].set("this", _without(found.args["having"].this, left_out, kept))
    if not kept and not found.args.get("having") and not any(has_aggregate(value) for value in shown):
        raise ShoalError(
            "E_GROUPING",
            "A grouping without keys shows aggregates only, and this SELECT has none.",
            hint="Add COUNT(*), or leave out the grouping ().",
            position=position_of(tree),
        )
    return found


def _names(keys: list[exp.Expr], position: int, alias: str | None) -> bool:
    """Whether a key is the item itself, by position or by name."""
    for key in keys:
        if isinstance(key, exp.Literal) and key.name == str(position):
            return True
        if alias is not None and isinstance(key, exp.Column) and not key.table and fold(key.name) == fold(alias):
            return True
    return False


def _own_name(value: exp.Expr) -> str | None:
    """The name a column keeps when it is NULL."""
    return value.name if isinstance(value, exp.Column) else None


def _aliased(value: exp.Expr, name: str | None) -> exp.Expr:
    return value if name is None else exp.Alias(this=value, alias=exp.to_identifier(name, quoted=True))


def _without(value: exp.Expr, left_out: list[exp.Expr], kept: list[exp.Expr]) -> exp.Expr:
    """The expression with NULL for omitted keys, and 1 or 0 for GROUPING(key)."""

    def change(node: exp.Expr) -> exp.Expr | None:
        call = function_call(node)
        if call is not None and call.name.upper() == "GROUPING" and len(call.arguments) == 1:
            return exp.Literal.number(0 if _same_key(call.arguments[0], kept) else 1)
        return exp.Null() if _same_key(node, left_out) else None

    return _replaced(value.copy(), change)


def _replaced(node: exp.Expr, change: Callable[[exp.Expr], exp.Expr | None]) -> exp.Expr:
    """The tree with parts changed, outside aggregates and subqueries."""
    found = change(node)
    if found is not None:
        return found
    if isinstance(node, (exp.Select, exp.Subquery)) or _is_aggregate(node):
        return node
    return node.transform(lambda part: _changed_below(part, node, change), copy=False) if node.args else node


def _changed_below(part: exp.Expr, top: exp.Expr, change: Callable[[exp.Expr], exp.Expr | None]) -> exp.Expr:
    if part is top or _under_aggregate(part, top):
        return part
    return change(part) or part


def _under_aggregate(part: exp.Expr, top: exp.Expr) -> bool:
    above = part.parent
    while above is not None:
        if _is_aggregate(above) or isinstance(above, (exp.Select, exp.Subquery)):
            return True
        if above is top:
            return False
        above = above.parent
    return False


def _is_aggregate(node: exp.Expr) -> bool:
    call = function_call(node)
    return call is not None and call.over is None and has_aggregate(node)


def _same_key(node: exp.Expr, keys: list[exp.Expr]) -> bool:
    if isinstance(node, (exp.Literal, exp.Null, exp.Boolean)):
        return False
    return any(_alike(node, key) for key in keys)


def _alike(node: exp.Expr, key: exp.Expr) -> bool:
    """The same expression; a column is the same whether its table is named or not."""
    ours, theirs = ([*part.find_all(exp.Column)] for part in (node, key))
    if len(ours) != len(theirs) or _bare(node) != _bare(key):
        return False
    return all(len({fold(c.table) for c in pair if c.table}) <= 1 for pair in zip(ours, theirs, strict=True))


def _bare(node: exp.Expr) -> exp.Expr:
    """The expression with columns by their names alone."""

    def named(part: exp.Expr) -> exp.Expr:
        return exp.Column(this=exp.to_identifier(fold(part.name))) if isinstance(part, exp.Column) else part

    return node.copy().transform(named)
