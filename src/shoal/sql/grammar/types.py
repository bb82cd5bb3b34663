"""The types a query may name, and the units of time."""

from __future__ import annotations

from sqlglot import exp

DATA_TYPES: dict[str, exp.DType] = {
    **dict.fromkeys(("BOOL", "BOOLEAN"), exp.DType.BOOLEAN),
    **dict.fromkeys(("TINYINT", "INT1"), exp.DType.TINYINT),
    **dict.fromkeys(("SMALLINT", "INT2"), exp.DType.SMALLINT),
    **dict.fromkeys(("INT", "INTEGER", "INT4"), exp.DType.INT),
    **dict.fromkeys(("BIGINT", "INT64", "INT8", "LONG", "SIGNED", "UNSIGNED"), exp.DType.BIGINT),
    "HUGEINT": exp.DType.INT128,
    **dict.fromkeys(("FLOAT", "REAL", "FLOAT4"), exp.DType.FLOAT),
    **dict.fromkeys(("DOUBLE", "FLOAT8", "FLOAT64"), exp.DType.DOUBLE),
    **dict.fromkeys(("DECIMAL", "NUMERIC", "BIGNUMERIC", "BIGDECIMAL", "DEC", "NUMBER"), exp.DType.DECIMAL),
    **dict.fromkeys(("VARCHAR", "NVARCHAR", "STRING", "TEXT", "CHAR", "CHARACTER"), exp.DType.VARCHAR),
    "DATE": exp.DType.DATE,
    "TIME": exp.DType.TIME,
    **dict.fromkeys(("TIMESTAMP", "DATETIME", "DATETIME2"), exp.DType.TIMESTAMP),
    "TIMESTAMPTZ": exp.DType.TIMESTAMPTZ,
    "UUID": exp.DType.UUID,
}
"""As standard SQL, BigQuery and DuckDB name them; widths are those of DuckDB and PostgreSQL (INT8 has 8 bytes)."""

TYPES_OF_LITERALS = frozenset(
    {"DATE", "TIME", "TIMESTAMP", "TIMESTAMPTZ", "DATETIME", "DECIMAL", "NUMERIC", "BIGNUMERIC"}
)
"""Types that may come before a string: DATE '2026-01-01'."""

_UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND")
UNITS_OF_TIME = {name: unit for unit in _UNITS for name in (unit, f"{unit}S")}
