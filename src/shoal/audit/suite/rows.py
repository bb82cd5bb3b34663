"""The rows of an audit's table."""

from __future__ import annotations

from dataclasses import asdict

from shoal.frozen import dataclass

FALSE_ALARMS = 1e-6
"""Of a whole run, shared evenly between its checks."""

Key = tuple[str, str, str, float]
"""Family, name, method and ε of a check: no two are the same."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. `epsilon_lower` and `power` are None where nothing was sampled."""

    family: str
    name: str
    method: str
    epsilon: float
    delta: float
    passed: bool
    epsilon_lower: float | None
    power: float | None
    samples: int
    note: str
    seconds: float
    processor_seconds: float = 0.0

    @property
    def key(self) -> Key:
        """The check it belongs to."""
        return self.family, self.name, self.method, self.epsilon


@dataclass(frozen=True, slots=True)
class Report:
    """The table of a run."""

    rows: tuple[Row, ...]
    samples: int
    seconds: float

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return all(row.passed for row in self.rows)

    def to_dict(self) -> dict[str, object]:
        """Print the table as JSON."""
        return {
            "passed": self.passed,
            "samples": self.samples,
            "false_alarms": FALSE_ALARMS,
            "seconds": round(self.seconds, 1),
            "checks": [asdict(row) for row in self.rows],
        }
