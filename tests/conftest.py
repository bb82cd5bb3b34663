"""What tests of every kind share: how long something takes, asked so that a busy machine changes no verdict."""

from __future__ import annotations

import gc
import os
import sys
import time

import pytest
from hypothesis import settings

# A run of the tests tells about the change, not about the luck of its examples: the same ones every time, unless asked.
settings.register_profile("steady", derandomize=True)
settings.register_profile("searching", derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))

TRIES = 5
TRACED = 4
"""How many times slower pure Python is at most while coverage follows every line."""


@pytest.fixture
def quickest():
    """`quickest(action, below)`: the least processor time of some tries, in seconds; the first below the limit is enough.

    What a promise of speed speaks of is the work itself. A collection of the garbage that thousands of other tests left
    behind, or a neighbour on the machine, can only add to it, so the least of several tries is told; a trace of coverage
    multiplies it, and is taken out.
    """

    def measure(action, below):
        least, slower = float("inf"), TRACED if sys.gettrace() is not None else 1
        for _ in range(TRIES):
            gc.collect()
            start = time.process_time()
            action()
            least = min(least, (time.process_time() - start) / slower)
            if least < below:
                break
        return least

    return measure
