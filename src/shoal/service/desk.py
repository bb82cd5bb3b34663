"""The ledger as one running job sees it: notes the charge, and lets nothing end before its moment.

A reply that read data leaves at a fixed time after its charge, or at a doubling of that time. It hides how long the data took.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from shoal.accounting.spending.refusals import MayBeStoredError
from shoal.errors import ShoalError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from shoal.accounting.ledger import Ledger, Reservation


class Ladder:
    """The moments at which a run may visibly end: T, 2T, 4T, … after its charge; never late if T is 0."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._started: float | None = None
        self.late = False

    def start(self) -> None:
        """The charge is written; data is read from now on. A resumed run counts from its first charge."""
        if self._started is None:
            self._started = time.monotonic()

    def wait(self) -> None:
        """Sleeps until the next moment."""
        if not self._seconds or self._started is None:
            return
        passed, step = time.monotonic() - self._started, self._seconds
        while step < passed:
            step *= 2
            self.late = True
        time.sleep(max(0.0, self._started + step - time.monotonic()))


class Desk:
    """The whole ledger, with `reserve` for one job."""

    def __init__(
        self, ledger: Ledger, ladder: Ladder, is_cancelled: Callable[[], bool], keep: Callable[[], None]
    ) -> None:
        self._ledger = ledger
        self._ladder = ladder
        self._is_cancelled = is_cancelled
        self.keep = keep
        """Flushes the job to disk. A charge without its job would be charged again after a power failure."""
        self.charge = 0
        self._reserved: Reservation | None = None
        self.replayed = False
        self.resumed = False
        """Whether this is the last run that its charge can have."""
        self._made: DeskReservation | None = None
        self._may_be_charged = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    def reserve(self, *args: Any, **options: Any) -> DeskReservation:
        """As `Ledger.reserve`."""
        if self._is_cancelled():
            self.end_open_charge()  # of a run that died: it ends as one that lived does, and when that would
            raise cancelled()
        try:
            reservation = self._ledger.reserve(*args, **options)
        except MayBeStoredError:
            self._may_be_charged = True
            raise
        self.resumed = bool(options.get("resume"))
        self.charge, self.replayed = reservation.sequence, reservation.answer is not None
        self._reserved = reservation
        self._ladder.start()
        self._made = DeskReservation(reservation, self._ladder, self._is_cancelled)
        return self._made

    @property
    def anchor(self) -> tuple[int, str] | None:
        """Number and hash of the charge's row, None if nothing was charged."""
        return self._reserved.anchor if self._reserved is not None and self.charge else None

    @property
    def is_ahead(self) -> bool:
        """Whether the ledger may have a charge that nobody was told of, or the answer: another run may take it from there."""
        return self._may_be_charged or (self._made is not None and self._made.may_be_answered)

    @property
    def is_open(self) -> bool:
        """Whether nobody has tried to end the charge."""
        return self._made is not None and not self._made.ended and not self.replayed

    def end_open_charge(self) -> None:
        """A charge that was never ended counts as a failure; E_SUSPENDED and E_CANCELLED as the ledger says."""
        if self._made is not None and self.is_open:
            self._made.fail()


class DeskReservation:
    """A charge whose end waits for its moment."""

    def __init__(self, reservation: Reservation, ladder: Ladder, is_cancelled: Callable[[], bool]) -> None:
        self._reservation = reservation
        self._ladder = ladder
        self._is_cancelled = is_cancelled
        self.sequence = reservation.sequence
        self.answer = reservation.answer
        self.ended = False
        self.may_be_answered = self.answer is not None

    def commit(self, answer: bytes | Sequence[bytes] | None = None) -> bytes | None:
        """As `Reservation.commit`; nothing is kept of a job that was cancelled meanwhile."""
        self._wait()
        if self._is_cancelled():
            self._reservation.cancel()
            raise cancelled()
        try:
            kept = self._reservation.commit(answer)
        except MayBeStoredError:
            self.may_be_answered = True
            raise
        self.may_be_answered = True
        return kept

    def fail(self, why: str = "") -> None:
        """As `Reservation.fail`."""
        self._wait()
        if self._is_cancelled():
            self._reservation.cancel()
            raise cancelled()
        self._reservation.fail(why)

    def cancel(self) -> None:
        """As `Reservation.cancel`."""
        self.ended = True
        self._reservation.cancel()

    def _wait(self) -> None:
        self._ladder.wait()
        self.ended = True


def cancelled() -> ShoalError:
    """What the asker of a cancelled job sees."""
    return ShoalError("E_CANCELLED", "The job was cancelled. What it had been charged stays charged.")
