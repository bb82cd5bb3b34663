"""A service over HTTP on a free port, and clients with tokens."""

from __future__ import annotations

import pytest
from web_server import Served


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    one = Served(tmp_path_factory.mktemp("served"))
    yield one
    one.close()


@pytest.fixture
def ann(served):
    with served.client("ann") as client:
        yield client


@pytest.fixture
def carla(served):
    with served.client("carla") as client:
        yield client
