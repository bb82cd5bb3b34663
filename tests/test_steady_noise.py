"""Tests draw the same noise every time; a child process and marked tests draw from the operating system."""

from __future__ import annotations

import os
from fractions import Fraction

import pytest

from shoal.mechanisms.entropy import SYSTEM
from shoal.mechanisms.sampling.samplers import discrete_laplace
from steady_noise import IS_STEADY, drawing_from, stream

pytestmark = pytest.mark.skipif(not IS_STEADY, reason="all noise is the operating system's")


def drawn(name: str) -> list[int]:
    with drawing_from(stream(name)):
        return [*discrete_laplace(Fraction(2**20), 8), *discrete_laplace(Fraction(2**20), 600)]


def test_one_name_has_one_noise_in_small_and_large_batches():
    assert drawn("a") == drawn("a") != drawn("b")


def test_this_test_draws_what_it_drew_before():
    assert SYSTEM.bytes(8).hex() == "b5d023f37aafc4ea"


def test_a_child_draws_for_itself():
    reader, writer = os.pipe()
    with drawing_from(stream("a")):
        if not (child := os.fork()):
            os.write(writer, SYSTEM.bytes(32))
            os._exit(0)
        os.waitpid(child, 0)
        assert os.read(reader, 32) != SYSTEM.bytes(32)


@pytest.mark.system_noise
def test_marked_tests_draw_from_the_operating_system():
    with drawing_from(stream("a")):
        steady = SYSTEM.bytes(32)
    with drawing_from(None):
        assert SYSTEM.bytes(32) != steady
    assert SYSTEM.bytes(32) != steady
