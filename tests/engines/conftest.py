"""What tests of engines share: sessions that many questions are asked of."""

from __future__ import annotations

from contextlib import ExitStack

import pytest


@pytest.fixture(scope="module")
def kept():
    """`kept(about, open)`: what `open()` gives, opened once for everything that is the same, closed with the module."""
    with ExitStack() as stack:
        opened = {}

        def one(about, open_):
            if about not in opened:
                opened[about] = stack.enter_context(open_())
            return opened[about]

        yield one
