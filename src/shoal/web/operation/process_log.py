"""The process log: one line of JSON on standard error for what happens to the process. No statements, tokens, rows or durations."""

from __future__ import annotations

import json
import logging
import os
import sys
from datetime import UTC, datetime


class Lines(logging.Formatter):
    """An event as one line; for an exception, only the name of its class."""

    def format(self, record: logging.LogRecord) -> str:
        """As JSON."""
        said = {
            "at": datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "level": record.levelname.lower(),
            "process": os.getpid(),
            "about": record.name,
            "message": record.getMessage()[:2000],
        }
        if record.exc_info is not None and record.exc_info[0] is not None:
            said["exception"] = record.exc_info[0].__name__
        return json.dumps(said, ensure_ascii=True)


def start() -> None:
    """Starts logging. Leaves out other libraries' messages below a warning, and our own harmless ones if a person is watching."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Lines())
    logging.getLogger("uvicorn.error").addFilter(_is_not_said_by_us)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("shoal").setLevel(logging.WARNING if sys.stderr.isatty() else logging.INFO)


def _is_not_said_by_us(record: logging.LogRecord) -> bool:
    """Of a request that cannot be read, `arrivals` says why."""
    return record.msg != "Invalid HTTP request received."
