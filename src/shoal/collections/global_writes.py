"""Items and attributes of globals that a function sets: `COUNTS[key] += 1`, `state.last = record`, `del SEEN[0]`.

The usual way to count by mistake across owners. Bytecode does not say what is written to: so the stack of values is followed from
one instruction to the next, as far as needed to know which of its positions holds a global.
"""

from __future__ import annotations

import dis
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType

_CONTAINER = {"STORE_SUBSCR": 2, "DELETE_SUBSCR": 2, "STORE_SLICE": 3, "STORE_ATTR": 1, "DELETE_ATTR": 1}
"""Where on the stack, from the top, is what is written to."""
_NOTHING = frozenset({"NOP", "RESUME", "CACHE", "EXTENDED_ARG", "PRECALL", "KW_NAMES", "COPY_FREE_VARS", "MAKE_CELL"})
_LEAVES = frozenset({"RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE", "JUMP_FORWARD", "JUMP_BACKWARD"})
_ONLY_TAKE = ("POP_", "STORE_", "DELETE_", "JUMP_", "RETURN_")
"""Other instructions put something new in the place of what they take."""

Stack = list[str | None]
"""The global that each value is, or is a part of."""


def changed_globals(code: CodeType) -> Iterator[str]:
    """The names of globals of which something is set or deleted.

    >>> def counts(record):
    ...     SEEN["n"] += 1
    >>> list(changed_globals(counts.__code__))
    ['SEEN']
    """
    stack: Stack = []
    at_targets: dict[int, Stack] = {}
    for instruction in dis.get_instructions(code):
        if instruction.is_jump_target:
            stack = list(at_targets.get(instruction.offset, []))
        depth = _CONTAINER.get(instruction.opname)
        written = stack[-depth] if depth is not None and len(stack) >= depth else None
        if written is not None:
            yield written
        _follow(stack, instruction)
        if instruction.opcode in dis.hasjrel or instruction.opcode in dis.hasjabs:
            at_targets.setdefault(instruction.argval, list(stack))
        if instruction.opname in _LEAVES:
            stack = []


def _follow(stack: Stack, instruction: dis.Instruction) -> None:
    """What the stack is after an instruction; places that it does not know are nobody's."""
    name, number = instruction.opname, instruction.arg or 0
    effect = dis.stack_effect(instruction.opcode, instruction.arg, jump=False)
    if name in _NOTHING:
        return
    if name == "COPY":
        stack.append(stack[-number] if len(stack) >= number else None)
    elif name == "SWAP":
        if len(stack) >= number:
            stack[-1], stack[-number] = stack[-number], stack[-1]
    elif name == "LOAD_GLOBAL":
        stack.extend([instruction.argval] if effect == 1 else [None] * effect)
    elif name in {"LOAD_ATTR", "LOAD_METHOD"}:
        stack.extend([None] * effect)  # a part of a global is the global's
    elif name == "BINARY_SUBSCR" or (name == "BINARY_OP" and instruction.argrepr == "[]"):
        del stack[-1:]
    elif name.startswith("LOAD_") or name == "PUSH_NULL":
        stack.extend([None] * effect)
    else:
        del stack[max(0, len(stack) + min(effect, 0)) :]
        if not name.startswith(_ONLY_TAKE):
            stack[-1:] = [None] * len(stack[-1:])
        stack.extend([None] * max(effect, 0))
