"""What is asked of a Spark session: its failures say nothing, and the jobs of a query have a group of their own.

The session that was handed in is never reconfigured and never stopped. What has to be set otherwise is set in a copy of it.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from shoal.engines.base import EngineFailure
from shoal.engines.spark.pieces import MOST_ROWS_AT_ONCE
from shoal.engines.spark.plans import size_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LABELS = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")
NO_SIZE = str((1 << 31) - 1)
"""Spark then asks for the size of an Arrow batch no more. To ask after every row takes twice as long as to write the row."""
BYTES_PER_BATCH = "spark.sql.execution.arrow.maxBytesPerBatch"
ROWS_PER_BATCH = "spark.sql.execution.arrow.maxRecordsPerBatch"
MOST_BYTES_AT_ONCE = 64 << 20
"""What Spark itself lets a batch have."""


def rows_at_once(texts: int, longest: int) -> int:
    """How many rows a batch may have whatever is in them: strings have up to `longest` bytes each.

    >>> rows_at_once(0, 1 << 16), rows_at_once(1, 1 << 16), rows_at_once(3, 1 << 16)
    (4096, 1024, 256)
    """
    if not texts:
        return MOST_ROWS_AT_ONCE
    most = max(1, min(MOST_ROWS_AT_ONCE, MOST_BYTES_AT_ONCE // (texts * longest)))
    return 1 << most.bit_length() - 1  # few sizes, so few copies


class SparkJobs:
    """One Spark session, classic or Connect."""

    _spark: Any
    _copies: dict[int, Any]
    """For numbers of rows that batches may have, a copy of the session; None where there is none to be had."""
    _group: str = ""

    @staticmethod
    def _quietly(action: Callable[[], Any]) -> Any:
        """What an action gives, or None: nothing that Spark says about a failure goes any further."""
        with suppress(Exception):
            return action()
        return None

    def _ask(self, action: Callable[[], Any]) -> Any:
        """What an action gives; `EngineFailure` without a context where it fails. Ctrl+C cancels our jobs."""
        with suppress(Exception):
            try:
                return action()
            except KeyboardInterrupt:
                self._cancel()
                raise
        raise EngineFailure

    def _parallelism(self) -> int:
        default = self._quietly(lambda: int(self._spark.sparkContext.defaultParallelism))
        return default or 2

    def _size(self, frame: Any) -> int | None:
        """How many bytes a frame has by Spark's own estimate, which knows the sizes of files."""
        if hasattr(frame, "_jdf"):
            told = self._quietly(lambda: frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes())  # noqa: SLF001 - no other way
            return None if told is None else int(str(told))  # a number, or an object of Java with one
        return size_in(str(self._quietly(lambda: frame._explain_string(mode="cost"))))  # noqa: SLF001 - same

    def _copied_session(self, rows: int) -> Any:
        """A copy of a classic session, in which batches are bounded by their rows alone."""

        def copied() -> Any:
            session = self._spark._jsparkSession.cloneSession()  # noqa: SLF001 - Python has no name for it
            session.conf().set(BYTES_PER_BATCH, NO_SIZE)
            session.conf().set(ROWS_PER_BATCH, str(rows))
            return session

        if rows not in self._copies:
            self._copies[rows] = self._quietly(copied)
        return self._copies[rows]

    def _without_sizes(self, frame: Any, rows: int) -> Any:
        """The same frame in a copy of the session, where batches have so many rows; as it is where there is no copy."""
        copied = self._copied_session(rows)
        if copied is None:
            return frame
        moved = self._quietly(
            lambda: type(frame)(
                self._spark._jvm.org.apache.spark.sql.classic.Dataset.ofRows(  # noqa: SLF001 - the classic session has no other way
                    copied,
                    frame._jdf.queryExecution().analyzed(),  # noqa: SLF001 - same
                ),
                self._spark,
            )
        )
        return frame if moved is None else moved

    @contextmanager
    def _labelled(self) -> Iterator[None]:
        """Jobs of this thread belong to our group; what was set before is set again. Descriptions hold no SQL."""
        context = self._quietly(lambda: self._spark.sparkContext)
        if context is None:  # Connect has tags instead
            self._quietly(lambda: self._spark.addTag(self._group))
        before = {
            name: self._quietly(partial(context.getLocalProperty, name)) for name in LABELS if context is not None
        }
        try:
            if context is not None:
                self._quietly(lambda: context.setJobGroup(self._group, "shoal", interruptOnCancel=True))
            yield
        finally:
            for name, value in before.items():
                self._quietly(partial(context.setLocalProperty, name, value))
            if context is None:
                self._quietly(lambda: self._spark.removeTag(self._group))

    def _cancel(self) -> None:
        """Stops our jobs, and no others."""
        context = self._quietly(lambda: self._spark.sparkContext)
        if context is not None and self._group:
            self._quietly(lambda: context.cancelJobGroup(self._group))
        elif self._group:
            self._quietly(lambda: self._spark.interruptTag(self._group))
