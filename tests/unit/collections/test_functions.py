"""Functions that carry something from one owner to the next are refused when a step is built."""

from __future__ import annotations

import datetime as dt
import functools
import io
import operator
import pickle
import random
import re
import threading
from dataclasses import dataclass
from decimal import Decimal
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from shoal.collections.functions import step_of
from shoal.errors import ShoalError

SEEN: list[int] = []
TARIFFS = {"a": 1}
COUNT = 0


@dataclass(frozen=True)
class Tariff:
    cents: int


@dataclass
class Loose:
    cents: int


LOOSE = Loose(1)


class Counter:
    def __init__(self) -> None:
        self.count = 0

    def __call__(self, record):
        self.count += record.x
        return self.count < 5


class Kept:
    seen: list[int] = []  # noqa: RUF012 - what is tested

    @staticmethod
    def look(record):
        return record


def closing_over(value):
    return lambda record: record.x == value


def with_default(value):
    def function(record, held=value):
        return record.x == held

    return function


def writes_global(record):
    global COUNT  # noqa: PLW0603 - what is tested
    COUNT += 1
    return record.x > COUNT


def writes_outer():
    count = 0

    def function(record):
        nonlocal count
        count += 1
        return record.x > count

    return function


def writes_outer_from_inside():
    count = 0

    def function(record):
        def inner():
            nonlocal count
            count += 1

        inner()
        return record.x > 0

    return function


def appends_to_global(record):
    SEEN.append(record.x)
    return True


def helper_with_state(record):
    return appends_to_global(record)


def uses_class_that_keeps(record):
    return Kept.look(record)


CHANGING = [
    [1],
    {"a": 1},
    {1},
    bytearray(b"a"),
    np.zeros(2),
    io.StringIO(),
    threading.Lock(),
    (n for n in [1]),
    iter([1]),
    Loose(1),
    Counter(),
    object(),
    random.Random(1),
    np.random.default_rng(1),
    ([1],),
    frozenset({(1, Counter())}),
    functools.partial(operator.add, [1]),
]
FIXED = [
    1,
    1.5,
    "a",
    b"a",
    True,
    None,
    (1, "a"),
    frozenset({1}),
    range(3),
    Decimal(1),
    dt.date(2024, 1, 1),
    dt.UTC,
    ZoneInfo("Europe/Paris"),
    re.compile("a"),
    re,
    Tariff(1),
    len,
    str.upper,
    "a".join,
    operator.itemgetter("a"),
    functools.partial(operator.add, 1),
    np.float64(1.5),
    Tariff,
]


