"""Calls that other databases spell differently: one row of `SPELLINGS` each, from the arguments to our spelling.

A row returns a tree of allow-listed functions, or None if it does not apply; the call is then left unchanged, and refused
under its own name. Nothing is refused here. An argument used twice must be small, or nested calls would grow without
bound.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from shoal.sql.grammar.dialects.formats import of_letters, of_mysql, of_to_char
from shoal.sql.grammar.dialects.pairs import NAMES, of_pairs
from shoal.sql.grammar.dialects.patterns import without_backslashes

Rewrite = Callable[[list[exp.Expr]], "exp.Expr | None"]
MOST_NODES = 24
"""An argument of at most this many nodes may be written twice."""
_TIMES = frozenset("HIMSpfT")


def respelt(call: exp.Anonymous) -> exp.Expr:
    """The call in our own spelling, or unchanged.

    >>> respelt(exp.Anonymous(this="NVL2", expressions=[exp.column("a"), exp.column("b"), exp.column("c")])).sql()
    'CASE WHEN NOT a IS NULL THEN b ELSE c END'
    """
    if call.name.upper().startswith("REGEXP_") and len(call.expressions) > 1:
        call.expressions[1].replace(_plain_pattern(call.expressions[1]))
    rewrite = SPELLINGS.get(call.name.upper()) or _as_pairs(call.name.upper())
    if rewrite is None or any(isinstance(a, (exp.Kwarg, exp.Order, exp.Distinct, exp.Star)) for a in call.expressions):
        return call
    return rewrite(list(call.expressions)) or call


def _as_pairs(name: str) -> Rewrite | None:
    if name not in NAMES:
        return None
    return lambda arguments: of_pairs(name, arguments) if all(map(_may_repeat, arguments)) else None


def _may_repeat(argument: exp.Expr) -> bool:
    """A subquery written twice would be asked, and paid for, twice."""
    return _is_small(argument) and argument.find(exp.Query) is None


def element(value: exp.Expr, index: exp.Expr) -> exp.Expr | None:
    """SPLIT(text, ',')[1] is a part of the string; APPROX_QUANTILES(x, 100)[OFFSET(50)] is one quantile."""
    if not isinstance(value, exp.Anonymous) or len(value.expressions) != 2:
        return None
    number, from_zero = _index(index)
    if number is None:
        return None
    first, second = value.expressions
    if value.name.upper() in {"SPLIT", "STRING_SPLIT", "STR_SPLIT", "STRING_TO_ARRAY"}:
        return _part(first, second, number + from_zero)
    parts = _whole(second)
    if value.name.upper() == "APPROX_QUANTILES" and from_zero and parts and number <= parts:
        return _call("PERCENTILE_DISC", first, exp.Literal.number(repr(number / parts)))
    return None


def share_of_total(value: exp.Expr, window: dict[str, object]) -> exp.Expr | None:
    """RATIO_TO_REPORT(x) OVER (…) is x / SUM(x) OVER (…)."""
    if not isinstance(value, exp.Anonymous) or value.name.upper() != "RATIO_TO_REPORT" or len(value.expressions) != 1:
        return None
    of = value.expressions[0]
    return exp.Div(this=of, expression=exp.Window(this=_call("SUM", of.copy()), **window)) if _is_small(of) else None


def matches(text: exp.Expr, pattern: exp.Expr, *, any_case: bool) -> exp.Expr:
    """The operators ~, ~*, REGEXP and RLIKE."""
    if any_case and isinstance(pattern, exp.Literal) and pattern.is_string:
        pattern = exp.Literal.string(f"(?i){pattern.name}")
    return _call("REGEXP_MATCHES", text, _plain_pattern(pattern))


def _plain_pattern(pattern: exp.Expr) -> exp.Expr:
    """A constant pattern without backslashes, if it can be written that way."""
    text = _text(pattern)
    found = without_backslashes(text) if text and "\\" in text else None
    if not found:
        return pattern
    plain = exp.Literal.string(found)
    plain.meta.update(pattern.meta)
    return plain


def as_one_value(values: list[exp.Expr]) -> exp.Expr:
    """Several values as one unique string: COUNT(DISTINCT a, b), where a row with a missing value is skipped.

    In parentheses, COUNT(DISTINCT (a, b)), rows with NULLs count too.
    """
    inside = values[0].expressions if isinstance(values[0], exp.Tuple) else None
    if len(values) == 1 and inside is None:
        return values[0]
    texts = [_cast(value, exp.DType.VARCHAR) for value in inside or values]
    marked = [
        exp.DPipe(this=_cast(_call("LENGTH", text.copy()), exp.DType.VARCHAR), expression=_after_colon(text))
        for text in texts
    ]
    parts: list[exp.Expr] = (
        [_call("COALESCE", part, exp.Literal.string("-")) for part in marked] if inside else [*marked]
    )
    whole = parts[0]
    for part in parts[1:]:
        whole = exp.DPipe(this=whole, expression=part)
    return whole


def _after_colon(text: exp.Expr) -> exp.Expr:
    return exp.DPipe(this=exp.Literal.string(":"), expression=text)


# ---- small words -------------------------------------------------------------------------------------------------


def _call(name: str, *arguments: exp.Expr) -> exp.Anonymous:
    return exp.Anonymous(this=name, expressions=list(arguments))


def _cast(value: exp.Expr, to: exp.DType) -> exp.Cast:
    return exp.Cast(this=value, to=exp.DataType(this=to))


def _case(*branches: tuple[exp.Expr, exp.Expr], default: exp.Expr | None = None) -> exp.Case:
    return exp.Case(ifs=[exp.If(this=when, true=then) for when, then in branches], default=default)


def _is_null(value: exp.Expr) -> exp.Is:
    return exp.Is(this=value, expression=exp.Null())


def _number(value: int) -> exp.Literal:
    return exp.Literal(this=str(value), is_string=False)


def _text(node: exp.Expr) -> str | None:
    return node.name if isinstance(node, exp.Literal) and node.is_string else None


def _whole(node: exp.Expr) -> int | None:
    digits = node.name if isinstance(node, exp.Literal) and not node.is_string else ""
    return int(digits) if digits.isdigit() and len(digits) < 10 else None


def _word(node: exp.Expr) -> str:
    """A bare word, or a string: DATEADD(day, …), TIME_SLICE(x, 1, 'HOUR')."""
    bare = isinstance(node, exp.Column) and not node.table and not node.this.args.get("quoted")
    return node.name.upper() if bare else (_text(node) or "").upper()


def _is_small(node: exp.Expr) -> bool:
    return sum(1 for _ in node.walk()) <= MOST_NODES


def _index(node: exp.Expr) -> tuple[int | None, int]:
    """A constant index, and 1 if it counts from 0."""
    if isinstance(node, exp.Anonymous) and len(node.expressions) == 1:
        word = node.name.upper()
        known = word in {"OFFSET", "SAFE_OFFSET", "ORDINAL", "SAFE_ORDINAL"}
        return (_whole(node.expressions[0]) if known else None), int(word.endswith("OFFSET"))
    return _whole(node), 0


def _part(text: exp.Expr, separator: exp.Expr, number: int) -> exp.Expr | None:
    """Part `number` of a string, NULL if it has fewer parts."""
    between = _text(separator)
    if not between or number < 1 or not _is_small(text):
        return None
    found = _call("SPLIT_PART", text, separator, _number(number))
    if number == 1:
        return found
    without = _call("LENGTH", _call("REPLACE", text.copy(), separator.copy(), exp.Literal.string("")))
    removed = exp.Sub(this=_call("LENGTH", text.copy()), expression=without)
    return _case((exp.GTE(this=removed, expression=_number(len(between) * (number - 1))), found))


# ---- one function for each form ----------------------------------------------------------------------------------


def _named(name: str, *order: int) -> Rewrite:
    """Another name, with its arguments in a different order."""

    def rewrite(arguments: list[exp.Expr]) -> exp.Expr | None:
        if not order:
            return _call(name, *arguments)
        return _call(name, *(arguments[i] for i in order)) if len(arguments) == len(order) else None

    return rewrite


def _fixed(count: int, build: Callable[..., exp.Expr | None]) -> Rewrite:
    return lambda arguments: build(*arguments) if len(arguments) == count else None


def _is_null_or(arguments: list[exp.Expr]) -> exp.Expr | None:
    if len(arguments) == 1:
        return _is_null(arguments[0])
    return _call("COALESCE", *arguments) if len(arguments) == 2 else None


def _decode(arguments: list[exp.Expr]) -> exp.Expr | None:
    """DECODE(x, a, 1, b, 2, 0): a CASE, in which NULL is found by IS NULL alone."""
    if len(arguments) < 3 or any(isinstance(a, exp.Null) for a in arguments[1:-1:2]):
        return None
    subject, *rest = arguments
    default = rest.pop() if len(rest) % 2 else None
    branches = [exp.If(this=when, true=then) for when, then in zip(rest[::2], rest[1::2], strict=True)]
    return exp.Case(this=subject, ifs=branches, default=default)


def _chosen(arguments: list[exp.Expr]) -> exp.Expr | None:
    """CHOOSE(n, 'one', 'two') and ELT."""
    subject, *values = arguments or [exp.Null()]
    branches = [exp.If(this=_number(n), true=value) for n, value in enumerate(values, 1)]
    return exp.Case(this=subject, ifs=branches) if branches else None


def _concat_ws(arguments: list[exp.Expr]) -> exp.Expr | None:
    """The strings that are not NULL, joined with a constant."""
    between = _text(arguments[0]) if len(arguments) > 1 else None
    if between is None:
        return None
    parts = [
        _call(
            "COALESCE",
            exp.DPipe(this=exp.Literal.string(between), expression=_cast(value, exp.DType.VARCHAR)),
            exp.Literal.string(""),
        )
        for value in arguments[1:]
    ]
    joined = _call("CONCAT", *parts) if len(parts) > 1 else parts[0]
    return _call("SUBSTRING", joined, _number(len(between) + 1))


def _quotient_or_zero(a: exp.Expr, b: exp.Expr) -> exp.Expr | None:
    zero = exp.EQ(this=b, expression=_number(0))
    return _case((zero, _number(0)), default=exp.Div(this=a, expression=b.copy())) if _is_small(b) else None


def _width_bucket(value: exp.Expr, low: exp.Expr, high: exp.Expr, count: exp.Expr) -> exp.Expr | None:
    """Which of this many equal intervals: 0 below them, one more above."""
    if not all(map(_is_small, (value, low, high, count))):
        return None
    beyond = exp.Add(this=count, expression=_number(1))
    share = exp.Div(
        this=exp.Mul(this=exp.Sub(this=value.copy(), expression=low.copy()), expression=count.copy()),
        expression=exp.Sub(this=high.copy(), expression=low.copy()),
    )
    inside = exp.Add(this=_cast(_call("FLOOR", share), exp.DType.INT), expression=_number(1))
    below = exp.LT(this=value, expression=low)
    above = exp.GTE(this=value.copy(), expression=high)
    return _case((below, _number(0)), (above, beyond), (exp.Not(this=_is_null(value.copy())), inside))


def _substring_index(text: exp.Expr, separator: exp.Expr, count: exp.Expr) -> exp.Expr | None:
    """MySQL's: the part before the first separator."""
    return _call("SPLIT_PART", text, separator, _number(1)) if _whole(count) == 1 else None


