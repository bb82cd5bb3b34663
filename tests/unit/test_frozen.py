"""Our `dataclass` beside the standard library's: the same records, sooner."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from dataclasses import field
from typing import ClassVar

import pytest

from shoal import frozen

KINDS = [
    {"frozen": True},
    {"frozen": True, "slots": True},
    {"frozen": True, "eq": False},
    {"frozen": True, "repr": False, "slots": True},
    {"frozen": True, "order": True},
    {"slots": True},
    {},
]


def family(dataclass, **kind):
    """A class and one that inherits, made by a decorator."""

    class Base:
        """One."""

        a: int
        b: tuple[str, ...] = ()
        shared: ClassVar[int] = 3
        c: list[int] = field(default_factory=list, compare=False)
        d: int = field(default=7, repr=False)
        e: int = field(init=False, default=1)

    Base = dataclass(Base, **kind)

    class Child(Base):
        """Another."""

        b: tuple[str, ...] = ("x",)
        f: float = 0.5

        def __post_init__(self):
            if self.f < 0:
                raise ValueError("negative")

    return Base, dataclass(Child, **kind)


@pytest.mark.parametrize("kind", KINDS)
def test_records_are_those_of_the_standard_library(kind):
    for ours, theirs in zip(family(frozen.dataclass, **kind), family(dataclasses.dataclass, **kind), strict=True):
        for arguments, named in (((1,), {}), ((1, ("y",)), {"c": [5]}), ((2,), {"d": 4})):
            one, other = ours(*arguments, **named), theirs(*arguments, **named)
            assert dataclasses.asdict(one) == dataclasses.asdict(other)
            if kind.get("repr", True):
                assert repr(one) == repr(other)
            assert (one == ours(*arguments, **named)) is (other == theirs(*arguments, **named))
            assert (
                (hash(one) == hash(ours(*arguments))) is (hash(other) == hash(theirs(*arguments)))
                if kind.get("frozen")
                else one.__hash__ is other.__hash__ is None
            )
            assert one != other
            assert dataclasses.replace(one, a=9).a == 9
            assert copy.copy(one).a == one.a
            assert copy.deepcopy(one).b == one.b
            assert ours.__match_args__ == theirs.__match_args__
            assert hasattr(one, "__dict__") is hasattr(other, "__dict__")
        for wrong in ((), (1, (), [], 2, 3, 4, 5)):
            for kept in (ours, theirs):
                with pytest.raises(TypeError, match="__init__"):
                    kept(*wrong)
        assert ours(1).c is not ours(1).c


@pytest.mark.parametrize("slots", [False, True])
def test_records_do_not_change(slots):
    _, child = family(frozen.dataclass, frozen=True, slots=slots)
    record = child(1)
    for change in (lambda: setattr(record, "a", 2), lambda: delattr(record, "a"), lambda: setattr(record, "new", 2)):
        with pytest.raises(dataclasses.FrozenInstanceError, match="cannot"):
            change()
    with pytest.raises(ValueError, match="negative"):
        child(1, f=-1.0)


@frozen.dataclass(frozen=True, slots=True)
class Sent:
    """A record that travels."""

    a: int
    b: str = "b"


@frozen.dataclass(frozen=True)
class Own:  # noqa: PLW1641 - the decorator adds it
    """A record with an equality and a text of its own."""

    a: int

    def __eq__(self, other):
        return isinstance(other, Own)

    def __repr__(self):
        return "own"


def test_records_travel_and_keep_what_they_write_themselves():
    assert pickle.loads(pickle.dumps(Sent(3))) == Sent(3)  # noqa: S301 - our own
    assert Own(1) == Own(2)
    assert repr(Own(1)) == "own"
    assert hash(Own(1)) == hash((1,))
    match Sent(4):
        case Sent(a, b):
            assert (a, b) == (4, "b")
