"""What a statement of ours may call, with which types: functions that give a value or NULL for every row.

A name alone says too little. `+` of two 64-bit integers can overflow, so most sums here are of 128-bit integers, of doubles, or of
numbers that a form holds in a range (lengths of strings, days of the calendar). What is not on the list was not written by
`sql/functions` or `engines/statements`, or the engine has understood it differently.
"""

from __future__ import annotations

from shoal.frozen import dataclass

SIGNED = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
UNSIGNED = ("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT")
BITS = dict(zip(SIGNED + UNSIGNED, (8, 16, 32, 64, 128) * 2, strict=True))
DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INTEGER": 10, "BIGINT": 19, "UTINYINT": 3, "USMALLINT": 5, "UINTEGER": 10}
"""How many digits before the point a decimal must have for every integer of the type."""

_TIMES = ("DATE", "TIMESTAMP")
_ON_A_DOUBLE = (
    *("abs", "acos", "asin", "atan", "cbrt", "ceil", "cos", "cosh", "degrees", "exp", "floor", "isfinite", "isnan"),
    *("ln", "log10", "log2", "radians", "round", "sign", "sin", "sinh", "sqrt", "tan", "tanh", "trunc", "-"),
)
_ON_TWO_DOUBLES = ("+", "-", "*", "/", "%", "atan2", "pow")
_ON_A_TEXT = (
    *(
        "ascii",
        "length",
        "lower",
        "ltrim",
        "md5_number",
        "reverse",
        "rtrim",
        "strip_accents",
        "strlen",
        "trim",
        "upper",
    ),
)
_ON_TWO_TEXTS = (
    *("contains", "ends_with", "ltrim", "regexp_full_match", "regexp_matches", "rtrim", "starts_with", "string_split"),
    *("strpos", "trim", "try_strptime", "||", "~~", "~~*"),
)
_PARTS = (
    "year",
    "isoyear",
    "quarter",
    "month",
    "week",
    "day",
    "dayofweek",
    "isodow",
    "dayofyear",
    "hour",
    "minute",
    "second",
)
_OF_ANY_ORDER = (*BITS, "DOUBLE", "BOOLEAN", "VARCHAR", "DATE", "TIMESTAMP", "TIME", "DECIMAL", "NULL")

FUNCTIONS: frozenset[tuple[str, tuple[str, ...]]] = frozenset(
    {
        *((name, ("DOUBLE",)) for name in _ON_A_DOUBLE),
        *((name, ("DOUBLE", "DOUBLE")) for name in _ON_TWO_DOUBLES),
        *((name, ("DOUBLE", "INTEGER")) for name in ("round", "trunc")),
        *((name, ("HUGEINT", "HUGEINT")) for name in ("+", "-", "*", "//", "%", "&", "|", "<<")),
        *((name, ("HUGEINT",)) for name in ("-", "abs")),
        # Divisors are neither 0 nor -1; sums and differences are of lengths, days and microseconds of the calendar.
        *((name, ("BIGINT", "BIGINT")) for name in ("+", "-", "*", "//", "%", "&")),
        *((name, ("INTEGER", "INTEGER")) for name in ("+", "-")),
        *((name, ("UBIGINT", "UBIGINT")) for name in ("&", ">>", "xor")),
        ("&", ("UHUGEINT", "UHUGEINT")),
        ("-", ("INTEGER",)),
        ("-", ("DECIMAL",)),
        *(("sign", (whole,)) for whole in SIGNED),
        *((name, ("VARCHAR",)) for name in _ON_A_TEXT),
        *((name, ("VARCHAR", "VARCHAR")) for name in _ON_TWO_TEXTS),
        *((name, ("VARCHAR", "VARCHAR", "VARCHAR")) for name in ("ilike_escape", "like_escape", "replace")),
        *((name, ("VARCHAR", "BIGINT")) for name in ("left", "right", "repeat", "substring")),
        *((name, ("VARCHAR", "INTEGER", "VARCHAR")) for name in ("lpad", "rpad")),
        ("substring", ("VARCHAR", "BIGINT", "BIGINT")),
        ("regexp_extract", ("VARCHAR", "VARCHAR", "INTEGER")),
        ("regexp_replace", ("VARCHAR", "VARCHAR", "VARCHAR", "VARCHAR")),
        ("list_extract", ("LIST", "BIGINT")),
        *((name, (time,)) for name in (*_PARTS, "dayname", "monthname", "last_day") for time in _TIMES),
        *((name, ("TIME",)) for name in ("hour", "minute", "second", "epoch_us")),
        *(("date_diff", ("VARCHAR", time, time)) for time in _TIMES),
        *(("date_trunc", ("VARCHAR", time)) for time in _TIMES),
        *(("strftime", (time, "VARCHAR")) for time in _TIMES),
        *(("+", (time, "INTERVAL")) for time in _TIMES),
        ("+", ("DATE", "INTEGER")),
        ("-", ("DATE", "INTEGER")),
        ("-", ("DATE", "DATE")),
        ("to_days", ("INTEGER",)),
        ("to_months", ("INTEGER",)),
        ("epoch_us", ("TIMESTAMP",)),
        ("epoch_us", ("TIMESTAMP WITH TIME ZONE",)),
        ("make_timestamp", ("BIGINT",)),
        ("list_sort", ("LIST",)),
        ("list_aggregate", ("LIST", "VARCHAR")),
    }
)
"""(name, types of the arguments) of scalar functions."""

