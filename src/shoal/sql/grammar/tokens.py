"""Text → tokens, strictly: one regular expression is the whole lexical grammar, and anything it does not match is refused.

SQL dialects disagree on strings, escapes and comments, and every disagreement makes some query ambiguous. So
anything two engines read differently (backslashes in strings, nested comments, dollar quotes, string prefixes) is
refused. Words are ASCII and compared in ASCII: no Unicode folding can turn another word into a keyword.

    >>> [token.key or token.text for token in tokenize("SELECT a1, 'it''s' -- why").tokens]
    ['SELECT', 'A1', ',', "it's", '']
"""

from __future__ import annotations

import re
from bisect import bisect_right
from enum import Enum
from functools import cached_property
from typing import NamedTuple, NoReturn

from shoal.errors import ShoalError
from shoal.frozen import dataclass
from shoal.sql.grammar.keywords import BEFORE_A_QUOTE

MAX_BYTES = 64 * 1024
MAX_TOKENS = 20_000
MAX_NESTING = 50
MAX_TREE_DEPTH = 120
MAX_NUMBER_LENGTH = 400


class Kind(Enum):
    """What a token is."""

    WORD = "word"
    NAME = "quoted name"
    STRING = "string"
    NUMBER = "number"
    SYMBOL = "symbol"
    END = "end of the query"


class Token(NamedTuple):
    """A piece of the text; `key` is used to compare keywords and symbols, and is empty for anything quoted."""

    kind: Kind
    text: str
    key: str
    start: int
    end: int


