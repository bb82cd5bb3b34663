"""Which functions are accepted: those of one record (or of one owner's records), as far as their code can tell.

A function that remembers something carries it from one owner to the next, and breaks the promise. The check finds what usually
goes wrong: a function that writes to globals or outer variables, or that closes over something which can change. It finds
mistakes, not intent: module globals, caches and generators with a seed of their own escape it.
"""

from __future__ import annotations

import datetime as dt
import dis
import enum
import functools
import inspect
import operator
import re
import types
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any
from uuid import UUID

from shoal.collections.global_writes import changed_globals
from shoal.collections.pickled import digest_of, is_loose, pickled
from shoal.errors import ShoalError
from shoal.plan.nodes import PythonStep

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SECONDS_A_CALL = 10.0
MANY_AT_ONCE = frozenset({"flat_map", "per_owner"})
_HINT = "A function sees one record (or one owner's records) and remembers nothing. Pass numbers, strings, tuples or frozensets."
_VALUES = (
    *(type(None), bool, int, float, complex, str, bytes, range, Decimal, Fraction, UUID),
    *(dt.date, dt.time, dt.timedelta, dt.tzinfo, re.Pattern, enum.Enum, types.ModuleType),
    *(operator.itemgetter, operator.attrgetter, operator.methodcaller, types.GenericAlias, types.UnionType),
)
_WRITES_GLOBALS = frozenset({"STORE_GLOBAL", "DELETE_GLOBAL"})
_WRITES_OUTER = frozenset({"STORE_DEREF", "DELETE_DEREF"})
_CHANGES = frozenset(
    {
        "append",
        "extend",
        "insert",
        "add",
        "update",
        "setdefault",
        "pop",
        "popitem",
        "remove",
        "discard",
        "clear",
        "write",
    }
)
"""Methods that change what they are called on."""


def step_of(
    kind: str, function: Callable[[Any], Any], *, most: int = 1, max_rows: int = 0, seconds: float = SECONDS_A_CALL
) -> PythonStep:
    """A checked function, ready to travel."""
    _refuse_wrong_kind(kind, function)
    check = StateCheck()
    check.value(function)
    pickle = pickled(function, check.modules)
    name = getattr(function, "__qualname__", type(function).__name__)
    label = re.sub(r"[^A-Za-z0-9_.<>]", "", name.rpartition("<locals>.")[2])[:40] or "function"
    return PythonStep(kind, pickle, digest_of(function, pickle), label, most, max_rows, seconds)


def _refuse_wrong_kind(kind: str, function: Any) -> None:
    if not callable(function) or isinstance(function, type):
        raise ShoalError(
            "E_USAGE", f"{kind} takes a function of one record.", hint="visits.filter(lambda v: v.cents > 0)"
        )
    plain = function.func if isinstance(function, functools.partial) else function
    if inspect.iscoroutinefunction(plain) or inspect.isasyncgenfunction(plain):
        raise ShoalError(
            "E_USAGE", f"{kind} takes a plain function, and this one is a coroutine.", hint="Leave out async."
        )
    if inspect.isgeneratorfunction(plain) and kind not in MANY_AT_ONCE:
        raise ShoalError(
            "E_USAGE",
            f"The function of {kind} yields several things, and one is due.",
            hint="Use flat_map for a function that gives several records.",
        )


