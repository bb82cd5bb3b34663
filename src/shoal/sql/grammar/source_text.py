"""Function calls in the analyst's own words: the text of a call, found again by its position."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from shoal.errors import ShoalError
from shoal.sql.grammar.tokens import tokenize

if TYPE_CHECKING:
    from shoal.sql.grammar.tokens import Source

LONGEST = 80
BEHIND_A_CALL = frozenset({"WITHIN", "FILTER"})


STRATEGY = "group_selection_strategy = PUBLIC_GROUPS"
_KINDS_OF_JOINS = frozenset(
    {"INNER", "LEFT", "RIGHT", "FULL", "OUTER", "CROSS", "NATURAL", "SEMI", "ANTI", "ASOF", "POSITIONAL"}
)


class CallsAsWritten:
    """The calls of one text."""

    def __init__(self, sql: str) -> None:
        self._sql = sql

    def at(self, position: tuple[int, int] | None) -> str | None:
        """The call that begins at a line and column, on one line; None if there is none.

        >>> CallsAsWritten("SELECT Sum( spend ) FILTER (WHERE paid) AS s").at((1, 8))
        'Sum( spend ) FILTER (WHERE paid)'
        """
        start = self._index_at.get(position) if position is not None else None
        if start is None:
            return None
        end = self._end_of_parentheses(start)
        while end is not None and self._key(end + 1) in BEHIND_A_CALL:
            end = self._end_of_parentheses(end + 1)
        if end is None:
            return None
        tokens = self._source.tokens
        text = " ".join(self._sql[tokens[start].start : tokens[end].end].split())
        return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"

    @cached_property
    def _source(self) -> Source:
        return tokenize(self._sql)

    @cached_property
    def _index_at(self) -> dict[tuple[int, int], int]:
        try:
            return {self._source.position(token.start): index for index, token in enumerate(self._source.tokens)}
        except ShoalError:
            return {}

    def _key(self, index: int) -> str:
        return self._source.tokens[index].key if index < len(self._source.tokens) else ""

    def _end_of_parentheses(self, index: int) -> int | None:
        """The token that closes the first parenthesis at or after a token."""
        depth = 0
        for number in range(index, len(self._source.tokens)):
            key = self._key(number)
            depth += (key == "(") - (key == ")")
            if depth == 0 and key == ")":
                return number
        return None

    def keeping(self, table: str, epsilon: float) -> str | None:
        """The statement that lists every row of a table as a group, by a word before JOIN and one in the clause; else None.

        >>> CallsAsWritten("SELECT r.n, COUNT(*) FROM t JOIN r USING (k) GROUP BY 1").keeping("r", 1.0).partition(" OPTIONS")[2]
        '(epsilon = 1, group_selection_strategy = PUBLIC_GROUPS) r.n, COUNT(*) FROM t RIGHT JOIN r USING (k) GROUP BY 1'
        """
        tokens = self._source.tokens
        has_clause = [self._key(i) for i in range(5)] == ["SELECT", "WITH", "DIFFERENTIAL_PRIVACY", "OPTIONS", "("]
        further = [self._key(i) for i in range(5 if has_clause else 1, len(tokens))]
        if self._key(0) != "SELECT" or any(key in {"WITH", "UNION", "INTERSECT", "EXCEPT"} for key in further):
            return None
        joins = [i for i in range(len(tokens)) if self._key(i) == "JOIN"]
        froms = [i for i in range(len(tokens)) if self._key(i) == "FROM"]
        if len(froms) != 1 or not joins or any(self._key(i - 1) in _KINDS_OF_JOINS for i in joins):
            return None
        if self._names(froms[0] + 1, table):
            where = [(i, "LEFT ") for i in joins]
        elif self._names(joins[-1] + 1, table):
            where = [(joins[-1], "RIGHT ")]
        else:
            return None
        text = self._sql
        for index, side in reversed(where):
            start = tokens[index].start
            text = text[:start] + side + text[start:]
        end = tokens[4 if has_clause else 0].end
        clause = (
            f"{STRATEGY}, " if has_clause else f" WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = {epsilon:g}, {STRATEGY})"
        )
        return " ".join(f"{text[:end]}{clause}{text[end:]}".split())

    def _names(self, index: int, table: str) -> bool:
        token = self._source.tokens[index]
        return self._sql[token.start : token.end].strip('"`').casefold() == table.casefold()
