"""Settings of a connection: those that lock it, and those under which statements would mean something else."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from shoal.catalog import fold
from shoal.engines.python_rows.private_folder import private_folder
from shoal.errors import ShoalError

if TYPE_CHECKING:
    import duckdb

LOCKDOWN = (
    "SET enable_external_access = false",
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET allow_community_extensions = false",
    "SET lock_configuration = true",
)

_share: list[int] = []


def keep_within(size: int) -> None:
    """Databases that this process opens from now on use this many bytes, and write to disk what needs more."""
    _share[:] = [size]


def limits() -> tuple[str, ...]:
    """Statements that hold a new connection to its share."""
    return tuple(f"SET memory_limit = '{size // 1024} KiB'" for size in _share)


_numbers = itertools.count()


def spill_privately(connection: duckdb.DuckDBPyConnection) -> None:
    """What does not fit memory goes to a folder of our own, and not to the working folder; E_SOURCE where there is none."""
    if not is_locked(connection):
        place = str(private_folder() / str(next(_numbers))).replace("'", "''")  # the engine makes it when it needs it
        connection.execute(f"SET temp_directory = '{place}'")


USUAL = {
    "ieee_floating_point_ops": "true",  # else EXP(1000) is an error, on the rows where it is too large
    "arrow_lossless_conversion": "false",  # else wide integers arrive as bytes, where some owner's number needs them
    "dialect_compatibility_mode": "none",
    "legacy_disable_null_type": "false",
    "warnings_as_errors": "false",
}
"""Settings that change how statements are read or computed, and what they must be."""


def is_locked(connection: duckdb.DuckDBPyConnection) -> bool:
    """Whether another session of this process has the same database open: it is locked once, for all of them."""
    names = "enable_external_access", "lock_configuration"
    found = [connection.sql(f"SELECT system.main.current_setting('{n}')").fetchall()[0][0] for n in names]
    return found == [False, True]


def refuse_collation(connection: duckdb.DuckDBPyConnection) -> None:
    """A default collation makes different strings equal: groups would show one owner's spelling, and owners would merge."""
    setting = connection.sql("SELECT system.main.current_setting('default_collation')").fetchall()[0][0]
    if setting and fold(str(setting)) != "binary":
        raise ShoalError(
            "E_SOURCE",
            "The connection compares strings with a default collation.",
            hint="Run RESET default_collation before passing the connection in.",
        )


def refuse_other_meanings(connection: duckdb.DuckDBPyConnection) -> None:
    """Settings under which statements mean something else than where they are read, or fail on some rows."""
    wanted = ", ".join(f"system.main.current_setting('{name}')" for name in USUAL)  # reading all settings takes longer
    (values,) = connection.sql(f"SELECT {wanted}").fetchall()
    found = {name for name, value in zip(USUAL, values, strict=True) if fold(str(value)) != USUAL[name]}
    if found:
        raise ShoalError(
            "E_SOURCE",
            f"The connection has settings that change what statements mean: {', '.join(sorted(found))}.",
            hint=f"Before passing the connection in, run RESET {min(found)}.",
        )
