"""Text: positions count characters from 1, comparison is by bytes, no function makes a string longer than a mebibyte."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from shoal.plan.expressions import Call, Cast, Expression, Literal, Position
from shoal.plan.types import BOOLEAN, INTEGER, TEXT, Kind
from shoal.sql.functions import forms, patterns
from shoal.sql.functions.coerce import coerced, constant, text_constant, unsupported
from shoal.sql.functions.forms import (
    LONGEST_TEXT,
    builtin,
    clamped,
    compare,
    let_many,
    number,
    text,
    when,
)
from shoal.sql.functions.overloads import (
    Constant,
    Function,
    Overload,
    checked_count,
    overloaded,
    special,
    truth,
    wrong_arguments,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from shoal.sql.functions.forms import Body

LONGEST_REPEAT = 1000
_FAR = (1 << 31) - 1
_MANY = 1000
_WRITABLE = {
    Kind.TEXT,
    Kind.BOOLEAN,
    Kind.INTEGER,
    Kind.DOUBLE,
    Kind.DECIMAL,
    Kind.DATE,
    Kind.TIMESTAMP,
    Kind.TIME,
    Kind.NULL,
}


def _near(position: exp.Expr) -> exp.Expr:
    """A position or a length that the engine can hold; nothing lies beyond two thousand million characters."""
    return clamped(position, -_FAR, _FAR)


def _to_text(function: Function, arguments: Sequence[Expression], position: Position) -> list[Expression]:
    """Concatenation casts every argument that has a text form."""
    if any(a.type.kind not in _WRITABLE for a in arguments):
        raise wrong_arguments(function, arguments, position)
    return [coerced(a, TEXT) or Cast(a, TEXT, a.position) for a in arguments]


def _bind_concat(function: Function, arguments: tuple[Expression, ...], position: Position) -> Expression:
    checked_count(function, arguments, 1, _MANY, position)
    return Call(function.name, tuple(_to_text(function, arguments, position)), TEXT, position)


def _joined(*parts: exp.Expr) -> exp.Expr:
    """NULL if any part is NULL or the result is too long."""

    def whole(*values: exp.Expr) -> exp.Expr:
        return when(_fits([builtin("strlen", v) for v in values]), _folded("||", [v.copy() for v in values]))

    return let_many(list(parts), whole)


def _fits(lengths: list[exp.Expr]) -> exp.Expr:
    return compare(exp.LTE, _folded("+", lengths), number(LONGEST_TEXT))


def _folded(name: str, values: list[exp.Expr]) -> exp.Expr:
    total, *others = values
    for value in others:
        total = builtin(name, total, value)
    return total


def _few(count: int) -> str | None:
    if 0 <= count <= LONGEST_REPEAT:
        return None
    return f"The count must be a constant between 0 and {LONGEST_REPEAT}."


def _repeated(value: exp.Expr, count: exp.Expr) -> exp.Expr:
    longest = LONGEST_TEXT // max(1, int(count.this))

    def whole(v: exp.Expr) -> exp.Expr:
        return when(compare(exp.LTE, builtin("strlen", v), number(longest)), builtin("repeat", v.copy(), count))

    return forms.let(value, whole)


def _padded(name: str) -> Body:
    return lambda value, count, filling: builtin(name, value, count, filling)


def _padded_with_spaces(name: str) -> Body:
    return lambda value, count: builtin(name, value, count, text(" "))


def _not_empty(filling: str) -> str | None:
    return None if filling else "The filling must not be empty."


def _padding(name: str, side: str) -> Function:
    count = Constant(INTEGER, _few)
    return overloaded(
        name,
        f"{name.upper()}(text, length [, filling])",
        f"The text filled up on the {side}, or cut, to a constant length of at most {LONGEST_REPEAT}.",
        Overload((TEXT, count), TEXT, _padded_with_spaces(name)),
        Overload((TEXT, count, Constant(TEXT, _not_empty)), TEXT, _padded(name)),
    )


def _replaced(value: exp.Expr, old: exp.Expr, new: exp.Expr) -> exp.Expr:
    """The result is no longer than the text times the new part, plus one new part."""

    def whole(v: exp.Expr, o: exp.Expr, n: exp.Expr) -> exp.Expr:
        bound = builtin("*", builtin("strlen", v), builtin("+", builtin("strlen", n), number(1)))
        return when(compare(exp.LTE, bound, number(LONGEST_TEXT)), builtin("replace", v.copy(), o, n.copy()))

    return let_many([value, old, new], whole)


def _part(value: exp.Expr, separator: exp.Expr, number_: exp.Expr) -> exp.Expr:
    """The engine's own SPLIT_PART is a macro over names that can be redefined."""

    def found(v: exp.Expr, s: exp.Expr, n: exp.Expr) -> exp.Expr:
        part = builtin("list_extract", builtin("string_split", v, s), n)
        missing = [exp.Is(this=argument.copy(), expression=exp.Null()) for argument in (v, s, n)]
        nothing = forms.connected(exp.Or, tuple(missing))
        return when(nothing, exp.Null(), exp.Coalesce(this=part, expressions=[text("")]))

    return let_many([value, separator, _near(number_)], found)


