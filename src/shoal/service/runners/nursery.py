"""A process with everything loaded and no data, which forks runners: they start warm, and share the memory of what is loaded.

    python -m shoal.service.runners.nursery NUMBER [MODULE …]

A service sends the runner's end of a new channel with the runner's share of memory; nothing comes back this way. Any number of
processes of one service may share a nursery: it ends when the last of them has.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress

from shoal.errors import InternalError
from shoal.service.runners import wire
from shoal.stack import on_its_own_stack

PRELOAD = ("shoal.service.runners.runner",)
_STARTED = 300.0
"""A very busy machine takes its time; until then nothing is charged."""
_ENDED = 2.0
_LEFT: list[subprocess.Popen[bytes]] = []
_lock = threading.Lock()
_nursery: tuple[socket.socket, subprocess.Popen[bytes]] | None = None


def start() -> None:
    """A nursery for this process and those forked from it, unless there is one."""
    global _nursery  # noqa: PLW0603 - one for all services of a process
    with _lock:
        if _nursery is None:
            _nursery = _started()


def new_runner(share: int) -> tuple[socket.socket, int]:
    """The channel to a new runner, and its process. A nursery that died is replaced."""
    for _ in range(2):
        start()
        with suppress(OSError, wire.Gone):
            return _asked_for(share)
        end()
    raise InternalError("no process can be started")


def _asked_for(share: int) -> tuple[socket.socket, int]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    ours.settimeout(_STARTED)
    try:
        with theirs, _lock:
            if _nursery is not None:
                socket.send_fds(_nursery[0], [str(share).encode()], [theirs.fileno()])
        hello, _ = wire.receive(ours)
    except BaseException:
        ours.close()
        raise
    ours.settimeout(None)
    return ours, int(hello["hello"])


@atexit.register
def end() -> None:
    """Releases the nursery, and waits for it if it is a child of this process and nobody else uses it."""
    global _nursery
    with _lock:
        ended, _nursery = _nursery, None
    if ended is not None:
        ended[0].close()
        try:
            ended[1].wait(_ENDED)
        except subprocess.TimeoutExpired:
            _LEFT.append(ended[1])  # it exits by itself, after the last of its services


def _started() -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """Starts outside the terminal's process group, so that only the service receives Ctrl+C; computes numbers in one thread."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(  # noqa: S603 - this program, and a number
            [sys.executable, "-m", __name__, str(theirs.fileno()), *PRELOAD],
            pass_fds=(theirs.fileno(),),
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
        )
    return ours, process


def main(number: int, modules: list[str]) -> None:
    """Forks until the last service that knows this nursery is gone."""
    for name in modules:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # what is loaded stays: runners share its memory, and never scan it
    for ordered in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(ordered, signal.SIG_IGN)  # we end when the service ends
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for runners
    _give_way()
    control = socket.socket(fileno=number)
    while True:
        said, numbers, _, _ = socket.recv_fds(control, 64, 1)
        if not numbers:
            return
        with socket.socket(fileno=numbers[0]) as channel:
            if os.fork() == 0:
                control.close()
                _live(channel, int(said))


def _give_way() -> None:
    """Runners work in longer turns, and keep no reply waiting: where many ask at once, a twentieth more is answered."""
    if hasattr(os, "SCHED_BATCH") and os.sched_getscheduler(0) == os.SCHED_OTHER:
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def _live(channel: socket.socket, share: int) -> None:
    from shoal.service.runners.runner import serve

    with suppress(wire.Gone):
        # Everything runs in one thread with a deep stack: a statement that recurses need not start its own.
        on_its_own_stack(lambda: serve(channel, share), shared=True)
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
    os._exit(0)  # it wrote nothing and holds nothing; libraries would complain about what was frozen
