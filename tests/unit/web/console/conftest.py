"""A service over HTTP, and browsers that are signed in."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))
from console_browser import Browser
from web_server import Served


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    one = Served(tmp_path_factory.mktemp("served"))
    yield one
    one.close()


@pytest.fixture(scope="module")
def ann(served):
    with Browser(served, "ann") as browser:
        yield browser


@pytest.fixture(scope="module")
def carla(served):
    with Browser(served, "carla") as browser:
        yield browser
