"""Tables that compute nothing: only these may be narrowed by conditions.

Spark moves conditions below the expressions of a view. A view with `100 / x` fails on the row where x is 0, and a condition that is
moved would decide whether that row is met.
"""

from __future__ import annotations

import re

_OPERATORS = (
    *("SubqueryAlias", "View", "Relation", "RelationV2", "LogicalRDD", "LocalRelation", "HiveTableRelation", "Range"),
    *("ExistingRDD", "DataSourceV2Relation", "ResolvedHint"),
)
_PLAIN_ITEM = re.compile(r"[^,()]+#\d+L?")


def computes_nothing(explained: str) -> bool:
    """Whether an analysed plan, as Spark explains it, reads stored columns and no more."""
    found = re.search(r"== Analyzed Logical Plan ==\n(.*?)\n== Optimized", explained, re.DOTALL)
    if found is None:
        return False
    lines = found[1].splitlines()[1:]  # the first one tells columns and types
    return all(_is_plain(re.sub(r"^[\s:+\-|]*", "", line)) for line in lines)


def _is_plain(line: str) -> bool:
    operator = re.match(r"\w*", line)
    name = operator[0] if operator else ""
    if name == "Project":
        items = line[line.find("[") + 1 : line.rfind("]")]
        return all(_PLAIN_ITEM.fullmatch(item.strip()) for item in items.split(", "))
    return name in _OPERATORS
