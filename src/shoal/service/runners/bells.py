"""Bells between the processes of one service: what changes in one of them is heard in the others at once.

The store is what counts: a process that misses a ring finds the change there half a second later. The pipes are made before the
processes are forked, so a process that replaces another one sits in its seat and hears its bell.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

A_JOB_WAITS = ""
"""Rung where no slot is idle. Every other ring names the job that changed."""
_READ = 4096


class Bell:
    """One process's end: it hears its own pipe, and rings those of the others."""

    def __init__(self, heard: int | None = None, others: Sequence[int] = ()) -> None:
        self._heard, self._others = heard, tuple(others)

    def ring(self, word: str) -> None:
        """Tells the others. A pipe that is full, because nobody reads it, is passed by."""
        line = f"{word}\n".encode()
        for other in self._others:
            with suppress(BlockingIOError, BrokenPipeError):
                os.write(other, line)  # far below PIPE_BUF: written whole or not at all

    def listen(self, told: Callable[[str], None]) -> None:
        """From now on `told` is called with each word that another process rings."""
        if self._heard is not None:
            threading.Thread(target=self._listen, args=(self._heard, told), name="shoal-bell", daemon=True).start()

    def _listen(self, pipe: int, told: Callable[[str], None]) -> None:
        rest = b""
        while read := os.read(pipe, _READ):
            *lines, rest = (rest + read).split(b"\n")
            for line in dict.fromkeys(lines):  # a word rung twice is heard once
                told(line.decode("ascii", "replace"))


def bells(seats: int) -> list[Bell]:
    """One for each process that will be forked. Pipes are closed in programs that these start."""
    pipes = [os.pipe() for _ in range(seats)]
    for _, ringing in pipes:
        os.set_blocking(ringing, False)  # reading still waits: only this end is told not to
    return [
        Bell(heard, [ringing for other, (_, ringing) in enumerate(pipes) if other != seat])
        for seat, (heard, _) in enumerate(pipes)
    ]
