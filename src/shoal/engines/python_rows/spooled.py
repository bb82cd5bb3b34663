"""Rows that come out of functions, kept until a statement reads them: in memory, and in a file once they are many."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from shoal.engines.python_rows.private_folder import private_folder

if TYPE_CHECKING:
    from collections.abc import Iterable
    from contextlib import ExitStack

ROOM = 512 << 20
"""Bytes that stay in memory."""


def spooled(parts: Iterable[pa.Table], schema: pa.Schema, opened: ExitStack, room: int = ROOM) -> pa.Table:
    """All parts as one table; one that is read from a file lasts until `opened` closes."""
    kept: list[pa.Table] = []
    writer: Any = None
    path: Path | None = None
    for part in parts:
        if writer is not None:
            writer.write_table(part)
            continue
        kept.append(part)
        room -= part.nbytes
        if room < 0:
            folder = opened.enter_context(tempfile.TemporaryDirectory(dir=private_folder(), ignore_cleanup_errors=True))
            path = Path(folder) / "rows"
            writer = pa.ipc.new_file(str(path), schema)
            for before in kept:
                writer.write_table(before)
            kept = []
    if writer is None or path is None:
        return pa.concat_tables([schema.empty_table(), *kept])
    writer.close()
    return pa.ipc.open_file(opened.enter_context(pa.memory_map(str(path)))).read_all()
