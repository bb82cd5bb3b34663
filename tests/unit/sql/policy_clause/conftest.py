"""One session over the people for a file of tests: nobody limits what it spends."""

from __future__ import annotations

import pytest
from policy_people import CATALOG, TABLES

import shoal


@pytest.fixture(scope="module")
def session():
    with shoal.connect(TABLES, CATALOG) as opened:
        yield opened
