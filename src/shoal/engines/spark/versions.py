"""What the Python of executors has installed: asked by one tiny job when a session opens."""

from __future__ import annotations

from functools import cache
from importlib import metadata
from typing import TYPE_CHECKING, Any

from shoal.errors import ShoalError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

PACKAGES = ("duckdb", "pyarrow", "shoal")


def installed_here(_: int) -> str:
    """Runs on executors, where nothing of ours may be there."""
    import importlib.metadata

    found = []
    for package in ("duckdb", "pyarrow", "shoal"):
        try:
            found.append(importlib.metadata.version(package))
        except importlib.metadata.PackageNotFoundError:
            found.append("")
    return ",".join(found)


def installed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same by Arrow, which must work there."""
    import pyarrow  # noqa: ICN001 - a function that is sent away knows no other name

    for _ in batches:
        pass
    yield pyarrow.RecordBatch.from_pydict({"versions": [installed_here(0)]})


def detached(function: Any) -> Any:
    """A function without its module, so that executors need none."""
    import types

    known: dict[str, Any] = {"__builtins__": __builtins__, "__name__": "__main__"}
    if function is installed:
        known["installed_here"] = detached(installed_here)
    return types.FunctionType(function.__code__, known, function.__name__)


@cache
def ours() -> tuple[str, ...]:
    """The versions of the driver; on executors those of the task's process."""
    return tuple(metadata.version(package) for package in PACKAGES)


def are_ours(versions: Iterable[str]) -> bool:
    """Whether this process has the packages of the driver: executors may have come later than the session."""
    return [*map(_minor, versions)] == [*map(_minor, ours())]


def check(rows: list[str]) -> None:
    """E_SOURCE for executors that lack packages, or have another minor version of one than the driver."""
    here = dict(zip(PACKAGES, ours(), strict=True))
    for row in rows:
        there = dict(zip(PACKAGES, row.split(","), strict=True))
        missing = [package for package in PACKAGES if not there[package]]
        others = [package for package in PACKAGES if _minor(here[package]) != _minor(there[package])]
        if missing:
            raise _unlike(f"have no {', no '.join(missing)}", [f"{package}=={here[package]}" for package in missing])
        for package in others:
            wanted = f"{package}=={here[package]}"
            raise _unlike(f"have {package} {there[package]}, and the driver {here[package]}", [wanted])


def _unlike(what: str, wanted: list[str]) -> ShoalError:
    named = " ".join(each for each in wanted if not each.startswith("shoal=="))
    return ShoalError(
        "E_SOURCE",
        f"The executors of Spark {what}.",
        hint=f"pip install 'shoal[spark]' {named} on executors, or ship an environment by spark.archives.".replace(
            "  ", " "
        ),
    )


def _minor(version: str) -> list[str]:
    return version.split(".")[:2]
