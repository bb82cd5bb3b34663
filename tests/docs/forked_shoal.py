"""The program `shoal`, started without loading it each time: a server that has loaded it forks a child for every start.

Pages start it some hundred times, and loading it takes longer than most of what they ask. A child has the words, folder,
environment and open files of whoever started it, and ends as the program ends. Run as a program with the name of a socket, this
file is the server; `client` writes the command that asks it.
"""

from __future__ import annotations

import array
import gc
import importlib
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

CLIENT = """#!{python} -ISE
import array, json, os, signal, socket, sys

asks = socket.socket(socket.AF_UNIX)
asks.connect({name!r})
said = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
asks.sendmsg(
    [len(said).to_bytes(4, "big")], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))]
)
asks.sendall(said)
child = int.from_bytes(asks.recv(4), "big")
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, lambda received, _: os.kill(child, received))
sys.exit(int.from_bytes(asks.recv(4) or b"\\x01", "big"))
"""
HEAVY = ("shoal.engines.spark", "shoal.__main__")
"""Not loaded ahead: what a page may not need, and the program itself."""


def started(folder: Path) -> subprocess.Popen[bytes]:
    """A server, and beside it the command `shoal`."""
    name = str(folder / "socket")
    command = folder / "shoal"
    command.write_text(CLIENT.format(python=sys.executable, name=name), encoding="utf-8")
    command.chmod(0o755)
    words = [sys.executable, __file__, name]
    server = subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    )
    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n"
    return server


def load() -> None:
    """Every module that needs nothing which is not installed."""
    from shoal.cli.main import WithoutPandas

    sys.meta_path.insert(0, WithoutPandas())
    package = importlib.import_module("shoal")
    for module in pkgutil.walk_packages(package.__path__, "shoal."):
        if not module.name.startswith(HEAVY):
            with suppress(ImportError):
                importlib.import_module(module.name)
    gc.collect()
    gc.freeze()


def main(name: str) -> None:
    load()
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(name)
    listening.listen(64)
    print("ready", flush=True)
    while True:
        asking, _ = listening.accept()
        if os.fork() == 0:  # waits for the child, so that this loop need not
            listening.close()
            return serve(asking)
        asking.close()
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def serve(asking: socket.socket) -> None:
    """Start a child, and tell its number and how it ended."""
    head, ancillary, *_ = asking.recvmsg(4, socket.CMSG_SPACE(12))
    files = array.array("i")
    files.frombytes(ancillary[0][2][:12])
    length, said = int.from_bytes(head, "big"), b""
    while len(said) < length:
        said += asking.recv(length - len(said))
    child = os.fork()
    if child:
        for file in files:
            os.close(file)
        asking.sendall(child.to_bytes(4, "big"))
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        asking.sendall((status if status >= 0 else 128 - status).to_bytes(4, "big"))
        os._exit(0)
    asking.close()
    words, folder, environment = json.loads(said)
    become(files, folder, environment)
    sys.argv = ["shoal", *words]
    from shoal.cli.main import program

    program()


def become(files: array.array[int], folder: str, environment: dict[str, str]) -> None:
    """Whoever asked: its files, folder and environment."""
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    signal.signal(signal.SIGINT, signal.default_int_handler)


if __name__ == "__main__":
    main(sys.argv[1])
