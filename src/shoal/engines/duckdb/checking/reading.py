"""The engine's own reading of a statement, checked before anything is charged.

Our forms say what cannot fail; the engine decides what they mean. It adds casts where two types meet, picks an overload of
each function, and may do so differently tomorrow. So every statement is bound over an empty copy of the schema, and the plan
that the engine has made of it, before any optimisation, is read:

- every cast is a try-cast, or one that has a value for every value (widening), or one of a constant that it can read;
- what is compared, chosen between or listed has one type;
- every function, aggregate and window is on a list, with the types of its arguments (`known_calls`); nothing volatile is;
- rows come from tables of the copy.

Anything else is a bug of ours, found while it costs nothing and reveals nothing.
"""

from __future__ import annotations

import json
import threading
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import duckdb

from shoal.engines.duckdb.checking.casts import always_casts, fits, reads_constant, surprise, type_of
from shoal.engines.duckdb.checking.known_calls import (
    BINDING,
    BY_SMALL_NUMBERS,
    OF_ONE_TYPE,
    OF_STATEMENTS,
    OPERATORS,
    WINDOWS,
)
from shoal.engines.duckdb.checking.remembered import Remembered
from shoal.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from shoal.engines.duckdb.checking.casts import Named
    from shoal.engines.duckdb.checking.known_calls import Rules

    Json = dict[str, Any]

READ = "SELECT system.main.json_serialize_plan(?, skip_null := true, skip_empty := true, skip_default := true, optimize := false)"
NO_TABLE = "rows that come from no table"
REMEMBERED_TEXTS = 512
_NO_NUMBER = '"value":NAN'
"""How the engine writes a constant NaN, which is not JSON. Inside a string its quotes would have backslashes."""
_COMPARISONS = frozenset({"=", "!=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"})
_LEAVES = frozenset({"BOUND_REF", "BOUND_CONSTANT", "BOUND_COLUMN_REF", "BOUND_LAMBDA_REF"})
_SKIPPED = frozenset(
    {"return_type", "arguments", "function_data", "value", "returned_types", "qname", "names", "types", "column_ids"}
)
"""Parts of a plan that hold no expression of their own; a lambda's body is among its children too."""

# ---- casts ---------------------------------------------------------------------------------------------------------


def _check_cast(expression: Json) -> None:
    (child,) = expression["children"]
    if expression["function_data"].get("try_cast"):
        return
    source, target = type_of(child), type_of(expression)
    if always_casts(source, target):
        return
    if child["expression_class"] != "BOUND_CONSTANT" or not reads_constant(child, target):
        raise surprise(f"a cast from {source[0]} to {target[0]}")


# ---- expressions ---------------------------------------------------------------------------------------------------


def _check_alike(expressions: Iterable[Json], what: str) -> None:
    if len({type_of(e) for e in expressions}) > 1:
        raise surprise(f"values of two types in {what}")


def _name_of(expression: Json) -> str:
    """The function, of the built-in ones only."""
    path = expression["qname"]["path"]
    if path[:-1] not in ([], ["system", "main"]):
        raise surprise("a function of somebody else")
    return str(path[-1])


def _arguments(expression: Json) -> tuple[str, ...]:
    return tuple(argument["id"] for argument in expression.get("arguments", ()))


def _check_function(expression: Json, rules: Rules) -> None:
    name = _name_of(expression)
    if name == "__cast":
        return _check_cast(expression)
    children, types = expression.get("children", []), _arguments(expression)
    if name in _COMPARISONS:
        return _check_alike(children, "a comparison")
    if name.startswith("regexp_") and children[1]["expression_class"] != "BOUND_CONSTANT":
        raise surprise("a pattern that is not a constant")
    if not rules.has_forms:
        _check_bare_call(name, children)
    if name == BINDING or (name, types) in rules.functions or (name == "-" and _is_constant(children)):
        return None
    if name in OF_ONE_TYPE and set(types) <= OF_ONE_TYPE[name]:
        return _check_alike(children, name)
    raise surprise(f"{name}({', '.join(types)})")


