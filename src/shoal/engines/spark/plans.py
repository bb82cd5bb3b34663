"""Tables that compute and convert nothing: only these may be narrowed by conditions.

Spark moves conditions below the expressions of a view, and into readers. A view with `100 / x` fails on the row where x is 0, a CSV
file that is read with `mode = FAILFAST` fails on the line that is not a number, and what is behind JDBC may be a view. A
condition that is moved would decide whether that row is met. Parquet and ORC files hold values of the types that are read.
"""

from __future__ import annotations

import re

_OPERATORS = frozenset(
    {
        *(
            "SubqueryAlias",
            "View",
            "Relation",
            "RelationV2",
            "LogicalRDD",
            "LocalRelation",
            "HiveTableRelation",
            "Range",
        ),
        *("ExistingRDD", "DataSourceV2Relation", "ResolvedHint"),
    }
)
_PLAIN_ITEM = re.compile(r"\w[^,()#\[\]]*#\d+L?(?: AS [^,()#]+#\d+L?)?")
"""A column, by its own name or another one; not -x, x[1] or x.y, which are written without parentheses."""
_FILES = re.compile(r"Relation\b.*\] (?:parquet|orc|delta)")
_HIVE_FILES = re.compile(r"HiveTableRelation \[.*\.(?:ParquetHive|Orc)Serde\b", re.IGNORECASE)
_CONVERTS = re.compile(r"JDBC|\b(?:CSV|Json|Text|Avro|Xml)Scan\b", re.IGNORECASE)
"""What plans say of readers of the second kind (`RelationV2`) that convert values, or ask another database for them."""
_ROWS = re.compile(r"\b(?:LogicalRDD|ExistingRDD|Scan ExistingRDD)\b")

COMPUTES = "it is a view that computes"
CONVERTS = "values are converted, or computed elsewhere, when they are read"


def fragile_part(explained: str) -> str | None:
    """Why reading a table could fail on single rows, as far as Spark's plans show; None where it cannot."""
    found = re.search(r"== Analyzed Logical Plan ==\n(.*?)\n== Optimized", explained, re.DOTALL)
    if found is None:
        return COMPUTES
    lines = [
        re.sub(r"^[\s:+\-|]*", "", line) for line in found[1].splitlines()[1:]
    ]  # the first one has columns and types
    if not all(_is_plain(line) for line in lines):
        return COMPUTES
    return CONVERTS if any(_is_converted(line) for line in lines) or _CONVERTS.search(explained) else None


def is_made_of_rows(explained: str) -> bool:
    """Whether a program hands over the rows, which may fail on one of them; only looked at where nothing else is fragile."""
    return _ROWS.search(explained) is not None


def size_in(costs: str) -> int | None:
    """About how many bytes a frame has, by the first line of its plan with costs.

    >>> size_in("Project [uid#0L], Statistics(sizeInBytes=2.5 KiB)")
    2560
    """
    found = re.search(r"Statistics\(sizeInBytes=([\d.]+(?:E\+?\d+)?) ([KMGTPE]i)?B\b", costs)
    return None if found is None else int(float(found[1]) * 1024 ** " KMGTPE".index((found[2] or " ")[0]))


def reads_files(planned: str, schema: str) -> bool:
    """Whether a plan, as Spark formats it, reads parquet files that Spark listed itself, all columns from them, and nothing else.

    Tables in memory, partitions (whose columns are names of folders), and lakes that list their files in a log have other plans.
    """
    found = _ONLY_FILES.fullmatch(planned)
    return found is not None and found["schema"] == schema


_ONLY_FILES = re.compile(
    r"== Physical Plan ==\n\* ColumnarToRow \(2\)\n\+- Scan parquet [^\n]*\(1\)\n+"
    r"\(1\) Scan parquet [^\n]*\nOutput [^\n]*\nBatched: true\n"
    r"Location: InMemoryFileIndex [^\n]*\nReadSchema: (?P<schema>[^\n]*)\n+"
    r"\(2\) ColumnarToRow [^\n]*\nInput [^\n]*\n*"
)


def _is_plain(line: str) -> bool:
    if _operator(line) == "Project":
        items = line[line.find("[") + 1 : line.rfind("]")]
        return all(_PLAIN_ITEM.fullmatch(item.strip()) for item in items.split(", "))
    return _operator(line) in _OPERATORS


def _is_converted(line: str) -> bool:
    if _operator(line) == "Relation":
        return _FILES.fullmatch(line) is None
    return _operator(line) == "HiveTableRelation" and _HIVE_FILES.match(line) is None


def _operator(line: str) -> str:
    found = re.match(r"\w*", line)
    return found[0] if found else ""
