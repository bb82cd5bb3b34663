"""What is asked of a ledger: a loss to charge, for whom, under which keys and limits, checked before anything is written."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from shoal.errors import ShoalError
from shoal.frozen import dataclass

if TYPE_CHECKING:
    from shoal.accounting.accountants import Loss
    from shoal.accounting.allowances import Allowance
    from shoal.accounting.promises import Promise

LONGEST_DESCRIPTION = 4096
LONGEST_USER = 256
LONGEST_KEY = 256


@dataclass(frozen=True, slots=True)
class Request:
    """One request of one user, however often it is sent: a hash of who, where and their key, and one of the body."""

    key: str
    body_sha256: str
    may_resume: bool = True
    """Whether somebody takes a run up again that was cut short. If not, the death of its process counts at once."""
    is_charged_once: bool = False
    """Whether a run that finds it charged, and may not take that charge up, ends: another run has it."""

    @classmethod
    def of(cls, user: str, data_set: str, key: str, body: bytes, *, may_resume: bool = True) -> Request:
        """From what the user sent. Names of users and data sets are never given out twice."""
        texts = (user, data_set, checked_key(key))
        if any("\x1f" in text for text in texts):
            raise ShoalError("E_USAGE", "A name or a key contains a control character.")
        named = hashlib.sha256("\x1f".join(texts).encode()).hexdigest()
        return cls(named, hashlib.sha256(body).hexdigest(), may_resume)


@dataclass(frozen=True, slots=True)
class Terms:
    """Under which keys and limits a query is charged; see `Ledger.reserve`. Under a key, the answer's bytes are kept."""

    fingerprint: str | None = None
    request: Request | None = None
    accounts: tuple[Allowance, ...] = ()
    resume: bool = False

    @property
    def keeps_answer(self) -> bool:
        """Whether somebody may ask for the same answer again."""
        return self.fingerprint is not None or self.request is not None


NO_TERMS = Terms()


@dataclass(frozen=True, slots=True)
class Ask:
    """A charge that is asked for."""

    asked: Loss
    user: str
    description: str
    fingerprint: str
    request: Request | None
    promise: Promise
    cost: Loss | None
    accounts: tuple[Allowance, ...]
    resume: bool


def checked_key(key: str | None) -> str:
    """A key as it is kept; '' is none."""
    if key is None:
        return ""
    if not isinstance(key, str) or not 0 < len(key) <= LONGEST_KEY or not key.isprintable():
        raise ShoalError(
            "E_USAGE",
            f"A key is a printable string of 1 to {LONGEST_KEY} characters.",
            hint="Use a hash of the request, or a UUID.",
        )
    return key


def kept_user(user: str | None) -> str:
    """The name as it is kept; no user given is one user."""
    if user is not None and not isinstance(user, str):
        raise ShoalError("E_USAGE", "A user name is a string.", hint='Write user="ann".')
    return escaped(user or "", LONGEST_USER)


def escaped(text: str, longest: int) -> str:
    """Printable text of at most this many bytes: no control, bidirectional or terminal characters get through."""
    shown = "".join(
        c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text[:longest]
    )
    encoded = shown.encode()
    if len(encoded) <= longest and len(text) <= longest:
        return shown
    return encoded[: longest - 3].decode(errors="ignore") + "…"
