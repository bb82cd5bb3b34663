"""No fork happens inside a transaction: a child would inherit half of one, or a lock that nobody releases."""

from __future__ import annotations

import os
import threading

NO_FORK_INSIDE = threading.RLock()
"""Held during every transaction of this process, so that threads take turns."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=NO_FORK_INSIDE.acquire,
        after_in_parent=NO_FORK_INSIDE.release,
        after_in_child=NO_FORK_INSIDE.release,
    )
