"""Where rows go that do not fit memory: a folder that nobody else can open, one for each process.

It goes with its process. One that is killed cannot clean up, so whoever comes next removes what belongs to processes that are gone.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from shoal.accounting.spending.processes import is_gone, this_process
from shoal.errors import ShoalError

PREFIX = "shoal-rows-"
OWNER = "process"
"""The file in each folder that says whose it is."""

_folders: dict[int, Path] = {}


def private_folder() -> Path:
    """This process's folder. Databases that sessions share outlive the session that opened them, so no session ends it.

    E_SOURCE where there is none to be had: a query that needs it would fail, and how much it needs follows from its rows.
    """
    process = os.getpid()
    if process not in _folders or not _folders[process].is_dir():
        remove_left_behind()
        try:
            folder = Path(tempfile.mkdtemp(prefix=PREFIX))
            (folder / OWNER).write_text(this_process(), encoding="utf-8")
        except OSError:
            raise ShoalError(
                "E_SOURCE",
                "There is no folder for what does not fit memory: nothing can be written to the folder for temporary files.",
                hint="Set TMPDIR to a folder that can be written to, and has room.",
            ) from None
        _folders[process] = folder
        atexit.register(_remove, process)
    return _folders[process]


def _remove(process: int) -> None:
    if process == os.getpid() and process in _folders:  # a forked child ends earlier
        shutil.rmtree(_folders.pop(process), ignore_errors=True)


def remove_left_behind() -> None:
    """Removes folders of processes of this user that were killed: they may hold rows, and nobody else knows of them."""
    with suppress(OSError):
        for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
            with suppress(OSError, UnicodeDecodeError):
                is_ours = folder.lstat().st_uid == os.getuid() and not folder.is_symlink()
                if is_ours and is_gone((folder / OWNER).read_text(encoding="utf-8")):
                    shutil.rmtree(folder, ignore_errors=True)
