"""Recursion on a stack of its own: deep work succeeds, failures come through, limits are put back."""

import sys
import threading

import pytest

from shoal.stack import LEVELS, on_its_own_stack, one_stack


def depth(levels):
    return 1 + depth(levels - 1) if levels else 0


def test_work_may_go_deeper_than_the_caller_could():
    assert sys.getrecursionlimit() < 5_000
    assert on_its_own_stack(lambda: depth(5_000)) == 5_000


def test_how_deep_the_caller_stands_changes_nothing():
    def caller(levels):
        return on_its_own_stack(lambda: depth(900)) if levels == 0 else caller(levels - 1)

    assert caller(600) == 900


def test_what_goes_wrong_is_raised_where_the_caller_is():
    with pytest.raises(KeyError, match="lost"):
        on_its_own_stack(lambda: {}["lost"])
    with pytest.raises(RecursionError):
        on_its_own_stack(lambda: depth(2 * LEVELS))


def test_the_limits_of_the_process_are_put_back():
    before = sys.getrecursionlimit(), threading.stack_size()
    on_its_own_stack(lambda: depth(100))
    assert (sys.getrecursionlimit(), threading.stack_size()) == before


def test_many_at_once_do_not_take_the_room_from_each_other():
    usual = sys.getrecursionlimit()
    found = []
    threads = [threading.Thread(target=lambda: found.append(on_its_own_stack(lambda: depth(4_000)))) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [4_000] * 12
    assert sys.getrecursionlimit() == usual


def test_inside_one_stack_all_work_has_the_same_thread():
    with one_stack():
        first, second = (on_its_own_stack(threading.get_ident) for _ in range(2))
    assert first == second != threading.get_ident()


def test_work_that_asks_for_room_from_deep_down_has_a_thread_of_its_own():
    with one_stack():
        outer, inner = on_its_own_stack(lambda: (threading.get_ident(), on_its_own_stack(threading.get_ident)))
        shared = on_its_own_stack(lambda: (threading.get_ident(), on_its_own_stack(threading.get_ident)), shared=True)
    assert outer != inner
    assert shared == (outer, outer)


def test_after_a_failure_the_same_stack_goes_on():
    with one_stack():
        with pytest.raises(KeyError):
            on_its_own_stack(lambda: {}["lost"], shared=True)
        assert on_its_own_stack(lambda: depth(5_000)) == 5_000


def test_work_that_was_interrupted_gives_its_outcome_to_nobody():
    begun, go_on = threading.Event(), threading.Event()
    with one_stack():
        on_its_own_stack(lambda: None)
        from shoal import stack

        waiting = stack._here.kept._done

        class Interrupted:
            def get(self):
                begun.wait()
                raise KeyboardInterrupt

        stack._here.kept._done = Interrupted()
        with pytest.raises(KeyboardInterrupt):
            on_its_own_stack(lambda: (begun.set(), go_on.wait(), "late")[-1])
        assert on_its_own_stack(lambda: "next") == "next"
        go_on.set()
        assert waiting.get() == ("late", None)


def test_no_thread_is_left_behind():
    before = threading.active_count()
    for _ in range(20):
        on_its_own_stack(lambda: depth(10))
    assert threading.active_count() == before
