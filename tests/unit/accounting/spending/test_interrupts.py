"""Ctrl+C that is held back: it comes when it is let go, and not before; a second one is not held."""

import signal
import threading

import pytest

from shoal.accounting.spending.interrupts import HELD, HeldInterrupts


@pytest.fixture(autouse=True)
def heard():
    """A run in the background starts with Ctrl+C ignored, and what is ignored is not held."""
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, usual)


def test_ctrl_c_is_raised_where_it_is_let_go():
    held = HeldInterrupts()
    signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        held.let_go()
    held.let_go()


def test_a_second_one_is_not_held():
    held = HeldInterrupts()
    try:
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    finally:
        with pytest.raises(KeyboardInterrupt):
            held.let_go()


def test_signals_are_what_they_were():
    before = [signal.getsignal(number) for number in HELD]
    HeldInterrupts().let_go()
    assert [signal.getsignal(number) for number in HELD] == before


def test_other_threads_hold_nothing():
    before, seen = signal.getsignal(signal.SIGINT), []

    def work():
        held = HeldInterrupts()
        seen.append(signal.getsignal(signal.SIGINT))
        held.let_go()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]