def _written(value: exp.Expr, written: exp.Expr, *readings: Callable[[str], str | None]) -> exp.Expr | None:
    """A time in the format of another database."""
    text = _text(written)
    code = next((found for read in readings if text and (found := read(text))), None)
    return _call("STRFTIME", value, exp.Literal.string(code)) if code else None


def _read(text: exp.Expr, written: exp.Expr, read: Callable[[str], str | None]) -> exp.Expr | None:
    """A string as a time: a date, if the format has no time of day."""
    code = read(_text(written) or "")
    if not code:
        return None
    parsed = _call("STRPTIME", text, exp.Literal.string(code))
    return parsed if any(f"%{c}" in code for c in _TIMES) else _cast(parsed, exp.DType.DATE)


def _to_date(arguments: list[exp.Expr]) -> exp.Expr | None:
    if len(arguments) == 1:
        return _cast(arguments[0], exp.DType.DATE)
    if len(arguments) != 2:
        return None
    parsed = _read(arguments[0], arguments[1], lambda text: of_to_char(text) or (text if "%" in text else None))
    return parsed and _cast(parsed, exp.DType.DATE)


def _to_timestamp(arguments: list[exp.Expr]) -> exp.Expr | None:
    if len(arguments) != 2:
        return None
    code = of_to_char(_text(arguments[1]) or "")
    return _call("STRPTIME", arguments[0], exp.Literal.string(code)) if code else None


