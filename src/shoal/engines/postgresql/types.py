"""Types of PostgreSQL → types of queries, and the expression that hands a column over so that no value can fail on the way."""

from __future__ import annotations

from shoal.frozen import dataclass

_FIRST, _LAST = "0001-01-01", "10000-01-01"
UNSUPPORTED = " (not supported)"
"""Ends the name of a type that queries cannot speak of."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A column of the server: the name of its type (of a domain, its base), and the modifier that holds a precision."""

    type: str
    modifier: int = -1
    is_enum: bool = False

    @property
    def precision(self) -> tuple[int, int] | None:
        """(digits, digits after the point) of a numeric that a decimal can hold."""
        if self.type != "numeric" or self.modifier < 4:
            return None
        digits, scale = (self.modifier - 4) >> 16, (self.modifier - 4) & 0x7FF
        scale = scale - 0x800 if scale & 0x400 else scale  # from version 15 on a scale may be negative
        return (digits, scale) if 0 <= scale <= digits <= 38 else None

    @property
    def named(self) -> str:
        """The type in the words of the embedded engine, which computes with it."""
        if self.is_enum:
            return "VARCHAR"
        if self.precision is not None:
            return "DECIMAL({},{})".format(*self.precision)
        return _NAMES.get(self.type) or f"{self.type}{UNSUPPORTED}"

    @property
    def is_read(self) -> bool:
        """Whether queries can speak of it; a numeric without precision is read as text, for a catalog that states one."""
        return not self.named.endswith(UNSUPPORTED) or self.type == "numeric"

    @property
    def kept_as(self) -> str:
        """The type of the column that rows are kept in."""
        return "VARCHAR" if self.named.endswith(UNSUPPORTED) else self.named

    def handed_over(self, column: str, longest: int | None = None) -> str:
        """The expression of the SELECT list; what no calendar has is NULL, and so are strings of more than `longest` bytes."""
        if self.type in {"date", "timestamp"}:
            type_ = f"pg_catalog.{self.type}"
            return (
                f"CASE WHEN pg_catalog.isfinite({column}) AND {column} OPERATOR(pg_catalog.>=) {type_} '{_FIRST}' "
                f"AND {column} OPERATOR(pg_catalog.<) {type_} '{_LAST}' THEN {column} END"
            )
        if self.type == "timestamptz":
            inside = (
                f"pg_catalog.isfinite({column}) AND {column} OPERATOR(pg_catalog.>=) pg_catalog.timestamptz '{_FIRST} 00:00+00' "
                f"AND {column} OPERATOR(pg_catalog.<) pg_catalog.timestamptz '{_LAST} 00:00+00'"
            )
            return f"CASE WHEN {inside} THEN pg_catalog.timezone('UTC', {column}) END"
        if self.type == "time":
            return f"CASE WHEN {column} OPERATOR(pg_catalog.<) pg_catalog.time '24:00' THEN {column} END"
        if self.is_enum or self.type in _AS_TEXT:
            written = f"CAST({column} AS pg_catalog.text)"
            if longest is None:
                return written
            return f"CASE WHEN pg_catalog.octet_length({written}) OPERATOR(pg_catalog.<=) {longest} THEN {written} END"
        return f"CAST({column} AS pg_catalog.{self.type})"


_NAMES = {
    "int2": "SMALLINT",
    "int4": "INTEGER",
    "int8": "BIGINT",
    "float4": "FLOAT",
    "float8": "DOUBLE",
    "bool": "BOOLEAN",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
    "timestamptz": "TIMESTAMP",
    "time": "TIME",
    "text": "VARCHAR",
    "varchar": "VARCHAR",
    "bpchar": "VARCHAR",
    "uuid": "VARCHAR",
    "json": "VARCHAR",
}
_AS_TEXT = {"numeric", "text", "varchar", "bpchar", "uuid", "json"}
ORDERED = {"int2", "int4", "int8", "date"}
"""What a condition with an order may be handed on for."""
TEXTS = {"text", "varchar", "bpchar"}
"""What a condition on a string may be handed on for: constants of other types can be errors."""
