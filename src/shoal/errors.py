"""What can go wrong, as data: a user's error and a bug of ours are different classes.

Every refusal is a `ShoalError` with a stable code, a sentence, a hint that says what to write instead, and, where SQL is to
blame, the place in it. An error is a function of the query's text, the catalog and the options alone: no value, row count,
path or engine text may enter a message.

    >>> error = ShoalError("E_OPTION_INVALID", "epsilon must be positive.", hint="Write epsilon = 1.")
    >>> error.code
    'E_OPTION_INVALID'
"""

from __future__ import annotations

QUERY_CODES = frozenset(
    {
        "E_NO_DP_CLAUSE",
        "E_STATEMENT",
        "E_MULTI_STATEMENT",
        "E_PARSE",
        "E_LIMITS",
        "E_RAW_OUTPUT",
        "E_UID_EXPOSED",
        "E_UID_LOST",
        "E_UID_FORGED",
        "E_AGG_NOT_DP",
        "E_BOUNDS_REQUIRED",
        "E_BOUNDS_INVALID",
        "E_OPTION_INVALID",
        "E_OPTION_UNKNOWN",
        "E_JOIN_NOT_ON_UID",
        "E_CROSS_USER",
        "E_EXPR_SUBQUERY",
        "E_SETOP_UID",
        "E_FUNCTION_NOT_ALLOWED",
        "E_TABLE_FUNCTION",
        "E_UNKNOWN_TABLE",
        "E_UNKNOWN_COLUMN",
        "E_RECURSION",
        "E_GROUPING",
        "E_UNSUPPORTED",
        "E_POLICY",
        "E_BUDGET",
    }
)
"""Codes of refused queries: nothing was read, nothing was spent."""

OTHER_CODES = frozenset(
    {
        "E_CATALOG",  # the catalog contradicts itself or the data's schema
        "E_SOURCE",  # a data source cannot be opened
        "E_LEDGER",  # the ledger is missing, damaged or cannot be written
        "E_SKETCH",  # a sketch file is damaged, hostile or does not fit another
        "E_HIERARCHY",  # a generalization hierarchy contradicts itself or lacks values of the data
        "E_DEMANDS",  # no recoding of a table meets the demands made of it
        "E_USAGE",  # a wrong argument of a Python call or a command
        "E_MISSING_EXTRA",  # an optional dependency is not installed
        "E_IDEMPOTENCY",  # another request was sent under this key
        "E_AUTH",  # no token, or one that is wrong, expired or revoked
        "E_FORBIDDEN",  # a token that is good for other things
        "E_NOT_FOUND",  # there is no such thing, or it is not yours
        "E_RATE",  # too many requests in a short time
        "E_BUSY",  # too much is waiting already, or the service is ending
        "E_CANCELLED",  # the job was cancelled
        "E_GONE",  # an answer that was given and is no longer kept
        "E_SUSPENDED",  # a charged query of this user ended without an answer, and the custodian has not lifted it
        "E_INTERNAL",  # a bug of ours, found before data was read: nothing is charged
        "E_EXECUTION",  # the engine failed after data was read: charged, and nothing more is said
    }
)
"""Codes that are not verdicts on a query."""


class ShoalError(Exception):
    """A request that cannot be met, with a code that programs test and a sentence that people read."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        hint: str | None = None,
        position: tuple[int, int] | None = None,
        sql: str | None = None,
    ) -> None:
        if code not in QUERY_CODES and code not in OTHER_CODES:
            raise InternalError(f"unknown error code {code}")
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint
        self.position = position
        self.sql = sql

    def __str__(self) -> str:
        lines = [f"{self.code}: {_visible(self.message)}"]
        lines.extend(self._underlined())
        if self.hint:
            lines.append(f"Hint: {_visible(self.hint)}")
        return "\n".join(lines)

    def _underlined(self) -> list[str]:
        """The line of SQL that is to blame, with a caret under the place."""
        if self.position is None or self.sql is None:
            return []
        line_number, column = self.position
        source = self.sql.splitlines()
        if not 1 <= line_number <= len(source):
            return []
        text = source[line_number - 1]
        start = max(0, column - 60)
        shown = "".join(c if c.isprintable() else " " for c in text[start : start + 100])
        return [f"  line {line_number}: {shown}", " " * (len(f"  line {line_number}: ") + column - 1 - start) + "^"]

    def located(self, sql: str) -> ShoalError:
        """The same error, with the text of the query."""
        self.sql = sql
        return self

    def _render_traceback_(self) -> list[str]:
        """What IPython shows: the sentence, and no traceback through code that is not the reader's."""
        return str(self).splitlines()

    def to_dict(self) -> dict[str, object]:
        """The error as plain values, for programs."""
        return {
            "code": self.code,
            "message": self.message,
            "hint": self.hint,
            "position": list(self.position) if self.position else None,
        }


def _visible(text: str) -> str:
    """Names of columns and files may hold anything; a terminal is spared what it would obey."""
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)


class InternalError(Exception):
    """A bug in shoal. Never carries data, nor anything an engine said."""


def missing_extra(extra: str, purpose: str) -> ShoalError:
    """The error for an optional dependency that is not installed."""
    return ShoalError(
        "E_MISSING_EXTRA",
        f"{purpose} needs the optional dependency group '{extra}'.",
        hint=f"pip install 'shoal[{extra}]'",
    )
