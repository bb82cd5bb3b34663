"""Noise that falls where it fell the last time, so that a run of the tests depends on the change and not on luck.

Every test, and every fixture that several tests share, has its own stream of bits, named after it: they are the same alone, in
another order and in another process. A child of a fork, other programs, nightly tests and those marked `system_noise` use the
operating system's bits. `SHOAL_TESTS_NOISE=system` gives them to all tests: a test that then fails by chance is too narrow.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import contextmanager

import numpy as np
import pytest

from shoal.mechanisms.entropy import SystemEntropy
from shoal.mechanisms.sampling import opendp_samplers

IS_STEADY = os.environ.get("SHOAL_TESTS_NOISE", "steady") == "steady"
_streams: list[np.random.Generator | None] = [None]
_can_draw = opendp_samplers.can_draw


def stream(name: str) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(int.from_bytes(hashlib.sha256(name.encode()).digest())))


@contextmanager
def drawing_from(source: np.random.Generator | None):
    """Inside, the noise of this process comes from this stream; from the operating system if there is none."""
    _streams.append(source if IS_STEADY else None)
    try:
        yield
    finally:
        _streams.pop()


def _bytes(_self: SystemEntropy, count: int) -> bytes:
    source = _streams[-1]
    return os.urandom(count) if source is None else source.bytes(count)


def _own_samplers(scale) -> bool:
    """OpenDP draws from the operating system, whatever is asked of it: only our own samplers can be steady."""
    return _streams[-1] is None and _can_draw(scale)


if IS_STEADY:
    SystemEntropy.bytes = _bytes
    opendp_samplers.can_draw = _own_samplers
    os.register_at_fork(after_in_child=lambda: _streams.append(None))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    group = item.get_closest_marker("xdist_group")
    name = item.nodeid if group is None else item.nodeid.removesuffix(f"@{group.args[0]}")
    is_for_real = any(item.get_closest_marker(mark) for mark in ("system_noise", "nightly"))
    with drawing_from(None if is_for_real else stream(name)):
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_fixture_setup(fixturedef, request):
    if fixturedef.scope == "function":
        return (yield)
    with drawing_from(stream(f"{fixturedef.baseid} {fixturedef.argname} {getattr(request, 'param_index', 0)}")):
        return (yield)