def _check_bare_call(name: str, children: list[Json]) -> None:
    """Arguments that our forms would hold in range must be constants in it."""
    if name in BY_SMALL_NUMBERS and not all(_is_small_number(each) for each in children[1:]):
        raise surprise(f"{name} by numbers that are not constants of 32 bits")
    if name == "regexp_replace" and not _is_plain_text(children[2]):
        raise surprise("regexp_replace with something other than a string without backslashes")
    if name == "replace" and not all(isinstance(_held(each), str) for each in children[1:]):
        raise surprise(
            "replace with something other than constants: a long string can become any number of times as long"
        )
    if name in {"regexp_extract", "regexp_replace"} and not _compiles(_held(children[1])):
        raise surprise("a regular expression that is none")


def _held(expression: Json) -> object:
    """The value of a constant, also of one that is cast; None for everything else."""
    if expression["expression_class"] == "BOUND_FUNCTION" and _name_of(expression) == "__cast":
        (expression,) = expression["children"]
    return expression["value"].get("value") if expression["expression_class"] == "BOUND_CONSTANT" else None


def _is_small_number(expression: Json) -> bool:
    held = _held(expression)
    return isinstance(held, int) and fits(held, "INTEGER")


def _is_positive(expression: Json) -> bool:
    return _is_small_number(expression) and int(str(_held(expression))) > 0


def _is_plain_text(expression: Json) -> bool:
    held = _held(expression)
    return isinstance(held, str) and "\\" not in held


def _compiles(pattern: object) -> bool:
    """Whether a regular expression is one: the engine reads that of some functions only when it runs them."""
    try:
        duckdb.connect().execute("SELECT regexp_matches('', ?)", [pattern])
    except duckdb.Error:
        return False
    return True


def _is_constant(children: list[Json]) -> bool:
    return len(children) == 1 and children[0]["expression_class"] == "BOUND_CONSTANT"


def _check_collation(expression: Json) -> None:
    """Texts are compared by their bytes: any other way would merge groups and owners by their spelling."""
    info = expression.get("return_type", {}).get("type_info")
    if info is not None and info.get("collation", "") not in {"", "binary"}:
        raise surprise("strings that are not compared by their bytes")


def _check_operator(expression: Json) -> None:
    kind = expression["type"]
    if kind in {"COMPARE_IN", "COMPARE_NOT_IN", "OPERATOR_COALESCE"}:
        _check_alike(expression["children"], kind)
    elif kind not in {"OPERATOR_NOT", "OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL"}:
        raise surprise(kind)


def _check_case(expression: Json) -> None:
    values = [check["then_expr"] for check in expression["case_checks"]]
    _check_alike([expression, *values, expression["else_expr"]], "CASE")


def _check_aggregate(expression: Json, rules: Rules) -> None:
    called = (_name_of(expression), _arguments(expression))
    if called not in rules.aggregates:
        raise surprise(f"{called[0]}({', '.join(called[1])})")


def _check_window(expression: Json, rules: Rules) -> None:
    if expression.get("ignore_nulls") or expression.get("exclude_clause", "NO_OTHER") != "NO_OTHER":
        raise surprise("a window that leaves rows out")
    if not rules.has_forms:
        _check_frame(expression)
    if expression["type"] == "WINDOW_AGGREGATE":
        return _check_aggregate(expression, rules)
    if expression["type"] not in WINDOWS:
        raise surprise(expression["type"])
    if expression["type"] == "WINDOW_NTILE" and not rules.has_forms and not _is_positive(expression["children"][0]):
        raise surprise("ntile by a number that is not a constant")
    if expression["type"] in {"WINDOW_LAG", "WINDOW_LEAD"}:
        children = expression["children"]
        _check_alike([children[0], *children[2:]], expression["type"])
    return None


def _check_frame(window: Json) -> None:
    """Without forms, a frame ends at rows whose number is a constant: the engine refuses negative and missing ones."""
    for end, told in (("start", "start_expr"), ("end", "end_expr")):
        if str(window.get(end, "")).endswith("_RANGE") and told in window:
            raise surprise("a frame that goes by a distance")
        if told in window and not (_is_small_number(window[told]) and int(str(_held(window[told]))) >= 0):
            raise surprise("a frame by a number that is not a constant")


