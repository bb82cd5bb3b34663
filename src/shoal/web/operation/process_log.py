"""The process log: one line of JSON on standard error for what happens to the process. No statements, tokens, rows or durations."""

from __future__ import annotations

import json
import logging
import os
import sys
from datetime import UTC, datetime


class Lines(logging.Formatter):
    """An event as one line; of an exception the name of its class alone."""

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
    """From now on. What other libraries say below a warning is left out, and what is harmless where a person looks on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Lines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("shoal").setLevel(logging.WARNING if sys.stderr.isatty() else logging.INFO)