def _date_name(part: exp.Expr, value: exp.Expr) -> exp.Expr | None:
    names = {**dict.fromkeys(("WEEKDAY", "DW", "W"), "DAYNAME"), **dict.fromkeys(("MONTH", "MM", "M"), "MONTHNAME")}
    name = names.get(_word(part))
    return _call(name, value) if name else None


_ABBREVIATED = {
    **dict.fromkeys(("YY", "YYYY"), "year"),
    **dict.fromkeys(("QQ", "Q"), "quarter"),
    **dict.fromkeys(("MM", "M"), "month"),
    **dict.fromkeys(("DY", "Y"), "dayofyear"),
    **dict.fromkeys(("DD", "D"), "day"),
    **dict.fromkeys(("ISO_WEEK", "ISOWK", "ISOWW"), "week"),
    "HH": "hour",
    **dict.fromkeys(("MI", "N"), "minute"),
    **dict.fromkeys(("SS", "S"), "second"),
}


def _date_part(part: exp.Expr, value: exp.Expr) -> exp.Expr | None:
    """SQL Server's DATEPART: a bare word, with days of the week from Sunday = 1. A string is DuckDB's, from Sunday = 0."""
    if _text(part) is not None:
        return None
    if _word(part) in {"WEEKDAY", "DW", "W"}:
        return exp.Extract(this=exp.Var(this="DAYOFWEEK"), expression=value)
    word = _ABBREVIATED.get(_word(part))
    return _call("DATE_PART", exp.Literal.string(word), value) if word else None


