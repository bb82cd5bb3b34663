"""A function on the allow-list: how it binds to typed arguments, and its total form in the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shoal.frozen import dataclass
from shoal.plan.expressions import Call, Expression, Literal, Position
from shoal.plan.types import BOOLEAN, Kind, Type
from shoal.sql.functions.coerce import coerced, named, unsupported

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlglot import exp

    Form = Callable[..., exp.Expr]
    Bind = Callable[["Function", tuple[Expression, ...], Position], Expression]


@dataclass(frozen=True, slots=True)
class Constant:
    """A parameter that must be a constant of this type; `check` says in a sentence what is wrong with it, or None."""

    type: Type
    check: Callable[[Any], str | None] = lambda _: None


@dataclass(frozen=True, slots=True)
class Overload:
    """One way to call a function: parameter types, result type, and its form over compiled arguments."""

    takes: tuple[Type | Constant, ...]
    gives: Type
    form: Form

    def match(self, arguments: Sequence[Expression]) -> tuple[Expression, ...] | None:
        """The arguments converted for this overload, or None."""
        if len(arguments) != len(self.takes):
            return None
        converted = [_as_taken(a, parameter) for a, parameter in zip(arguments, self.takes, strict=True)]
        return (
            None if any(part is None for part in converted) else tuple(part for part in converted if part is not None)
        )

    def takes_exactly(self, call: Call) -> bool:
        """Whether a bound call uses this overload: nothing is left to convert."""
        wanted = [(taken if isinstance(taken, Type) else taken.type).plain() for taken in self.takes]
        return self.gives == call.type and wanted == [argument.type.plain() for argument in call.arguments]


def _as_taken(argument: Expression, parameter: Type | Constant) -> Expression | None:
    if isinstance(parameter, Type):
        return coerced(argument, parameter)
    constant = coerced(argument, parameter.type)
    return constant if isinstance(constant, Literal) and constant.value is not None else None


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the allow-list.

    `bind` turns checked arguments into an expression; `form` writes a bound call for the engine. Functions made of
    overloads share both.
    """

    name: str
    usage: str
    meaning: str
    bind: Bind
    form: Callable[[Call, list[exp.Expr]], exp.Expr]
    aliases: tuple[str, ...] = ()
    operator: bool = False


def overloaded(name: str, usage: str, meaning: str, *overloads: Overload, aliases: tuple[str, ...] = ()) -> Function:
    """A function that uses its first matching overload: list narrow types before wide ones."""

    def bind(function: Function, arguments: tuple[Expression, ...], position: Position) -> Expression:
        for number, overload in enumerate(overloads):
            taken = overload.match(arguments)
            if taken is not None:
                _check_constants(overload, taken, position)
                return Call(function.name, taken, overload.gives, position, number)
        raise wrong_arguments(function, arguments, position)

    def form(call: Call, arguments: list[exp.Expr]) -> exp.Expr:
        chosen = overloads[call.overload]
        if not chosen.takes_exactly(call):
            raise AssertionError(f"no overload of {name} fits its own call")
        return chosen.form(*arguments)

    return Function(name, usage, meaning, bind, form, aliases)


def _check_constants(overload: Overload, taken: tuple[Expression, ...], position: Position) -> None:
    for argument, parameter in zip(taken, overload.takes, strict=True):
        if isinstance(parameter, Constant) and isinstance(argument, Literal):
            complaint = parameter.check(argument.value)
            if complaint:
                raise unsupported(complaint, argument.position or position)


_NUMBERS = frozenset({Kind.INTEGER, Kind.DOUBLE, Kind.DECIMAL})


def wrong_arguments(function: Function, arguments: Sequence[Expression], position: Position) -> Exception:
    """The error for a call that fits no overload."""
    found = ", ".join(_shown(a) for a in arguments) or "nothing"
    hint = function.meaning
    if "time" in function.usage and any(a.type.kind is Kind.TEXT and not isinstance(a, Literal) for a in arguments):
        hint = "Read the string as a time first: STRPTIME(x, '%Y-%m-%d'), in the format that it is written in."
    elif any(a.type.kind is Kind.BOOLEAN for a in arguments) and any(a.type.kind in _NUMBERS for a in arguments):
        hint = "As a number, a condition is CAST(p AS INTEGER): 1 where it is true, 0 where it is false."
    return unsupported(f"{function.usage} does not take ({found}).", position, hint=hint)


def _shown(argument: Expression) -> str:
    constant = isinstance(argument, Literal) and argument.type.kind is not Kind.NULL
    return f"constant {named(argument.type)}" if constant else named(argument.type)


def special(
    name: str,
    usage: str,
    meaning: str,
    bind: Bind,
    form: Form,
    *,
    aliases: tuple[str, ...] = (),
    operator: bool = False,
) -> Function:
    """A function with a custom binding and a form that depends only on its compiled arguments."""
    return Function(name, usage, meaning, bind, lambda _, arguments: form(*arguments), aliases, operator)


def never_asked(*_: exp.Expr) -> exp.Expr:
    """The form of a function that binds to calls of others."""
    raise AssertionError("this function is always written as others")


def truth(function: Function, arguments: Sequence[Expression], position: Position) -> Call:
    """A call that returns a boolean."""
    return Call(function.name, tuple(arguments), BOOLEAN, position)


def checked_count(
    function: Function, arguments: Sequence[Expression], least: int, most: int, position: Position
) -> None:
    """Refuse a call with too few or too many arguments."""
    if not least <= len(arguments) <= most:
        raise wrong_arguments(function, arguments, position)
