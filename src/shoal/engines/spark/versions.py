"""What the Python of executors has installed: asked by one tiny job when a session opens."""

from __future__ import annotations

from importlib import metadata
from typing import TYPE_CHECKING, Any

from shoal.errors import ShoalError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

PACKAGES = ("duckdb", "pyarrow", "shoal")


def installed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Runs on executors, where nothing of ours may be there."""
    import importlib.metadata

    import pyarrow  # noqa: ICN001 - a function that is sent away knows no other name

    for _ in batches:
        pass
    found = []
    for package in ("duckdb", "pyarrow", "shoal"):
        try:
            found.append(importlib.metadata.version(package))
        except importlib.metadata.PackageNotFoundError:
            found.append("")
    yield pyarrow.RecordBatch.from_pydict({"versions": [",".join(found)]})


def detached() -> Any:
    """The same function without its module, so that executors need none."""
    import types

    return types.FunctionType(installed.__code__, {"__builtins__": __builtins__, "__name__": "__main__"}, "installed")


def check(rows: list[str]) -> None:
    """E_SOURCE for executors that lack a package, or have another minor version of it than the driver."""
    for row in rows:
        for package, there in zip(PACKAGES, row.split(","), strict=True):
            here = metadata.version(package)
            if _minor(here) != _minor(there):
                what = f"have {package} {there}, and the driver {here}" if there else f"have no {package}"
                raise ShoalError(
                    "E_SOURCE",
                    f"The executors of Spark {what}.",
                    hint=f"pip install 'shoal[spark]' {package}=={here} on executors, or ship an environment by spark.archives.",
                )


def _minor(version: str) -> list[str]:
    return version.split(".")[:2]