def _check_between(expression: Json) -> None:
    _check_alike([expression[part] for part in ("input", "lower", "upper")], "BETWEEN")


def _check_comparison(expression: Json) -> None:
    _check_alike([expression[part] for part in ("left", "right")], "a comparison")


_CHECKS: dict[str, Callable[[Json], None]] = {
    "BOUND_OPERATOR": _check_operator,
    "BOUND_CASE": _check_case,
    "BOUND_BETWEEN": _check_between,
    "BOUND_COMPARISON": _check_comparison,
    "BOUND_CONJUNCTION": lambda _: None,
    "BOUND_LAMBDA": lambda _: None,
}


# ---- relations -----------------------------------------------------------------------------------------------------


def _check_relation(operator: Json, rules: Rules) -> None:
    kind = operator["type"]
    if kind not in OPERATORS:
        raise surprise(kind)
    if not rules.has_forms and any("expression" in operator.get(part, ()) for part in ("limit_val", "offset_val")):
        raise surprise("a LIMIT by a number that is not a constant")
    if kind == "LOGICAL_GET" and operator["qname"]["path"][-1] != "seq_scan":
        raise surprise(NO_TABLE)
    if operator.get("join_type") == "SINGLE":
        raise surprise("a value that may have two rows")
    for condition in operator.get("conditions", ()):
        if (
            "left" in condition and "right" in condition
        ):  # else it is a condition of any other kind, read like all expressions
            _check_comparison(condition)


def _without_single_row_guard(operator: Json) -> list[Json] | None:
    """The engine fails on a value that has two rows; ours have one at most, which must be so: its rows are limited to one."""
    expressions = operator.get("expressions", ())
    if operator["type"] != "LOGICAL_PROJECTION" or not any(map(_is_row_guard, expressions)):
        return None
    (grouped,) = operator["children"]
    (limited,) = grouped["children"] if grouped["type"] == "LOGICAL_AGGREGATE_AND_GROUP_BY" else (grouped,)
    if limited["type"] != "LOGICAL_LIMIT" or limited["limit_val"].get("constant_integer") != 1:
        raise surprise("a value that may have two rows")
    return [grouped, *(e for e in expressions if not _is_row_guard(e))]


def _is_row_guard(expression: Json) -> bool:
    if expression["expression_class"] != "BOUND_CASE" or len(expression["case_checks"]) != 1:
        return False
    failure = expression["case_checks"][0]["then_expr"]
    return bool(failure["expression_class"] == "BOUND_FUNCTION" and failure["qname"]["path"][-1] == "error")


def check_plan(plan: Any, rules: Rules = OF_STATEMENTS) -> None:
    """Looks at every operator and every expression of a bound plan; InternalError at the first surprise."""
    stack = [plan]
    while stack:
        part = stack.pop()
        if isinstance(part, list):
            stack.extend(part)
            continue
        if not isinstance(part, dict):
            continue
        class_ = part.get("expression_class")
        if class_ is not None and (rules.has_forms or class_ not in _LEAVES):
            _check_collation(part)  # columns of a view are compared by their bytes where statements read them
        if class_ in _LEAVES:
            continue
        if class_ is not None:
            if class_ == "BOUND_FUNCTION":
                _check_function(part, rules)
            elif class_ == "BOUND_AGGREGATE":
                _check_aggregate(part, rules)
            elif class_ == "BOUND_WINDOW":
                _check_window(part, rules)
            elif class_ not in _CHECKS:
                raise surprise(class_)
            else:
                _CHECKS[class_](part)
        elif str(part.get("type", "")).startswith("LOGICAL_"):
            _check_relation(part, rules)
            guarded = _without_single_row_guard(part)
            if guarded is not None:
                stack.extend(guarded)
                continue
        stack.extend(value for key, value in part.items() if key not in _SKIPPED and isinstance(value, (dict, list)))


def databases_of(plan: Any) -> set[str]:
    """The databases whose tables a bound plan reads."""
    found: set[str] = set()
    stack = [plan]
    while stack:
        part = stack.pop()
        if isinstance(part, dict):
            if part.get("type") == "LOGICAL_GET":
                found.add(str(part["function_data"]["catalog"]))
            stack.extend(part.values())
        elif isinstance(part, list):
            stack.extend(part)
    return found


