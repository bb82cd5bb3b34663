"""Options that several verbs have, written once.

A *frame* is what such verbs do around their own work: its first parameter is a call of the verb, its options come behind the
verb's own. `framed` makes one command of both.
"""

from __future__ import annotations

import inspect
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def framed(
    frame: Callable[..., None], given: Iterable[str] = ()
) -> Callable[[Callable[..., Any]], Callable[..., None]]:
    """A verb inside a frame. `given` are parameters of the verb that are not options: the frame hands them over.

    >>> def twice(call, *, upper: bool = False):
    ...     print(*(call().upper() if upper else call() for _ in range(2)))
    >>> @framed(twice)
    ... def greet(name: str):
    ...     return f"hello {name}"
    >>> greet(name="ann", upper=True)
    HELLO ANN HELLO ANN
    >>> print(inspect.signature(greet))
    (*, name: str, upper: bool = False)
    """
    hidden = set(given)

    def around(verb: Callable[..., Any]) -> Callable[..., None]:
        own, shared = _options(verb, hidden), _options(frame, {next(iter(inspect.signature(frame).parameters))})

        def command(**options: Any) -> None:
            mine = {name: options.pop(name) for name in own}
            frame(partial(verb, **mine), **options)

        every = own | shared
        command.__name__, command.__doc__, command.__module__ = verb.__name__, verb.__doc__, verb.__module__
        command.__annotations__ = {name: option.annotation for name, option in every.items()}
        command.__signature__ = inspect.Signature(list(every.values()))  # type: ignore[attr-defined]  # read by `inspect`, unknown to the stubs of functions
        return command

    return around


def _options(function: Callable[..., Any], hidden: set[str]) -> dict[str, inspect.Parameter]:
    """The parameters by name, without the hidden ones: their types may be there for the type checker alone."""
    for name in (*hidden, "return"):
        function.__annotations__.pop(name, None)
    found = inspect.signature(function, eval_str=True).parameters
    keyword = inspect.Parameter.KEYWORD_ONLY
    return {name: option.replace(kind=keyword) for name, option in found.items() if name not in hidden}