def _simple(name: str, meaning: str, *, aliases: tuple[str, ...] = (), engine: str = "") -> Function:
    """A function of one string that returns a string."""
    form = Overload((TEXT,), TEXT, lambda value: builtin(engine or name, value))
    return overloaded(name, f"{name.upper()}(text)", meaning, form, aliases=aliases)


def _measure(name: str, meaning: str, engine: str, aliases: tuple[str, ...] = ()) -> Function:
    form = Overload((TEXT,), INTEGER, lambda value: forms.cast(builtin(engine, value), "BIGINT"))
    return overloaded(name, f"{name.upper()}(text)", meaning, form, aliases=aliases)


def _trimming(name: str, side: str) -> Function:
    return overloaded(
        name,
        f"{name.upper()}(text [, characters])",
        f"The text without spaces, or the given characters, {side}.",
        Overload((TEXT,), TEXT, lambda value: builtin(name, value)),
        Overload((TEXT, TEXT), TEXT, lambda value, characters: builtin(name, value, characters)),
    )


def _text_test(name: str, meaning: str, aliases: tuple[str, ...] = ()) -> Function:
    form = Overload((TEXT, TEXT), BOOLEAN, lambda value, part: builtin(name, value, part))
    return overloaded(name, f"{name.upper()}(text, part)", meaning, form, aliases=aliases)


def _bind_like(function: Function, arguments: tuple[Expression, ...], position: Position) -> Expression:
    checked_count(function, arguments, 2, 3, position)
    value = coerced(arguments[0], TEXT)
    pattern, *escape = (text_constant(part) for part in arguments[1:])
    if value is None or pattern is None or None in escape:
        message = f"{function.usage} compares a string with a constant pattern."
        raise unsupported(
            message, position, hint="Use STARTS_WITH, ENDS_WITH or CONTAINS to compare with another column."
        )
    complaint = patterns.like_complaint(pattern, escape[0] if escape else None)
    if complaint:
        raise unsupported(complaint, arguments[1].position or position)
    return truth(function, (value, *arguments[1:]), position)


def _like(plain: str, escaped: str) -> Callable[..., exp.Expr]:
    return lambda value, *rest: builtin(escaped if len(rest) == 2 else plain, value, *rest)


_REGEX = Constant(TEXT, patterns.regex_complaint)


def _extracted(value: exp.Expr, pattern: exp.Expr, group: exp.Expr | None = None) -> exp.Expr:
    """NULL if nothing matches (the engine returns an empty string)."""
    wanted = group or number(0)

    def found(v: exp.Expr) -> exp.Expr:
        return when(builtin("regexp_matches", v, pattern), builtin("regexp_extract", v.copy(), pattern.copy(), wanted))

    return forms.let(value, found)


def _bind_regexp_extract(function: Function, arguments: tuple[Expression, ...], position: Position) -> Expression:
    """If a pattern has one group, BigQuery extracts that group."""
    call = _REGEXP_EXTRACT.bind(function, arguments, position)
    if isinstance(call, Call) and len(call.arguments) == 2 and patterns.groups_in(constant(call.arguments[1])) == 1:
        return _REGEXP_EXTRACT.bind(function, (*arguments, Literal(1, INTEGER, position)), position)
    if isinstance(call, Call) and len(call.arguments) == 3:
        pattern, group = (constant(a) for a in call.arguments[1:])
        if group > patterns.groups_in(pattern):
            raise unsupported("The regular expression has fewer groups than that.", position)
    return call


def _group_number(group: int) -> str | None:
    return None if 0 <= group <= 9 else "The group must be a constant between 0 and 9."


def _plain_replacement(replacement: str) -> str | None:
    if "\\" in replacement or len(replacement) > patterns.LONGEST_PATTERN:
        return "The replacement is a constant text without backslashes."
    return None


def _regex_replaced(value: exp.Expr, pattern: exp.Expr, new: exp.Expr) -> exp.Expr:
    """Every match is replaced, as in BigQuery; there can be one more (empty) match than there are characters."""
    longest = LONGEST_TEXT // (len(new.this.encode()) + 1) - 1

    def whole(v: exp.Expr) -> exp.Expr:
        fits = compare(exp.LTE, builtin("strlen", v), number(longest))
        return when(fits, builtin("regexp_replace", v.copy(), pattern, new, text("g")))

    return forms.let(value, whole)


_REGEXP_EXTRACT = overloaded(
    "regexp_extract",
    "REGEXP_EXTRACT(text, pattern [, group])",
    "The first match of a constant regular expression: its only group, or the group with that number, or all of it; "
    "NULL where there is none.",
    Overload((TEXT, _REGEX), TEXT, _extracted),
    Overload((TEXT, _REGEX, Constant(INTEGER, _group_number)), TEXT, _extracted),
)

