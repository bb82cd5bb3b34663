"""What a check found: one finding for each demand, and whether all of them hold."""

from __future__ import annotations

from shoal.frozen import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """What one demand says about a table: whether it is broken, by how many owners, and the sentence to print."""

    rule: str
    subject: str
    broken: bool
    sentence: str
    measured: float | None = None
    limit: float | None = None

    def to_dict(self) -> dict[str, object]:
        """For machines."""
        return {
            "rule": self.rule,
            "subject": self.subject,
            "broken": self.broken,
            "sentence": self.sentence,
            "measured": self.measured,
            "limit": self.limit,
        }


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether every demand holds."""

    findings: tuple[Finding, ...]

    @property
    def passed(self) -> bool:
        """Whether nothing is broken."""
        return not self.broken

    @property
    def broken(self) -> tuple[Finding, ...]:
        """The findings that break a demand."""
        return tuple(finding for finding in self.findings if finding.broken)

    def to_dict(self) -> dict[str, object]:
        """For machines."""
        return {"format": 1, "passed": self.passed, "findings": [finding.to_dict() for finding in self.findings]}

    def __str__(self) -> str:
        lines = [f"{'broken' if finding.broken else 'holds '}  {finding.sentence}" for finding in self.findings]
        return "\n".join([*lines, "All demands hold." if self.passed else f"{len(self.broken)} broken."])