class StateCheck:
    """Looks through a function and all that it holds; remembers which modules its functions come from."""

    def __init__(self) -> None:
        self._seen: dict[int, Any] = {}
        self.modules: set[str] = set()

    def value(self, value: Any) -> None:
        """E_CROSS_USER where something could carry state from one owner to the next."""
        if id(value) in self._seen:
            return
        self._seen[id(value)] = value
        if isinstance(value, _VALUES) and not isinstance(value, type):
            return
        for part in self._parts(value):
            self.value(part)

    def _parts(self, value: Any) -> Iterator[Any]:
        match value:
            case types.FunctionType():
                yield from self._function(value)
            case functools.partial():
                yield from (value.func, *value.args, *value.keywords.values())
            case types.MethodType():
                yield from (value.__self__, value.__func__)
            case types.BuiltinFunctionType() | types.MethodWrapperType():
                yield value.__self__
            case tuple() | frozenset():
                yield from value
            case type():
                yield from self._class(value)
            case types.MethodDescriptorType() | types.WrapperDescriptorType() | types.ClassMethodDescriptorType():
                return
            case staticmethod() | classmethod():
                yield value.__func__
            case property():
                yield from (part for part in (value.fget, value.fset, value.fdel) if part is not None)
            case _ if hasattr(value, "cache_info") and hasattr(value, "__wrapped__"):
                yield value.__wrapped__
            case _:
                yield from self._instance(value)

    def _function(self, function: types.FunctionType) -> Iterator[Any]:
        self.modules.add(function.__module__ or "")
        code = function.__code__
        _refuse_writes(code, frozenset(code.co_freevars), function.__globals__)
        for cell in function.__closure__ or ():
            try:
                yield cell.cell_contents
            except ValueError:  # a name that has no value yet
                continue
        yield from function.__defaults__ or ()
        yield from (function.__kwdefaults__ or {}).values()
        for name in _names_of(code):
            used = function.__globals__.get(name)
            # Functions and classes are code; other globals are only looked at, which their readers do as well.
            if isinstance(used, (types.FunctionType, type)):
                yield used

    def _class(self, class_: type) -> Iterator[Any]:
        """A class of the analyst's own: its methods, and what it keeps. Those of installed packages are trusted."""
        module = inspect.getmodule(class_)
        if module is None or not (module.__name__ == "__main__" or is_loose(module)):
            return
        self.modules.add(class_.__module__)
        for name, value in vars(class_).items():
            if not name.startswith("__") or name == "__call__":  # the others are Python's own, or made by dataclasses
                yield value

    def _instance(self, value: Any) -> Iterator[Any]:
        """Only what has a hash of its own is taken for something that does not change."""
        hashed: Any = type(value).__hash__
        if hashed is None or hashed is object.__hash__:
            raise _state(f"The function holds something that can change: {_shown(value)}.")
        yield type(value)
        yield from (getattr(value, "__dict__", None) or {}).values()


def _shown(value: Any) -> str:
    kind = type(value).__name__
    return f"{'an' if kind[:1].lower() in 'aeiou' else 'a'} {kind}"


def _state(message: str) -> ShoalError:
    return ShoalError("E_CROSS_USER", message, hint=_HINT)


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _names_of(code: types.CodeType) -> set[str]:
    return {name for part in _codes(code) for name in part.co_names}


def _refuse_writes(code: types.CodeType, outer: frozenset[str], known: dict[str, Any]) -> None:
    for part in _codes(code):
        changed = next((name for name in changed_globals(part) if name in known), None)
        if changed is not None:
            raise _state(f"The function changes the global {changed!r}.")
        before: dis.Instruction | None = None
        for instruction in dis.get_instructions(part):
            name = instruction.argval
            if instruction.opname in _WRITES_GLOBALS:
                raise _state(f"The function writes to the global name {name!r}.")
            if instruction.opname in _WRITES_OUTER and name in outer and name in part.co_freevars:
                raise _state(f"The function writes to the outer variable {name!r}.")
            if (
                before is not None
                and before.opname == "LOAD_GLOBAL"
                and _changes(instruction, known.get(before.argval))
            ):
                raise _state(f"The function changes the global {before.argval!r}.")
            before = instruction if instruction.opname != "CACHE" else before


def _changes(instruction: dis.Instruction, value: Any) -> bool:
    called = instruction.opname in {"LOAD_METHOD", "LOAD_ATTR"} and instruction.argval in _CHANGES
    return called and isinstance(value, (list, dict, set, bytearray))
