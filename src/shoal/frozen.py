"""The `dataclass` of the standard library, made sooner: hundreds of records must not cost every start a tenth of a second.

The standard library writes and compiles six functions for each class. Here a class gets them ready made, bound to the names of
its fields; only `__init__` is compiled, and that when the first record is made. What a field is, slots, `fields`, `replace`,
`asdict` and `match` stay the standard library's, and records behave as its own do (tests/unit/test_frozen.py compares them).
"""

from __future__ import annotations

import dataclasses
from dataclasses import MISSING, FrozenInstanceError, fields
from functools import cache
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import dataclass

else:

    def dataclass(cls: type | None = None, /, *, frozen: bool = False, order: bool = False, **more: bool) -> Any:
        """The class as a record; those that can be changed or ordered are left to the standard library."""

        def made(written: type) -> type:
            if not frozen or order:
                return dataclasses.dataclass(written, frozen=frozen, order=order, **more)
            return _frozen(written, **more)

        return made if cls is None else made(cls)


__all__ = ["dataclass"]


def _frozen(
    written: type,
    *,
    slots: bool = False,
    eq: bool = True,
    repr: bool = True,  # noqa: A002 - its name
    init: bool = True,
) -> type:
    own = dict(written.__dict__)  # before the standard library looks: what a class writes itself is kept
    record: type = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots)(written)
    found = fields(record)
    methods: dict[str, Callable[..., Any]] = {
        "__setattr__": _refuse_setting,
        "__delattr__": _refuse_deleting,
    }
    if init:
        methods["__init__"] = _init_at_first_use(record)
    if slots:
        methods |= {"__getstate__": _state, "__setstate__": _restore}
    if repr:
        methods["__repr__"] = _repr_of(tuple(f.name for f in found if f.repr))
    if eq:
        methods["__eq__"] = _equality_of(tuple(f.name for f in found if f.compare))
        methods["__hash__"] = _hash_of(tuple(f.name for f in found if (f.compare if f.hash is None else f.hash)))
    for name, method in methods.items():
        if own.get(name) is None:  # a class that writes `__eq__` alone has None as its `__hash__`
            setattr(record, name, method)
    return record


def _init_at_first_use(record: type) -> Callable[..., None]:
    def __init__(self: object, *arguments: object, **named: object) -> None:  # noqa: N807 - it is one
        compiled = _init_of(record)
        type.__setattr__(record, "__init__", compiled)
        compiled(self, *arguments, **named)

    return __init__


def _init_of(record: type) -> Callable[..., None]:
    """`__init__` as the standard library writes it: parameters in the order of fields, then `__post_init__`."""
    known: dict[str, Any] = {"_set": object.__setattr__, "_missing": MISSING}
    parameters, lines = ["self"], []
    for number, f in enumerate(fields(record)):
        default, value = f"_{number}", f.name
        if f.default_factory is not MISSING:
            known[default] = f.default_factory
            value, default = f"{default}() if {f.name} is _missing else {f.name}", "_missing"
            if not f.init:
                value = f"_{number}()"
        elif f.default is not MISSING:
            known[default] = f.default
            value = f.name if f.init else default
        elif not f.init:
            continue  # `__post_init__` sets it
        if f.init:
            parameters.append(f"{f.name}={default}" if f"_{number}" in known else f.name)
        lines.append(f" _set(self, {f.name!r}, {value})")
    if hasattr(record, "__post_init__"):
        lines.append(" self.__post_init__()")
    exec("\n".join([f"def __init__({', '.join(parameters)}):", *lines, " return None"]), known)  # noqa: S102 - names only
    compiled: Callable[..., None] = known["__init__"]
    compiled.__qualname__, compiled.__module__ = f"{record.__qualname__}.__init__", record.__module__
    return compiled


def _values_of(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    """What reads these fields as a tuple."""
    if len(names) > 1:
        return attrgetter(*names)
    if names:
        read = attrgetter(*names)
        return lambda record: (read(record),)
    return lambda _: ()


def _equality_of(names: tuple[str, ...]) -> Callable[[Any, Any], Any]:
    values = _values_of(names)

    def __eq__(self: Any, other: object) -> Any:  # noqa: N807 - it is one
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    return __eq__


def _hash_of(names: tuple[str, ...]) -> Callable[[Any], int]:
    values = _values_of(names)

    def __hash__(self: Any) -> int:  # noqa: N807 - it is one
        return hash(values(self))

    return __hash__


def _repr_of(names: tuple[str, ...]) -> Callable[[Any], str]:
    @recursive_repr()
    def __repr__(self: Any) -> str:  # noqa: N807 - it is one
        return f"{self.__class__.__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    return __repr__


def _refuse_setting(_: object, name: str, __: object) -> NoReturn:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_deleting(_: object, name: str) -> NoReturn:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, name) for name in _names(self.__class__)]


def _restore(self: Any, state: list[Any]) -> None:
    for name, value in zip(_names(self.__class__), state, strict=True):
        object.__setattr__(self, name, value)


@cache
def _names(record: type) -> tuple[str, ...]:
    return tuple(f.name for f in fields(record))
