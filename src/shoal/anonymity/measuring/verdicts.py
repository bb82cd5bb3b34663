"""What a check found: one finding for each demand, and whether all of them hold."""

from __future__ import annotations

from shoal.frozen import dataclass
from shoal.pages import findings


class Finding(findings.Finding[float]):
    """What one demand says about a table: whether it is broken, by how many owners, and the sentence to print."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Verdict(findings.Verdict[Finding]):
    """Whether every demand holds."""

    def __str__(self) -> str:
        lines = [f"{'broken' if finding.broken else 'holds '}  {finding.sentence}" for finding in self.findings]
        return "\n".join([*lines, "All demands hold." if self.passed else f"{len(self.broken)} broken."])
