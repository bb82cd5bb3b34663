"""Function calls in the analyst's own words: the text of a call, found again by its place."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from shoal.errors import ShoalError
from shoal.sql.grammar.tokens import tokenize

if TYPE_CHECKING:
    from shoal.sql.grammar.tokens import Source

LONGEST = 80
BEHIND_A_CALL = frozenset({"WITHIN", "FILTER"})


class CallsAsWritten:
    """The calls of one text."""

    def __init__(self, sql: str) -> None:
        self._sql = sql

    def at(self, position: tuple[int, int] | None) -> str | None:
        """The call that begins at a line and column, on one line; None where there is none.

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
        """The token that closes the first parenthesis from a token on."""
        depth = 0
        for number in range(index, len(self._source.tokens)):
            key = self._key(number)
            depth += (key == "(") - (key == ")")
            if depth == 0 and key == ")":
                return number
        return None
