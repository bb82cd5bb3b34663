"""What a check found, whatever it checked: one finding for each rule, and whether all of them hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from shoal.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping


class ForMachines(Protocol):
    """A measurement that is more than a number."""

    def to_dict(self) -> Mapping[str, object]:
        """All of it."""
        ...


Measured = TypeVar("Measured", bound="float | ForMachines")


@dataclass(frozen=True, slots=True)
class Finding(Generic[Measured]):
    """What a rule says about its subject: whether it is broken, the sentence to print, what was measured and the limit."""

    rule: str
    subject: str
    broken: bool
    sentence: str
    measured: Measured | None = None
    limit: float | None = None

    def to_dict(self) -> dict[str, object]:
        """For machines."""
        measured = self.measured
        return {
            "rule": self.rule,
            "subject": self.subject,
            "broken": self.broken,
            "sentence": self.sentence,
            "measured": measured if measured is None or isinstance(measured, int | float) else measured.to_dict(),
            "limit": self.limit,
        }


Found = TypeVar("Found", bound=Finding)  # type: ignore[type-arg]  # of whatever was measured


@dataclass(frozen=True, slots=True)
class Verdict(Generic[Found]):
    """Whether every rule holds."""

    findings: tuple[Found, ...]

    @property
    def passed(self) -> bool:
        """Whether nothing is broken."""
        return not self.broken

    @property
    def broken(self) -> tuple[Found, ...]:
        """The findings that break a rule."""
        return tuple(finding for finding in self.findings if finding.broken)

    def to_dict(self) -> dict[str, object]:
        """For machines."""
        return {"format": 1, "passed": self.passed, "findings": [finding.to_dict() for finding in self.findings]}
