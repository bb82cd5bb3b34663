"""The words with a fixed meaning: keywords, and those outside the language, with their error and advice."""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


RESERVED = _words("""
    ALL AND ANTI ANY AS ASC ASOF BETWEEN BY CASE CAST CROSS CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP CURRENT_USER
    DESC DISTINCT ELSE END ESCAPE EXCEPT EXISTS FALSE FETCH FOR FROM FULL GROUP HAVING ILIKE IN INNER INTERSECT
    INTERVAL INTO IS JOIN LATERAL LEFT LIKE LIMIT LOCALTIME LOCALTIMESTAMP NATURAL NOT NULL OFFSET ON OR ORDER OUTER
    POSITIONAL QUALIFY RIGHT SELECT SEMI SESSION_USER SOME TABLESAMPLE THEN TRUE UNION USING WHEN WHERE WINDOW WITH
""")
"""Words that are never a bare name."""

BEFORE_A_QUOTE = _words("""
    AND AS BETWEEN BY CASE DATE DATETIME DECIMAL DISTINCT ELSE ESCAPE FROM ILIKE IN INTERVAL IS JOIN LIKE NOT NUMERIC
    ON OR SELECT THEN TIME TIMESTAMP TIMESTAMPTZ WHEN WHERE
""")
"""Words that may come right before a quote; any other would be a string prefix (E'…', N'…', X'…')."""

QUERY_WORDS = frozenset({"SELECT", "WITH", "VALUES", "TABLE", "FROM"})
"""Words a query may begin with (FROM only so that the error can say what to write instead)."""

QUERY_GOES_ON = frozenset({"UNION", "INTERSECT", "EXCEPT", "ORDER", "LIMIT", "OFFSET", "FETCH"})
"""Words by which a query in parentheses becomes part of a larger one."""

OTHER_STATEMENTS = _words("""
    ALTER ANALYZE ATTACH CALL COPY CREATE DELETE DESCRIBE DROP EXECUTE EXPLAIN EXPORT GRANT IMPORT INSERT LOAD MERGE
    PRAGMA REPLACE SET SHOW SUMMARIZE TRUNCATE UPDATE USE VACUUM
""")
"""Words that begin another statement, even where a subquery was expected."""

NAMES_WITHOUT_PARENTHESES = _words("""
    CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP CURRENT_USER LOCALTIME LOCALTIMESTAMP SESSION_USER
""")
"""Functions that may be called by their bare name."""

FUNCTIONS_NAMED_LIKE_KEYWORDS = NAMES_WITHOUT_PARENTHESES | {"LEFT", "RIGHT", "OFFSET", "ANY", "ALL", "SOME", "ISNULL"}

_WRITE_REGEXP = "Use REGEXP_CONTAINS(text, 'pattern') with a constant pattern."
_NO_SAMPLES = "Contributions are bounded by max_groups_contributed; there is no sampling by the analyst."
_NO_PIVOT = "Write one aggregate per column, each with its own FILTER (WHERE …)."

OUTSIDE_THE_LANGUAGE: dict[str, tuple[str, str, str]] = {
    "TABLESAMPLE": ("E_UNSUPPORTED", "TABLESAMPLE is not supported.", _NO_SAMPLES),
    "PIVOT": ("E_UNSUPPORTED", "PIVOT is not supported.", _NO_PIVOT),
    "UNPIVOT": ("E_UNSUPPORTED", "UNPIVOT is not supported.", "Write a UNION ALL of the columns."),
    "MATCH_RECOGNIZE": (
        "E_UNSUPPORTED",
        "MATCH_RECOGNIZE is not supported.",
        "Use window functions partitioned by the owner.",
    ),
    "FOR": ("E_UNSUPPORTED", "FOR (locking, time travel) is not supported.", "Remove the clause: queries only read."),
    "INTO": ("E_STATEMENT", "SELECT INTO writes a table; only queries are answered.", "Remove INTO."),
    "RETURNING": ("E_STATEMENT", "Statements that change data are not allowed.", "Write a SELECT."),
    "SIMILAR": ("E_UNSUPPORTED", "SIMILAR TO is not supported.", _WRITE_REGEXP),
    "GLOB": ("E_UNSUPPORTED", "GLOB is not supported.", "Use LIKE, with % and _."),
    "~": ("E_UNSUPPORTED", "The operator ~ is not supported before a value.", "Use arithmetic: -1 - x."),
    "COLLATE": (
        "E_UNSUPPORTED",
        "COLLATE is not supported: text is compared byte by byte.",
        "Use LOWER(…) on both sides.",
    ),
    "OVERLAPS": ("E_UNSUPPORTED", "OVERLAPS is not supported.", "Compare the four ends."),
    "ISNULL": ("E_UNSUPPORTED", "ISNULL is not supported.", "Write IS NULL."),
    "NOTNULL": ("E_UNSUPPORTED", "NOTNULL is not supported.", "Write IS NOT NULL."),
    "^": ("E_UNSUPPORTED", "The operator ^ is not supported.", "Use POWER(x, y)."),
    "&": ("E_UNSUPPORTED", "Operators on bits are not supported.", "Use arithmetic: / and %."),
    "|": ("E_UNSUPPORTED", "Operators on bits are not supported.", "Use arithmetic, or || to join strings."),
    "<<": ("E_UNSUPPORTED", "Operators on bits are not supported.", "Use arithmetic: * and POWER."),
    ">>": ("E_UNSUPPORTED", "Operators on bits are not supported.", "Use arithmetic: / and FLOOR."),
    "->": ("E_UNSUPPORTED", "The operator -> is not supported.", "Declare a column for the value in the catalog."),
    "->>": ("E_UNSUPPORTED", "The operator ->> is not supported.", "Declare a column for the value in the catalog."),
    "{": ("E_UNSUPPORTED", "Structs are not supported.", "Name the columns one by one."),
    "|>": ("E_PARSE", "The pipe form is not supported.", "Write SELECT … FROM … WHERE … GROUP BY …."),
}
"""Syntax that many dialects have and this one refuses: code, message, hint."""

OPERATORS_OUTSIDE_THE_LANGUAGE = frozenset(OUTSIDE_THE_LANGUAGE) - {"->", "FOR", "INTO", "RETURNING", "{", "~"}
"""Those that may follow a value, as may the first words of a clause (and a lambda's arrow)."""
