"""Notebooks: `%load_ext shoal`, then `%%shoal` over a cell of SQL, or `%shoal` before a line of it; a name says which session.

    %load_ext shoal
    %%shoal session
    SELECT site, COUNT(*) FROM visits GROUP BY site

Without a name the one session of the notebook is asked. `%%shoal session -o visits` also keeps the answer as `visits`, as
`visits = %shoal SELECT …` does; `--epsilon 0.5` says what to spend.
"""

from __future__ import annotations

import re
from typing import Any

from shoal.errors import ShoalError
from shoal.session import Session

USAGE = "%%shoal session -o visits --epsilon 0.5"
FIRST_WORD = re.compile(r"(?<!\S)(SELECT|WITH|FROM|EXPLAIN|SHOW|DESCRIBE|DESC)\b", re.IGNORECASE)
"""Of statements that a session answers."""


def load(shell: Any) -> None:
    """Registers the magic; IPython calls it for `%load_ext shoal`."""
    shell.register_magic_function(lambda line, cell=None: _ask(shell, line, cell), "line_cell", "shoal")


def _ask(shell: Any, line: str, cell: str | None) -> Any:
    words, sql = (line.split(), cell) if cell is not None else _split(line)
    kept, words = _option(words, "-o")
    if kept is not None and not kept.isidentifier():
        raise ShoalError("E_USAGE", "-o takes a name for the answer.", hint=USAGE)
    spent, words = _option(words, "--epsilon")
    answer = _session(shell.user_ns, words).query(sql, epsilon=None if spent is None else _number(spent))
    if kept is not None:
        shell.user_ns[kept] = answer
    return answer


def _split(line: str) -> tuple[list[str], str]:
    """What stands before the query, which begins at its first word."""
    query = FIRST_WORD.search(line)
    start = query.start() if query else len(line)
    return line[:start].split(), line[start:]


def _option(words: list[str], name: str) -> tuple[str | None, list[str]]:
    """The word after an option, and the words without both."""
    if name not in words:
        return None, words
    position = words.index(name)
    if position + 1 >= len(words):
        raise ShoalError("E_USAGE", f"{name} takes a word after it.", hint=USAGE)
    return words[position + 1], words[:position] + words[position + 2 :]


def _number(word: str) -> float:
    try:
        return float(word)
    except ValueError:
        raise ShoalError("E_USAGE", "--epsilon takes a number.", hint=USAGE) from None


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
