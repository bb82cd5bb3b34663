"""The door to cloudpickle: functions as bytes that another process can load.

Functions of modules that are not installed (a script, a notebook, a test) travel by value, those of installed packages by name.
"""

from __future__ import annotations

import hashlib
import marshal
import re
import sys
import sysconfig
from contextlib import ExitStack, suppress
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from shoal.errors import ShoalError, missing_extra

if TYPE_CHECKING:
    from collections.abc import Iterable

_INSTALLED = tuple({sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")})


def pickled(function: Any, modules: Iterable[str]) -> bytes:
    """A function as bytes; `modules` are those whose functions it calls."""
    try:
        import cloudpickle
    except ImportError:
        raise missing_extra("collections", "A collection with Python functions") from None
    with ExitStack() as registered:
        for name in sorted(set(modules)):
            module = sys.modules.get(name)
            if module is not None and is_loose(module):
                cloudpickle.register_pickle_by_value(module)
                registered.callback(cloudpickle.unregister_pickle_by_value, module)
        with suppress(Exception):  # anything may refuse to be pickled, with any error
            return bytes(cloudpickle.dumps(function))
    raise ShoalError(
        "E_USAGE",
        "The function cannot be sent to another process, because it cannot be pickled.",
        hint="Leave out connections, files and locks; open what a function needs inside it.",
    )


_WHERE = re.compile(rb" at 0x[0-9a-f]+")
"""Where something is in memory says nothing about what it is."""


def is_loose(module: ModuleType) -> bool:
    """Whether a module is not installed, so that another machine need not have it."""
    file = getattr(module, "__file__", None)
    if module.__name__ == "__main__" or file is None:
        return False  # cloudpickle takes __main__ by value; what has no file is built in
    return not file.startswith(_INSTALLED) and not module.__name__.startswith("shoal.")


def digest_of(function: Any, pickle: bytes) -> str:
    """A name for what a function is: its code, wherever it was written, and all that travels with it."""
    if not isinstance(function, FunctionType):
        return hashlib.sha256(pickle).hexdigest()[:12]
    held = [function.__defaults__, function.__kwdefaults__]
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # a name that has no value yet
            held.append(cell.cell_contents)
    written = marshal.dumps(_bare(function.__code__)) + repr(held).encode(errors="surrogatepass")
    return hashlib.sha256(_WHERE.sub(b"", written)).hexdigest()[:12]


def _bare(code: CodeType) -> CodeType:
    constants = tuple(_bare(each) if isinstance(each, CodeType) else each for each in code.co_consts)
    return code.replace(co_filename="", co_firstlineno=1, co_linetable=b"", co_consts=constants)
