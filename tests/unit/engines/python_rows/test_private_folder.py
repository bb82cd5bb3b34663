"""The folder for rows that do not fit memory: nobody else's, and gone with its process."""

from __future__ import annotations

import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from shoal.engines.python_rows.private_folder import OWNER, PREFIX, remove_left_behind

MAKES = """
import os, signal, sys
from shoal.engines.python_rows.private_folder import private_folder
folder = private_folder()
(folder / "rows").write_text("somebody's")
print(folder, flush=True)
if sys.argv[1] == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder for temporary files that nobody else uses."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def made(how):
    return subprocess.run([sys.executable, "-c", MAKES, how], capture_output=True, text=True, check=False)


def test_a_process_that_ends_takes_its_folder_along(place):
    assert Path(made("ends").stdout.strip()).parent == place
    assert list(place.iterdir()) == []


def test_what_a_killed_process_left_is_removed_by_the_next(place):
    killed = made("killed")
    assert killed.returncode == -signal.SIGKILL
    left = Path(killed.stdout.strip())
    assert (left / "rows").exists()
    assert stat.S_IMODE(left.stat().st_mode) == 0o700
    made("ends")
    assert list(place.iterdir()) == []


def test_folders_of_living_processes_and_of_nobody_stay(place):
    living = subprocess.Popen(
        [sys.executable, "-c", MAKES + "sys.stdin.read()", "waits"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    mine = Path(living.stdout.readline().strip())
    for name, owner in (("a", None), ("b", ""), ("c", "another machine 1 2")):
        (place / f"{PREFIX}{name}").mkdir()
        if owner is not None:
            (place / f"{PREFIX}{name}" / OWNER).write_text(owner)
    remove_left_behind()
    assert {each.name for each in place.iterdir()} == {mine.name, f"{PREFIX}a", f"{PREFIX}b", f"{PREFIX}c"}
    living.communicate()
