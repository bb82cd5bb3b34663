"""Questions of every kind, small enough to look at each of their reports."""

from __future__ import annotations

import pytest

from shoal import local

THREE = ["never", "once", "often"]


@pytest.fixture
def questions():
    """One question of each kind and oracle."""
    return {
        "subset": local.choice([*THREE, "daily", "hourly"], epsilon=0.5, oracle="subset"),
        "projective": local.choice(list(range(10)), epsilon=1, oracle="projective"),
        "unary": local.choice(THREE, epsilon=1, oracle="unary"),
        "hashing": local.choice(THREE, epsilon=1, oracle="hashing"),
        "longitudinal": local.choice(THREE, longitudinal=(1, 4)),
        "text": local.text(epsilon=2),
        "sign": local.number(0, 120, epsilon=0.5),
        "number": local.number(-1, 1, epsilon=2),
        "count": local.count(10, epsilon=3),
    }


VALUES = {
    "subset": "once",
    "projective": 7,
    "unary": "once",
    "hashing": "once",
    "longitudinal": "often",
    "text": "anything at all",
    "sign": 33,
    "number": 0.25,
    "count": 4,
}


@pytest.fixture
def values():
    """A value for each of the questions."""
    return dict(VALUES)
