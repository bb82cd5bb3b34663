"""Patterns are constants, checked here: a pattern taken from data could fail on some rows only.

Regular expressions are the plain core that RE2 and every other engine read alike: literals, `.`, classes, groups,
alternation, anchors and repetition. Matching takes linear time.
"""

from __future__ import annotations

import re

LONGEST_PATTERN = 1000
LONGEST_REGEX = 200
LARGEST_REGEX = 1000
"""The length times all repetition counts: matching a string takes time proportional to this."""

_COUNT = re.compile(r"\{(\d{1,4})(?:(,)(\d{1,4})?)?\}")
_CLASS = re.compile(r"\[\^?\]?(?:[^\[\]\\]|\[:(?:alnum|alpha|digit|lower|punct|space|upper|word|xdigit):\])*\]")
_FLAGS = re.compile(r"\(\?[is]{1,2}\)")


def like_complaint(pattern: str, escape: str | None = None) -> str | None:
    """What is wrong with a LIKE pattern, or None."""
    if len(pattern) > LONGEST_PATTERN:
        return f"A pattern has at most {LONGEST_PATTERN} characters."
    if escape is None:
        return None
    if len(escape) != 1 or not escape.isascii():
        return "ESCAPE takes one character of ASCII."
    trailing = re.search(f"(?:{re.escape(escape)})*$", pattern)
    return "The pattern ends in its escape character." if trailing and len(trailing[0]) % 2 else None


def regex_complaint(pattern: str) -> str | None:
    """What is wrong with a regular expression, or None.

    >>> regex_complaint("^a+(b|c)?$") is None
    True
    >>> regex_complaint("(a")
    'The regular expression has an open group.'
    """
    if len(pattern) > LONGEST_REGEX:
        return f"A regular expression has at most {LONGEST_REGEX} characters."
    if "\\" in pattern:
        return "Write a regular expression without backslashes: [0-9] for digits, [.] for a dot."
    return _Reader(pattern).complaint()


def regex_size(pattern: str) -> int:
    """The length of a checked regular expression times its repetition counts: the number of states a match may be in.

    >>> regex_size("a[ab]{40}c")
    400
    """
    reader = _Reader(pattern)
    reader.complaint()
    return reader.size


def groups_in(pattern: str) -> int:
    """How many capturing groups a checked regular expression has."""
    return sum(1 for kind, piece in _pieces(pattern) if kind == "open" and piece == "(")


def _pieces(pattern: str) -> list[tuple[str, str]]:
    """The pattern cut into pieces: open, close, or, count, repeat, class, other."""
    pieces, at = [], 0
    while at < len(pattern):
        kind, piece = _piece(pattern, at)
        pieces.append((kind, piece))
        at += len(piece)
    return pieces


def _piece(pattern: str, at: int) -> tuple[str, str]:
    character = pattern[at]
    if character == "(":
        flags = _FLAGS.match(pattern, at) if at == 0 else None
        if flags:
            return "flags", flags[0]
        return "open", "(?:" if pattern.startswith("(?:", at) else "("
    if character == "[":
        found = _CLASS.match(pattern, at)
        return ("class", found[0]) if found else ("broken", character)
    if character == "{":
        count = _COUNT.match(pattern, at)
        return ("count", count[0]) if count else ("broken", character)
    kinds = {")": "close", "|": "or", "*": "repeat", "+": "repeat", "?": "repeat", "^": "anchor", "$": "anchor"}
    return kinds.get(character, "broken" if character in "]}" else "other"), character


class _Reader:
    """Reads the pieces once, from left to right; `before` says what a repetition would repeat."""

    def __init__(self, pattern: str) -> None:
        self.pieces = _pieces(pattern)
        self.open_groups = 0
        self.size = len(pattern)
        self.before = "nothing"

    def complaint(self) -> str | None:
        for kind, piece in self.pieces:
            problem = self._step(kind, piece)
            if problem:
                return problem
        return "The regular expression has an open group." if self.open_groups else None

    def _step(self, kind: str, piece: str) -> str | None:
        if kind == "broken":
            return f"The regular expression has a stray '{piece}'; write [{piece}] for the character itself."
        if kind in {"repeat", "count"}:
            return self._repeat(kind, piece)
        self.open_groups += {"open": 1, "close": -1}.get(kind, 0)
        if self.open_groups < 0:
            return "The regular expression closes a group that is not open."
        self.before = "something" if kind in {"class", "other", "close"} else "nothing"
        return _class_complaint(piece) if kind == "class" else None

    def _repeat(self, kind: str, piece: str) -> str | None:
        if self.before == "repetition" and piece == "?":  # the lazy kind: a+?
            self.before = "nothing"
            return None
        if self.before != "something":
            return f"The regular expression repeats nothing at '{piece}'."
        self.before = "repetition"
        return self._count(piece) if kind == "count" else None

    def _count(self, piece: str) -> str | None:
        low, high = _bounds(piece)
        self.size *= max(low, high, 1)
        if high < low:
            return f"The count {piece} in the regular expression must rise."
        if self.size > LARGEST_REGEX:
            return "The regular expression repeats too much; its length times all its counts is at most 1000."
        return None


def _bounds(piece: str) -> tuple[int, int]:
    match = _COUNT.fullmatch(piece)
    assert match is not None  # noqa: S101 - the piece was cut by the same expression
    low = int(match[1])
    return low, int(match[3]) if match[3] else low


def _class_complaint(piece: str) -> str | None:
    """Ranges must rise: [a-z], not [z-a]; a class must hold something."""
    inside = re.sub(r"\[:\w+:\]", "", piece[1:-1].removeprefix("^"))
    if piece in {"[]", "[^]"}:
        return "The regular expression has an empty class."
    if "--" in piece or "-[:" in piece or re.search(r":\]-[^\]]", piece):
        return "A range in the regular expression lies between two characters."
    for low, high in re.findall(r"([^-])-(?=([^-]))", inside):
        if high < low:
            return f"The range {low}-{high} in the regular expression must rise."
    return None
