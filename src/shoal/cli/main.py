"""The command line: finds the verb, and turns every error into one readable paragraph and an exit status.

Exit status: 0 done, 1 a check failed or no recoding meets the demands, 2 wrong usage or refused. Verbs import what they need
when they run, so that `shoal --help` is there at once.
"""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
from contextlib import suppress
from copy import copy
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import LazyLoader
from typing import TYPE_CHECKING, NoReturn

import typer

from shoal.cli.output import as_json, reason_of
from shoal.cli.root import bare
from shoal.errors import InternalError, ShoalError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec

ALONE = {
    "query": "shoal.cli.query",
    "explain": "shoal.cli.explain",
    "tables": "shoal.cli.asking.tables",
    "budget": "shoal.cli.budget",
}
"""Verbs that are asked for often: none of the others is loaded for them."""

RARELY, ONCE = 200_000, 2_000_000
"""New objects between two searches for cycles: loading modules makes many and leaves no cycles worth 0.05 s of searching.

Verbs that are loaded alone answer once and end: whatever they leave goes with the process."""


def program() -> NoReturn:
    """The program `shoal`, in a separate process."""
    alone = sys.argv[1:] and sys.argv[1] in ALONE
    gc.set_threshold(ONCE if alone else RARELY)
    if "attack" not in sys.argv[1:2]:  # the one verb with linear algebra; for the others NumPy starts threads in vain
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sys.meta_path[:0] = [WithoutPandas(), AsyncioWhenUsed()]
    leave_in_order()
    try:
        run()
    except SystemExit as left:
        if alone or "serve" in sys.argv[1:2]:  # threads that still hold on to the engine would make it complain
            end(left.code if isinstance(left.code, int) else 0)
        raise


def end(status: int) -> NoReturn:
    """Ends the process, which has closed what it opened, without taking apart all that was loaded: that takes 0.1 s.

    What others want done at the end is done, and what was written goes out.
    """
    atexit._run_exitfuncs()  # noqa: SLF001 - as the standard library's own children do that end so
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            if stream is not None:
                stream.flush()
    os._exit(status)


def leave_in_order() -> None:
    """A request to stop ends the run of a query as Ctrl+C does: its entry says so, and nobody is suspended for it."""
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, lambda received, _: sys.exit(128 + received))


class WithoutPandas:
    """Finds no pandas, so that nobody imports it just to look.

    The command line is never given a data frame, and Arrow would spend a fifth of a second to see whether it was.
    """

    def find_spec(self, fullname: str, *_: object) -> None:
        """Refuse pandas, leave everything else to the usual finders."""
        if fullname == "pandas":
            raise ModuleNotFoundError(fullname)


class AsyncioWhenUsed:
    """Finds asyncio, whose modules are read when somebody uses it.

    OpenDP loads a library that imports it for functions nobody calls here, with sockets and TLS: 0.02 s of every first query.
    """

    def find_spec(self, fullname: str, path: Sequence[str] | None = None, _: object = None) -> ModuleSpec | None:
        """Asyncio, to be read later; everything else is left to the usual finders."""
        found = PathFinder.find_spec(fullname, path) if fullname == "asyncio" else None
        if found is not None and found.loader is not None:
            found.loader = LazyLoader(found.loader)
        return found


def run(arguments: list[str] | None = None) -> NoReturn:
    """Do what the words say: always leaves with an exit status, never with a traceback."""
    words = sys.argv[1:] if arguments is None else arguments
    try:
        status = with_verb(words)(words, prog_name="shoal", standalone_mode=False)
    except ShoalError as error:
        status = refuse(error, words)
    except KeyboardInterrupt:
        if words[:1] == ["query"]:
            typer.echo("Stopped. What was charged stays charged; shoal budget --ledger FILE shows it.", err=True)
        status = 130
    except BrokenPipeError:
        status = leave_quietly()
    except OSError as error:
        status = refuse(ShoalError("E_USAGE", f"The system refused: {reason_of(error)}."), words)
    except Exception as error:  # noqa: BLE001 - the last door: whatever else happened is a bug, and says no more
        status = report(error, words)
    sys.exit(leave(status if isinstance(status, int) else 0))


def with_verb(words: Sequence[str]) -> typer.Typer:
    """The program with the verb that is asked for alone, where it is one: describing eighty others takes a while."""
    asked = words[0] if words else ""
    if asked in ALONE:
        chosen = bare()
        chosen.command()(getattr(import_module(ALONE[asked]), asked))
        return chosen
    from shoal.cli.verbs import app

    verbs = [each for each in app.registered_commands if (each.name or getattr(each.callback, "__name__", "")) == asked]
    folders = [each for each in app.registered_groups if each.typer_instance and each.typer_instance.info.name == asked]
    if len(verbs) + len(folders) != 1:
        return app
    chosen = copy(app)
    chosen.registered_commands, chosen.registered_groups = verbs, folders
    return chosen


def refuse(error: ShoalError, words: Sequence[str]) -> int:
    """A refusal: a paragraph on stderr, and, for machines that asked, an object on stdout where that can be written."""
    typer.echo(str(error), err=True)
    if "--json" in words:
        with suppress(OSError):
            typer.echo(as_json({"error": error.to_dict()}))
    return 1 if error.code == "E_DEMANDS" else 2


def report(error: Exception, words: Sequence[str] = ()) -> int:
    """Wrong usage in a sentence; anything else is a bug of ours, and its message stays inside."""
    usage = getattr(error, "format_message", None)
    if usage is not None:
        return refuse_usage(error, usage(), words)
    if isinstance(error, typer.Abort):
        typer.echo("Stopped.", err=True)
    else:
        what = f": {error}" if isinstance(error, InternalError) else f" ({type(error).__name__})"
        typer.echo(f"This is a bug in shoal, not in what you asked{what}. Please report it.", err=True)
    return 2


def refuse_usage(error: Exception, message: str, words: Sequence[str]) -> int:
    """What the option parser refuses, as every other refusal; a verb that is missing was answered by the help alone."""
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "shoal"
    if not message.strip():
        return 2
    sentence = " ".join(message.split())
    return refuse(ShoalError("E_USAGE", sentence, hint=f"Try '{path} --help'."), words)


def leave(status: int) -> int:
    """The interpreter flushes once more when it ends; what cannot be written by then was reported already."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        sys.stdout = None
        return status or 2
    return status


def leave_quietly() -> int:
    """The reader of a pipe went away: not an error, and nothing more to say."""
    sys.stdout = None  # the interpreter must not flush into the closed pipe
    return 0
