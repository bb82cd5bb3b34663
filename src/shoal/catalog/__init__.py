"""The catalog: what a custodian says about the data. Tables that are not in it do not exist for queries."""

from shoal.catalog.defaults import Defaults
from shoal.catalog.tables import (
    CARRIED_OWNER,
    EACH_ROW,
    Catalog,
    ColumnFacts,
    CsvOptions,
    Reference,
    Table,
    TablePolicy,
    fold,
    root_of,
)

__all__ = [
    "CARRIED_OWNER",
    "EACH_ROW",
    "Catalog",
    "ColumnFacts",
    "CsvOptions",
    "Defaults",
    "Reference",
    "Table",
    "TablePolicy",
    "fold",
    "root_of",
]
