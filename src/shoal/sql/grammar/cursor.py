"""A position in the tokens, and the methods for moving it: shared by the two grammars."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn, TypeVar

from sqlglot import exp

from shoal.sql.grammar.keywords import OUTSIDE_THE_LANGUAGE, RESERVED
from shoal.sql.grammar.tokens import MAX_NESTING, MAX_TREE_DEPTH, Kind, Source, Token, refuse, too_deep, too_tall

if TYPE_CHECKING:
    from collections.abc import Callable

Marked = TypeVar("Marked", bound=exp.Expr)
Item = TypeVar("Item")


class Cursor:
    """Reads tokens one by one, never goes back."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.tokens = source.tokens
        self.index = 0
        self.token = self.tokens[0]
        """The token that comes next."""
        self.depth = 0
        self.names_windows = False
        """Whether OVER has named a window anywhere so far."""

    def ahead(self, count: int) -> Token:
        """The token this many positions ahead."""
        return self.tokens[min(self.index + count, len(self.tokens) - 1)]

    def at(self, key: str, *more: str) -> bool:
        """Whether these words or symbols come next, in this order."""
        if self.token.key != key:
            return False
        return not more or all(self.ahead(offset).key == word for offset, word in enumerate(more, 1))

    def at_any(self, keys: frozenset[str] | set[str]) -> bool:
        """Whether one of these comes next."""
        return self.token.key in keys

    def advance(self) -> Token:
        """Take the next token; the end is never passed."""
        token = self.token
        if token.kind is not Kind.END:
            self.move(1)
        return token

    def move(self, count: int) -> None:
        """Skip tokens that have already been examined."""
        self.index += count
        self.token = self.tokens[self.index]

    def accept(self, key: str, *more: str) -> bool:
        """Take these words if they come next."""
        if self.token.key != key or (more and not self.at(key, *more)):
            return False
        self.move(1 + len(more))
        return True

    def expect(self, key: str, *more: str) -> None:
        """Take these words, or refuse the query."""
        if not self.accept(key, *more):
            self.unexpected(" ".join((key, *more)))

    def separated(self, item: Callable[[], Item]) -> list[Item]:
        """One or more items between commas."""
        items = [item()]
        while self.accept(","):
            items.append(item())
        return items

    def wrapped(self, content: Callable[[], Item]) -> Item:
        """Something in parentheses."""
        self.expect("(")
        found = content()
        self.expect(")")
        return found

    def deeper(self, levels: int = 1) -> None:
        """Enter this many levels of nesting (negative: leave them)."""
        self.depth += levels
        if self.depth > MAX_NESTING:
            too_deep(self.source.sql, self.token.start)

    def chained(self, node: Marked, links: int, start: Token) -> Marked:
        """The node, marked, with this many operators of one chain below it; a chain too long for any tree is refused here."""
        if links > MAX_TREE_DEPTH:
            too_tall(self.source.sql, start.start)
        return self.mark(node, start)

    def mark(self, node: Marked, start: Token) -> Marked:
        """The node with its source position: line and column from 1, start and end as offsets."""
        line, column = self.source.position(start.start)
        node.meta.update(line=line, col=column, start=start.start, end=self.tokens[max(0, self.index - 1)].end)
        return node

    def identifier(self, what: str, *, reserved: bool = False) -> exp.Identifier:
        """A name, bare or quoted; `reserved` if even a keyword can only be a name here."""
        token = self.token
        if token.kind is Kind.WORD and not reserved and token.key in RESERVED:
            self.fail(
                "E_PARSE", f"{token.key} is a keyword, {what} was expected.", 'Put the name in double quotes: "…".'
            )
        if token.kind not in {Kind.WORD, Kind.NAME}:
            self.unexpected(what)
        self.advance()
        return self.mark(exp.Identifier(this=token.text, quoted=token.kind is Kind.NAME), token)

    def at_alias(self) -> bool:
        """Whether a name comes next that can only be an alias."""
        kind, key = self.token.kind, self.token.key
        return kind is Kind.NAME or (kind is Kind.WORD and key not in RESERVED and key not in OUTSIDE_THE_LANGUAGE)

    def unexpected(self, expected: str) -> NoReturn:
        """Refuse the next token: with the reason if it is known, else by naming what could come there."""
        token = self.token
        if token.key in OUTSIDE_THE_LANGUAGE:
            self.fail(*OUTSIDE_THE_LANGUAGE[token.key])
        shown = {Kind.WORD: f"'{token.text}'", Kind.SYMBOL: f"'{token.text}'", Kind.END: f"the {token.kind.value}"}
        found = shown.get(token.kind, f"a {token.kind.value}")
        self.fail("E_PARSE", f"Expected {expected}, found {found}.")

    def fail(self, code: str, message: str, hint: str | None = None, *, at: Token | None = None) -> NoReturn:
        """Refuse the query at the next token, or at the one named."""
        refuse(self.source.sql, (at or self.token).start, code, message, hint)
