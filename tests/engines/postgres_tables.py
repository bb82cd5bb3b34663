"""Arrow tables written into a PostgreSQL database, column by column of the nearest type."""

from __future__ import annotations

import pyarrow as pa


def type_named(type_: pa.DataType) -> str:
    """The column type for an Arrow type."""
    if pa.types.is_decimal(type_):
        return f"numeric({type_.precision}, {type_.scale})"
    names = {
        pa.int8(): "int2",
        pa.int16(): "int2",
        pa.int32(): "int4",
        pa.int64(): "int8",
        pa.float64(): "float8",
        pa.string(): "text",
        pa.bool_(): "bool",
        pa.date32(): "date",
        pa.timestamp("us"): "timestamp",
    }
    return names[type_]


def write(connection, name: str, table: pa.Table) -> None:
    """CREATE TABLE and its rows."""
    listed = ", ".join(f'"{field.name}" {type_named(field.type)}' for field in table.schema)
    connection.execute(f"CREATE TABLE {name} ({listed})")
    with connection.cursor() as cursor, cursor.copy(f"COPY {name} FROM STDIN") as copy:
        for row in table.to_pylist():
            copy.write_row(list(row.values()))