def _interval(amount: exp.Expr, unit: str) -> exp.Interval:
    return exp.Interval(this=amount, unit=exp.Var(this=unit.removesuffix("S")))


def _date_add(unit: exp.Expr, amount: exp.Expr, value: exp.Expr) -> exp.Expr | None:
    word = _word(unit)
    return _call("DATE_ADD", value, _interval(amount, word)) if word.removesuffix("S") in _UNITS else None


def _date_diff(arguments: list[exp.Expr]) -> exp.Expr | None:
    """MySQL's DATEDIFF(end, start) counts days."""
    if len(arguments) != 2:
        return None
    end, start = (_cast(value, exp.DType.DATE) for value in arguments)
    return _call("DATE_DIFF", exp.Literal.string("day"), start, end)


def _time_bucket(arguments: list[exp.Expr]) -> exp.Expr | None:
    """TIME_BUCKET('15 minutes', x): a string as an interval."""
    number, _, unit = (_text(arguments[0]) or "").strip().partition(" ") if arguments else ("", "", "")
    word = unit.strip().upper()
    if len(arguments) != 2 or not number.isdigit() or word.removesuffix("S") not in _UNITS:
        return None
    return _call("TIME_BUCKET", _interval(exp.Literal.number(number), word), arguments[1])


def _time_slice(value: exp.Expr, amount: exp.Expr, unit: exp.Expr) -> exp.Expr | None:
    word = _word(unit)
    return _call("TIME_BUCKET", _interval(amount, word), value) if word in _UNITS - {"WEEK"} else None


def _julian(value: exp.Expr, first: float) -> exp.Expr:
    """Days since the year −4712, as astronomers count them; `first` is that of 1970."""
    days = exp.Div(this=_call("EPOCH", _cast(value, exp.DType.TIMESTAMP)), expression=exp.Literal.number("86400.0"))
    return exp.Add(this=days, expression=exp.Literal.number(str(first)))


_UNITS = frozenset({"YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND"})
SPELLINGS: dict[str, Rewrite] = {
    # missing values and choices
    "ISNULL": _is_null_or,
    "NVL2": _fixed(3, lambda a, b, c: _case((exp.Not(this=_is_null(a)), b), default=c)),
    "ZEROIFNULL": _fixed(1, lambda x: _call("COALESCE", x, _number(0))),
    "NULLIFZERO": _fixed(1, lambda x: _call("NULLIF", x, _number(0))),
    "DECODE": _decode,
    "CHOOSE": _chosen,
    "ELT": _chosen,
    # numbers
    "DIV0": _fixed(2, _quotient_or_zero),
    "WIDTH_BUCKET": _fixed(4, _width_bucket),
    # strings
    "CHARINDEX": _named("STRPOS", 1, 0),
    "LOCATE": _named("STRPOS", 1, 0),
    "CONCAT_WS": _concat_ws,
    "SUBSTRING_INDEX": _fixed(3, _substring_index),
    # times
    "TO_CHAR": _fixed(2, lambda x, f: _written(x, f, of_to_char)),
    "DATE_FORMAT": _fixed(2, lambda x, f: _written(x, f, lambda t: of_mysql(t) if "%" in t else of_letters(t))),
    "FORMAT": _fixed(2, lambda x, f: _written(x, f, of_letters)),
    "STR_TO_DATE": _fixed(2, lambda x, f: _read(x, f, of_mysql)),
    "TO_DATE": _to_date,
    "TO_TIMESTAMP": _to_timestamp,
    "DATENAME": _fixed(2, _date_name),
    "DATEPART": _fixed(2, _date_part),
    "EOMONTH": _fixed(1, lambda x: _call("LAST_DAY", x)),
    "DATEADD": _fixed(3, _date_add),
    "DATEDIFF": _date_diff,
    "TIMESTAMPDIFF": _named("TIMESTAMP_DIFF", 2, 1, 0),
    "TIME_BUCKET": _time_bucket,
    "TIME_SLICE": _fixed(3, _time_slice),
    "JULIANDAY": _fixed(1, lambda x: _julian(x, 2_440_587.5)),  # SQLite: days begin at noon
    "JULIAN": _fixed(1, lambda x: _julian(x, 2_440_588.0)),  # DuckDB: at midnight
    "UNIX_TIMESTAMP": _fixed(1, lambda x: _call("EPOCH", x)),
    "GETDATE": _fixed(0, lambda: _call("NOW")),
    "SYSDATE": _fixed(0, lambda: _call("NOW")),
}