@dataclass(frozen=True)
class Source:
    """A text and its tokens; the last one is always END."""

    sql: str
    tokens: tuple[Token, ...]

    @cached_property
    def _line_starts(self) -> list[int]:
        return line_starts(self.sql)

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of a character, both from 1."""
        return place_of(self._line_starts, offset)


_LEXICAL_GRAMMAR = re.compile(
    r"""
      (?P<space>   [ \t\r\n\f\v]+ | --[^\r\n]* )
    | (?P<comment> /\* )
    | (?P<number>  (?: \d+ \.? \d* | \.\d+ ) (?: [eE] [+-]? \d+ )? )
    | (?P<word>    [A-Za-z_] [A-Za-z0-9_]* )
    | (?P<string>  ' (?: [^']++ | '' )*+ ' )
    | (?P<name>    " (?: [^"]++ | "" )*+ " | ` (?: [^`]++ | `` )*+ ` )
    | (?P<symbol>  <=> | <> | != | <= | >= | => | == | := | :: | ->> | -> | \|\| | \|> | << | >> | // | \*/
                 | [-+*/%=<>(),.;\[\]{}:&|^~!@\#?$\\] )
    """,
    re.VERBOSE | re.ASCII,
)
_BRACKETED = re.compile(r"\[ *+ ([A-Za-z_] [^\[\]'\"`,()\\\r\n]*+) \]", re.VERBOSE)
"""[Order Details]: a name as SQL Server writes it. A list begins with a number or a string, or has commas."""
_BEFORE_A_NAME = frozenset(
    {"SELECT", "DISTINCT", "ALL", "FROM", "JOIN", "ON", "WHERE", "AND", "OR", "NOT", "BY", "HAVING", "AS"}
    | {"CASE", "WHEN", "THEN", "ELSE", "BETWEEN", "LIKE", "IS", "DESCRIBE"}
)
"""After these words a bracket opens a name; after a name, a parenthesis or another bracket it opens a subscript."""
_SKIPPED = re.compile(r"(?: [ \t\r\n\f\v]++ | --[^\r\n]*+ | /\*.*?\*/ )*+", re.VERBOSE | re.DOTALL)
_FIRST_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HIDDEN = re.compile("[\x00-\x08\x0e-\x1f\x7f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")

_REFUSED_SYMBOLS = {
    "*/": (
        "A comment ends here that never began.",
        "Comments are /* … */, not nested, or run from -- to the end of the line.",
    ),
    "$": (
        "Dollar quotes and numbered parameters are not supported.",
        "Write the constant, strings in single quotes.",
    ),
    "?": ("Parameters are not supported.", "Write the constant in place of the ?."),
    "@": ("Variables are not supported.", "Write the constant in place of the variable."),
    "#": ("The character # is not supported.", "Comments start with --."),
    "\\": ("A backslash is not supported.", "Strings are in single quotes; double a quote to write it."),
    ":=": ("The operator := is not supported.", "Named arguments are written name => value."),
    "<=>": ("The operator <=> is not supported.", "Write IS NOT DISTINCT FROM."),
    "!": ("The operator ! is not supported.", "Write NOT, or <> for not equal."),
}


def tokenize(sql: str) -> Source:
    """The tokens of SQL that has passed `check_size`; raises E_PARSE or E_LIMITS if it cannot be tokenised."""
    _check_characters(sql)
    tokens: list[Token] = []
    position, depth = 0, 0
    while position < len(sql):
        found = _LEXICAL_GRAMMAR.match(sql, position)
        if found is None:
            _refuse_character(sql, position)
        position = found.end()
        match found.lastgroup:
            case "space":
                continue
            case "comment":
                position = _end_of_comment(sql, found.start())
                continue
            case group:
                token = _bracketed(sql, found, tokens) or _token(sql, str(group), found)
                position = token.end
        depth += (token.key in {"(", "["}) - (token.key in {")", "]"})
        if depth > MAX_NESTING:
            too_deep(sql, token.start)
        tokens.append(token)
        if len(tokens) > MAX_TOKENS:
            refuse(sql, token.start, "E_LIMITS", f"The query has more than {MAX_TOKENS} words and symbols.")
    tokens.append(Token(Kind.END, "", "", len(sql), len(sql)))
    return Source(sql, tuple(tokens))


def check_size(sql: str) -> None:
    """Refuse a query that is too long, in bytes, before anything else reads it."""
    if len(sql) > MAX_BYTES or len(sql.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise ShoalError(
            "E_LIMITS",
            f"The query is longer than {MAX_BYTES // 1024} KB.",
            hint="Put long lists into a public table and join with it.",
        )


def first_word(sql: str) -> tuple[str, int] | None:
    """The first word after spaces and comments, in capitals, and its position; None if no word comes first."""
    start = _SKIPPED.match(sql)
    found = _FIRST_WORD.match(sql, start.end() if start else 0)
    return (found.group().upper(), found.start()) if found else None


def refuse(sql: str, offset: int, code: str, message: str, hint: str | None = None) -> NoReturn:
    """Raise the error, with its position."""
    raise ShoalError(code, message, hint=hint, position=place_of(line_starts(sql), offset))


def too_deep(sql: str, offset: int) -> NoReturn:
    """Raise the error for a query that nests too deeply."""
    message = f"The query nests more than {MAX_NESTING} levels deep."
    refuse(
        sql,
        offset,
        "E_LIMITS",
        message,
        "Name the inner parts with WITH, and leave out parentheses that change nothing.",
    )


def too_tall(sql: str, offset: int) -> NoReturn:
    """Raise the error for a query whose tree has too many levels, most likely from a long chain of operators."""
    message = f"The query is a tree of more than {MAX_TREE_DEPTH} levels."
    refuse(sql, offset, "E_LIMITS", message, "Split long chains of operators, or name the inner parts with WITH.")


def line_starts(sql: str) -> list[int]:
    """Where each line begins."""
    starts = [0]
    for line in sql.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return starts


def place_of(starts: list[int], offset: int) -> tuple[int, int]:
    """Line and column of an offset; the end of the text belongs to its last line."""
    line = min(bisect_right(starts, offset), max(1, len(starts) - 1))
    return line, offset - starts[line - 1] + 1


def _check_characters(sql: str) -> None:
    try:
        sql.encode("utf-8")
    except UnicodeEncodeError as error:
        refuse(sql, error.start, "E_PARSE", "The query contains half of a character (a lone surrogate).")
    if found := _HIDDEN.search(sql):
        code_point = f"U+{ord(found.group()):04X}"
        refuse(sql, found.start(), "E_PARSE", f"The query contains the invisible character {code_point}.", "Remove it.")


def _token(sql: str, group: str, found: re.Match[str]) -> Token:
    text, start, end = found.group(), found.start(), found.end()
    match group:
        case "word":
            _check_prefix(sql, text, end)
            return Token(Kind.WORD, text, text.upper(), start, end)
        case "number":
            _check_number(sql, start, end)
            return Token(Kind.NUMBER, text, "", start, end)
        case "symbol":
            if text in _REFUSED_SYMBOLS:
                message, hint = _REFUSED_SYMBOLS[text]
                refuse(sql, start, "E_PARSE", message, hint)
            return Token(Kind.SYMBOL, text, text, start, end)
        case _:
            quote = text[0]
            _check_quoted(sql, text, start)
            content = text[1:-1].replace(quote * 2, quote)
            return Token(Kind.STRING if quote == "'" else Kind.NAME, content, "", start, end)


def _bracketed(sql: str, found: re.Match[str], before: list[Token]) -> Token | None:
    """A name in brackets, where a name may appear."""
    name = _BRACKETED.match(sql, found.start()) if found.group() == "[" else None
    last = before[-1] if before else None
    follows = last is not None and (
        last.kind is Kind.NUMBER
        or (last.kind is Kind.SYMBOL and last.key not in {")", "]"})
        or (last.kind is Kind.WORD and last.key in _BEFORE_A_NAME)
    )
    return Token(Kind.NAME, name.group(1).rstrip(), "", name.start(), name.end()) if name and follows else None


def _check_prefix(sql: str, word: str, end: int) -> None:
    following = sql[end : end + 2]
    if (following[:1] in {"'", '"'} and word.upper() not in BEFORE_A_QUOTE) or following in {"&'", '&"'}:
        refuse(
            sql, end, "E_PARSE", "Strings and names take no prefix.", "Write plain '…' for strings and \"…\" for names."
        )


def _check_number(sql: str, start: int, end: int) -> None:
    if end - start > MAX_NUMBER_LENGTH:
        refuse(sql, start, "E_LIMITS", f"A number is longer than {MAX_NUMBER_LENGTH} digits.")
    if re.match(r"[A-Za-z0-9_.$]", sql[end : end + 1]):
        refuse(sql, start, "E_PARSE", "A number runs into a word.", "Write plain numbers such as 12, 0.5 or 1e-6.")


def _check_quoted(sql: str, text: str, start: int) -> None:
    found = re.search(r"\\'|\\\"|\\`", text) if text[0] == "'" else re.search(r"\\", text)
    if found:
        hint = "Double a quote to write it; a string that ends in a backslash is written 'a' || CHR(92)."
        message = "A backslash before a quote means different things to different engines."
        refuse(sql, start + found.start(), "E_PARSE", message, hint)
    if len(text) == 2 and text != "''":
        refuse(sql, start, "E_PARSE", "A quoted name is empty.")


def _end_of_comment(sql: str, start: int) -> int:
    end = sql.find("*/", start + 2)
    if end < 0:
        refuse(sql, start, "E_PARSE", "A comment is never closed.", "Close it with */.")
    if "/*" in sql[start + 2 : end]:
        refuse(
            sql,
            start,
            "E_PARSE",
            "A comment is nested inside another comment.",
            "Engines disagree where that ends; close the first one.",
        )
    if sql[start + 2 : start + 3] in {"+", "!"}:
        refuse(sql, start, "E_PARSE", "Hints to an engine (/*+ … */, /*! … */) are not passed on.", "Remove the hint.")
    return end + 2


def _refuse_character(sql: str, position: int) -> NoReturn:
    character = sql[position]
    if character in "'\"`":
        refuse(sql, position, "E_PARSE", "A quote is never closed.", "Close it; double a quote to write it inside.")
    message = f"The character U+{ord(character):04X} is not supported."
    refuse(sql, position, "E_PARSE", message, "Put names with letters other than a to z in double quotes.")