FUNCTIONS = (
    special(
        "concat",
        "a || b or CONCAT(a, b, …)",
        "All arguments as one text; NULL where one of them is.",
        _bind_concat,
        _joined,
        operator=True,
        aliases=("||",),
    ),
    special(
        "like",
        "x LIKE pattern [ESCAPE c]",
        "Whether the whole text fits a constant pattern: % is any text, _ any character.",
        _bind_like,
        _like("~~", "like_escape"),
        operator=True,
    ),
    special(
        "ilike",
        "x ILIKE pattern [ESCAPE c]",
        "LIKE without regard to case.",
        _bind_like,
        _like("~~*", "ilike_escape"),
        operator=True,
    ),
    _simple("lower", "The text in lower case.", aliases=("lcase",)),
    _simple("upper", "The text in upper case.", aliases=("ucase",)),
    _simple("reverse", "The characters in reverse order."),
    _simple("strip_accents", "The letters without accents."),
    _measure("length", "The number of characters.", "length", ("char_length", "character_length", "len")),
    _measure("octet_length", "The number of bytes.", "strlen", ("byte_length", "strlen")),
    _measure("ascii", "The code of the first character; 0 for an empty text.", "ascii", ("unicode", "ord")),
    overloaded(
        "substring",
        "SUBSTRING(text, start [, length])",
        "Characters from a position on; a negative start counts from the end.",
        Overload((TEXT, INTEGER), TEXT, lambda value, start: builtin("substring", value, _near(start))),
        Overload(
            (TEXT, INTEGER, INTEGER),
            TEXT,
            lambda value, start, length: builtin("substring", value, _near(start), clamped(length, 0, _FAR)),
        ),
        aliases=("substr", "mid"),
    ),
    overloaded(
        "left",
        "LEFT(text, n)",
        "The first n characters; all but the last -n when n is negative.",
        Overload((TEXT, INTEGER), TEXT, lambda value, count: builtin("left", value, _near(count))),
    ),
    overloaded(
        "right",
        "RIGHT(text, n)",
        "The last n characters; all but the first -n when n is negative.",
        Overload((TEXT, INTEGER), TEXT, lambda value, count: builtin("right", value, _near(count))),
    ),
    _trimming("trim", "at both ends"),
    _trimming("ltrim", "at its start"),
    _trimming("rtrim", "at its end"),
    overloaded(
        "replace",
        "REPLACE(text, old, new)",
        "Every occurrence of one text replaced by another.",
        Overload((TEXT, TEXT, TEXT), TEXT, _replaced),
    ),
    overloaded(
        "strpos",
        "STRPOS(text, part)",
        "Where the part begins, counted from 1; 0 if nowhere.",
        Overload((TEXT, TEXT), INTEGER, lambda value, part: builtin("strpos", value, part)),
        aliases=("instr", "position"),
    ),
    _text_test("starts_with", "Whether the text begins with the part.", ("prefix",)),
    _text_test("ends_with", "Whether the text ends with the part.", ("suffix",)),
    _text_test("contains", "Whether the part occurs in the text."),
    overloaded(
        "repeat",
        "REPEAT(text, n)",
        f"The text n times over, n a constant of at most {LONGEST_REPEAT}.",
        Overload((TEXT, Constant(INTEGER, _few)), TEXT, _repeated),
    ),
    _padding("lpad", "left"),
    _padding("rpad", "right"),
    overloaded(
        "split_part",
        "SPLIT_PART(text, separator, n)",
        "The n-th of the parts between separators; empty when there are fewer.",
        Overload((TEXT, TEXT, INTEGER), TEXT, _part),
    ),
    overloaded(
        "regexp_matches",
        "REGEXP_MATCHES(text, pattern)",
        "Whether a constant regular expression matches somewhere.",
        Overload((TEXT, _REGEX), BOOLEAN, lambda value, pattern: builtin("regexp_matches", value, pattern)),
        aliases=("regexp_contains", "regexp_like"),
    ),
    overloaded(
        "regexp_full_match",
        "REGEXP_FULL_MATCH(text, pattern)",
        "Whether a constant regular expression matches the whole text.",
        Overload((TEXT, _REGEX), BOOLEAN, lambda value, pattern: builtin("regexp_full_match", value, pattern)),
    ),
    Function(
        "regexp_extract",
        _REGEXP_EXTRACT.usage,
        _REGEXP_EXTRACT.meaning,
        _bind_regexp_extract,
        _REGEXP_EXTRACT.form,
        aliases=("regexp_substr",),
    ),
    overloaded(
        "regexp_replace",
        "REGEXP_REPLACE(text, pattern, new)",
        "Every match of a constant regular expression replaced by a constant text.",
        Overload((TEXT, _REGEX, Constant(TEXT, _plain_replacement)), TEXT, _regex_replaced),
    ),
)
