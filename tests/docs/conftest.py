from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from shoal import datasets


@pytest.fixture(scope="session")
def sample_shop(tmp_path_factory) -> Path:
    """A folder with data/*.parquet and shoal.toml, as `shoal demo` leaves it."""
    folder = tmp_path_factory.mktemp("shop")
    datasets.write_shop(folder)
    return folder


@pytest.fixture
def workplace(sample_shop, tmp_path, monkeypatch) -> Path:
    """A fresh copy of the sample shop as the current folder, with `shoal` and `python` of this environment in reach."""
    place = tmp_path / "shop"
    shutil.copytree(sample_shop, place)
    monkeypatch.chdir(place)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    return place
