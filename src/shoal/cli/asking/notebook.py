"""Notebooks: `%load_ext shoal`, then `%%shoal` over a cell of SQL; a line names the session to ask.

    %load_ext shoal
    %%shoal session
    SELECT site, COUNT(*) FROM visits GROUP BY site

Without a name the one session of the notebook is asked. `%%shoal session -o visits` also keeps the answer as `visits`.
"""

from __future__ import annotations

from typing import Any

from shoal.errors import ShoalError
from shoal.session import Session


def load(shell: Any) -> None:
    """Registers the magic; IPython calls it for `%load_ext shoal`."""
    shell.register_magic_function(lambda line, cell: _ask(shell, line, cell), "cell", "shoal")


def _ask(shell: Any, line: str, cell: str) -> Any:
    words = line.split()
    kept = None
    if "-o" in words:
        position = words.index("-o")
        if position + 1 >= len(words) or not words[position + 1].isidentifier():
            raise ShoalError("E_USAGE", "-o takes a name for the answer.", hint="%%shoal session -o visits")
        kept = words[position + 1]
        del words[position : position + 2]
    answer = _session(shell.user_ns, words).query(cell)
    if kept is not None:
        shell.user_ns[kept] = answer
    return answer


def _session(names: dict[str, Any], words: list[str]) -> Session:
    """The session of that name, or the only one there is."""
    open_ones = {
        name: value for name, value in names.items() if isinstance(value, Session) and not name.startswith("_")
    }
    if len(words) == 1 and words[0] in open_ones:
        return open_ones[words[0]]
    if not words and len(set(map(id, open_ones.values()))) == 1:
        return next(iter(open_ones.values()))
    found = f"Sessions here: {', '.join(sorted(open_ones))}." if open_ones else "Open one: session = shoal.connect(…)."
    raise ShoalError("E_USAGE", "%%shoal takes the name of one session.", hint=found)