_GUARDED_BY_FORMS = frozenset(
    {
        *("+", "-", "*", "//", "%", "<<", "abs", "repeat", "lpad", "rpad", "make_timestamp", "to_days"),
        # Dates that are stored may lie beyond all timestamps, and patterns may end in their escape.
        *("date_trunc", "date_diff", "last_day", "week", "isoyear", "ilike_escape", "like_escape"),
    }
)
FUNCTIONS_OF_VIEWS = frozenset(
    (name, types) for name, types in FUNCTIONS if name not in _GUARDED_BY_FORMS or set(types) == {"DOUBLE"}
)
"""Those that need no form around them: a view is written by a custodian."""

BY_SMALL_NUMBERS = frozenset({"left", "right", "substring"})
"""Functions of a view whose numbers are constants that they can take: beyond 32 bits they fail."""

OF_ONE_TYPE = {"greatest": frozenset(_OF_ANY_ORDER), "least": frozenset(_OF_ANY_ORDER)}
"""Functions of any number of arguments that have one of these types, all the same."""

BINDING = "invoke"
"""The function that evaluates a value once and names it: its lambda is read like every other expression."""

AGGREGATES: frozenset[tuple[str, tuple[str, ...]]] = frozenset(
    {
        ("count_star", ()),
        ("count", ("ANY",)),
        ("sum", ("HUGEINT",)),
        ("sum", ("BIGINT",)),
        ("sum", ("INTEGER",)),
        ("median", ("DOUBLE",)),
        ("list", ("DOUBLE",)),
        ("bool_and", ("BOOLEAN",)),
        ("bool_or", ("BOOLEAN",)),
        *((name, (whole,)) for name in ("bit_and", "bit_or", "bit_xor") for whole in ("INTEGER", "BIGINT")),
        *((name, (type_,)) for name in ("min", "max") for type_ in (*_OF_ANY_ORDER, "ANY")),
        # the engine's way to take the one row of a relation that has one at most
        *(("first", (type_,)) for type_ in (*_OF_ANY_ORDER, "ANY")),
    }
)
"""(name, types of the arguments) of aggregates; the engine sums integers in 128 bits."""

WINDOWS = frozenset(
    f"WINDOW_{name}"
    for name in (
        *("ROW_NUMBER", "RANK", "RANK_DENSE", "PERCENT_RANK", "CUME_DIST", "NTILE", "LAG", "LEAD"),
        *("FIRST_VALUE", "LAST_VALUE", "NTH_VALUE"),
    )
)
"""Window functions that are not aggregates."""

OPERATORS = frozenset(
    f"LOGICAL_{name}"
    for name in (
        *("GET", "PROJECTION", "FILTER", "AGGREGATE_AND_GROUP_BY", "DISTINCT", "WINDOW", "ORDER_BY", "LIMIT"),
        *("COMPARISON_JOIN", "ANY_JOIN", "DELIM_JOIN", "DELIM_GET", "DEPENDENT_JOIN", "CROSS_PRODUCT"),
        *("UNION", "EXCEPT", "INTERSECT", "MATERIALIZED_CTE", "CTE_REF"),
        *("DUMMY_SCAN", "EXPRESSION_GET", "EMPTY_RESULT"),
    )
)
"""What relations may be made of."""


@dataclass(frozen=True)
class Rules:
    """What may be called, and whether our forms hold arguments in a range that functions can take."""

    functions: frozenset[tuple[str, tuple[str, ...]]]
    aggregates: frozenset[tuple[str, tuple[str, ...]]]
    has_forms: bool


OF_STATEMENTS = Rules(FUNCTIONS, AGGREGATES, has_forms=True)
OF_VIEWS = Rules(FUNCTIONS_OF_VIEWS, AGGREGATES - {("sum", ("HUGEINT",)), ("list", ("DOUBLE",))}, has_forms=False)
"""A sum of stored 128-bit integers may not fit into as many; a list of all rows may be carried to each of them."""