# ---- the copy ------------------------------------------------------------------------------------------------------


class UnwrittenError(InternalError):
    """The engine has no form in which it could write down what it has made of a statement."""


def bound(connection: duckdb.DuckDBPyConnection, question: Any, statements: Sequence[str]) -> list[Json]:
    """What the engine makes of statements, before any optimisation: nothing is run."""
    try:
        written = connection.execute(question, ["\n;\n".join(statements)]).fetchall()[0][0]
    except duckdb.Error:
        raise surprise("an error") from None
    read = json.loads(written.replace(_NO_NUMBER, '"value":NaN'))
    if read.get("error") and read.get("error_type") == "not implemented":
        raise UnwrittenError("the engine cannot write a statement down")
    if read.get("error"):
        raise surprise(f"an error of kind {read.get('error_type', 'unknown')}")
    plans: list[Json] = list(read.get("plans", ()))
    if len(plans) != len(statements):
        raise surprise("more than one part, or none")
    return plans


class Reader:
    """An empty copy of a schema, locked, in which statements are bound and never run."""

    def __init__(self, lockdown: Iterable[str]) -> None:
        self._connection = duckdb.connect(":memory:", config={"threads": "1"})
        (self._question,) = self._connection.extract_statements(READ)
        self._tables: set[str] = set()
        self._lock = threading.Lock()
        self._read: Remembered[tuple[bytes, Rules], list[Named]] = Remembered(REMEMBERED_TEXTS)
        for statement in lockdown:
            self._connection.execute(statement)

    def copy(self, tables: Mapping[str, Iterable[tuple[str, str]]]) -> None:
        """Tables of these columns and types, those that are not there yet."""
        with self._lock:
            for table, columns in tables.items():
                if table not in self._tables:
                    self._create(table, columns)
                    self._tables.add(table)

    def _create(self, table: str, columns: Iterable[tuple[str, str]]) -> None:
        typed = [(_quoted(column), self._known(type_)) for column, type_ in columns]
        listed = ", ".join(f"{column} {type_}" for column, type_ in typed)
        self._connection.execute(f"CREATE TEMP TABLE {_quoted(table)} ({listed})")

    def _known(self, type_: str) -> str:
        """The type, or text for one that only an extension knows: columns of such types are read through a try-cast at most."""
        try:
            self._connection.execute(f"SELECT CAST(NULL AS {type_})")
        except duckdb.Error:
            return "VARCHAR"
        return type_

    def bound(self, statement: str) -> Json:
        """What the engine makes of one statement."""
        with self._lock:
            (plan,) = bound(self._connection, self._question, [statement])
        return plan

    def check(self, statement: str, rules: Rules = OF_STATEMENTS) -> list[Named]:
        """Binds one statement and reads what the engine has made of it: the types of its columns, as far as it is a SELECT.

        InternalError where that is a surprise.
        """
        (types,) = self.check_all([statement], rules)
        return types

    def check_all(self, statements: Sequence[str], rules: Rules = OF_STATEMENTS) -> list[list[Named]]:
        """The same for several, in one question to the engine.

        A text that was read before means the same: tables of the copy never change.
        """
        texts = [(sha256(statement.encode()).digest(), rules) for statement in statements]
        # Taken now: what is remembered next may push these out.
        known = {text: types for text in texts if (types := self._read.get(text)) is not None}
        new = {text: each for text, each in zip(texts, statements, strict=True) if text not in known}
        found = dict(zip(new, self._checked(list(new.values()), rules), strict=True)) if new else {}
        for text, types in found.items():
            self._read.add(text, types)
        return [found[text] if text in found else known[text] for text in texts]

    def _checked(self, statements: list[str], rules: Rules) -> list[list[Named]]:
        """A statement has one part at least, so that as many parts as statements are one of each."""
        with self._lock:
            plans = bound(self._connection, self._question, statements)
        for plan in plans:
            check_plan(plan, rules)
        return [[type_of(expression) for expression in plan.get("expressions", ())] for plan in plans]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
