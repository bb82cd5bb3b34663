from __future__ import annotations

import os
import resource
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from shoal import datasets
from shoal.cli.main import run

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Outcome:
    status: int
    out: str
    err: str


@pytest.fixture
def shoal(capfd):
    """The program: `shoal("query", "SELECT …")` → what it said and its exit status."""

    def call(*words: str) -> Outcome:
        capfd.readouterr()
        with pytest.raises(SystemExit) as left:
            run(list(words))
        said = capfd.readouterr()
        return Outcome(left.value.code, said.out, said.err)

    return call


@pytest.fixture(scope="session")
def processor_seconds(tmp_path_factory):
    """The processor time of the program as users start it, bytecode compiled: the best of three.

    Not wall time: other tests run beside this one.
    """
    environment = os.environ | {
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONPYCACHEPREFIX": str(tmp_path_factory.mktemp("bytecode")),
    }

    def once(words: tuple[str, ...]) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "shoal", *words], env=environment, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    def best(*words: str) -> float:
        once(words)
        return min(once(words) for _ in range(3))

    return best


@pytest.fixture(scope="session")
def shop_folder(tmp_path_factory) -> Path:
    """data/*.parquet and shoal.toml of a shop with 2,000 customers."""
    folder = tmp_path_factory.mktemp("cli-shop")
    datasets.write_shop(folder, datasets.shop(customers=2_000))
    return folder


@pytest.fixture
def in_shop(shop_folder, tmp_path, monkeypatch) -> Path:
    """A folder of its own as the current one, with links to the shop's files."""
    for name in ("data", "shoal.toml"):
        (tmp_path / name).symlink_to(shop_folder / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path
