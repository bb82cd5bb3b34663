"""What tests of every kind share: how long something takes, asked so that a busy machine changes no verdict."""

from __future__ import annotations

import gc
import time

import pytest

TRIES = 5


@pytest.fixture
def quickest():
    """`quickest(action, below)`: the least processor time of some tries, in seconds; the first below the limit is enough.

    What a promise of speed speaks of is the work itself. A collection of the garbage that thousands of other tests left
    behind, a trace of coverage or a neighbour on the machine can only add to it, so the least of several tries is told.
    """

    def measure(action, below):
        least = float("inf")
        for _ in range(TRIES):
            gc.collect()
            start = time.process_time()
            action()
            least = min(least, time.process_time() - start)
            if least < below:
                break
        return least

    return measure