@pytest.mark.parametrize("held", CHANGING, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("holding", [closing_over, with_default, lambda value: functools.partial(operator.eq, value)])
def test_a_function_that_holds_what_can_change_is_refused(holding, held):
    with pytest.raises(ShoalError) as error:
        step_of("filter", holding(held))
    assert error.value.code == "E_CROSS_USER"


@pytest.mark.parametrize("held", FIXED, ids=lambda value: type(value).__name__)
def test_a_function_that_holds_what_stays_the_same_is_accepted(held):
    assert step_of("filter", closing_over(held)).kind == "filter"
    assert step_of("filter", with_default(held)).kind == "filter"


@pytest.mark.parametrize(
    "function",
    [
        *(writes_global, writes_outer(), writes_outer_from_inside(), appends_to_global, helper_with_state, Counter()),
        *(uses_class_that_keeps, functools.partial(writes_global), Counter().__call__),
    ],
    ids=lambda function: re.sub(r" at 0x\w+", "", repr(function)),
)
def test_a_function_that_writes_outside_of_itself_is_refused(function):
    with pytest.raises(ShoalError) as error:
        step_of("filter", function)
    assert error.value.code == "E_CROSS_USER"


def sets_an_item(record):
    TARIFFS[record.x] = 1


def counts_up(record):
    TARIFFS["n"] += record.x


def sets_an_attribute(record):
    LOOSE.cents = record.x


def sets_a_part(record):
    LOOSE.cents["a"]["b"] = record.x


def deletes_an_item(record):
    del TARIFFS[record.x]


def sets_a_slice(record):
    SEEN[0:1] = [record.x]


def sets_items_in_a_loop(record):
    for number in (1, 2):
        TARIFFS[number if record.x else 3] = TARIFFS.get(number, 0) + 1


def sets_inside(record):
    def inner():
        TARIFFS["n"] = record.x

    return inner()


SETTING = [
    *(sets_an_item, counts_up, sets_an_attribute, sets_a_part, deletes_an_item, sets_a_slice, sets_items_in_a_loop),
    sets_inside,
]


@pytest.mark.parametrize("function", SETTING, ids=lambda function: function.__name__)
def test_a_function_that_sets_a_part_of_a_global_is_refused(function):
    with pytest.raises(ShoalError, match=r"changes the global '(TARIFFS|LOOSE|SEEN)'") as error:
        step_of("filter", function)
    assert error.value.code == "E_CROSS_USER"


def test_a_function_may_read_globals_and_set_parts_of_what_is_its_own():
    def function(record):
        made, rows = {"cents": TARIFFS["a"]}, []
        made["cents"] += TARIFFS.get(record.x, 0) if record.x in SEEN else LOOSE.cents
        rows[0:0] = [TARIFFS["a"]]
        made[TARIFFS["a"]] = TARIFFS
        del made[TARIFFS["a"]]
        own = Loose(TARIFFS["a"])
        own.cents = LOOSE.cents
        for name in TARIFFS:
            made[name] = len(rows) if name else None
        return made

    assert step_of("map", function).label == "function"


def test_a_function_may_write_to_variables_of_its_own():
    def function(record):
        total, seen = 0, []

        def add(value):
            nonlocal total
            total += value
            seen.append(value)

        add(record.x)
        return total > 0

    assert step_of("filter", function).label == "function"


def test_a_global_that_is_only_read_is_accepted():
    assert step_of("filter", lambda record: TARIFFS.get(record.x)).label == "<lambda>"


def test_a_function_that_calls_itself_is_accepted():
    def depth(record):
        return 0 if record is None else depth(None)

    assert step_of("filter", depth).label == "depth"


async def waiting(record):
    return record


def yielding(record):
    yield record


@pytest.mark.parametrize(
    ("kind", "function"),
    [("filter", waiting), ("map", yielding), ("filter", functools.partial(yielding)), ("map", None), ("map", dict)],
)
def test_what_is_no_plain_function_is_refused(kind, function):
    with pytest.raises(ShoalError) as error:
        step_of(kind, function)
    assert error.value.code == "E_USAGE"


def test_a_generator_may_give_several_records():
    assert step_of("flat_map", yielding).kind == "flat_map"


class Unpicklable:
    def __hash__(self):
        return 1

    def __eq__(self, other):
        return self is other

    def __reduce__(self):
        raise pickle.PicklingError("secret")


def test_what_cannot_be_pickled_is_refused_without_a_word_of_why():
    with pytest.raises(ShoalError) as error:
        step_of("filter", closing_over(Unpicklable()))
    assert error.value.code == "E_USAGE"
    assert "secret" not in str(error.value)


def test_the_digest_names_the_code_and_not_the_place():
    def first(record):
        return record.x > 1

    def second(record):
        return record.x > 2

    same = [
        step_of("filter", lambda record: record.x > 7).digest,
        step_of("filter", lambda record: record.x > 7).digest,
    ]
    assert same[0] == same[1]
    assert step_of("filter", first).digest != step_of("filter", second).digest


def test_the_digest_knows_what_a_function_holds():
    assert step_of("filter", closing_over(1)).digest != step_of("filter", closing_over(2)).digest


def test_a_name_cannot_write_into_the_ledger():
    def function(record):
        return record

    function.__qualname__ = "*/ DROP -- \n'"
    assert step_of("filter", function).label == "DROP"
