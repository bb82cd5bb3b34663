"""What an attack got: the share of secrets recovered over the number of queries, for each defence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shoal.frozen import dataclass
from shoal.pages.figures import new_figure, saved

if TYPE_CHECKING:
    from pathlib import Path

_COLOURS = ("#b3312c", "#e08e45", "#8a6fb0", "#1b6ca8", "#3c8d5a")


@dataclass(frozen=True, slots=True)
class Curve:
    """One defence: after `queries[i]` queries the attacker is right about the share `recovered[i]` of the secrets."""

    defence: str
    queries: tuple[int, ...]
    recovered: tuple[float, ...]
    note: str = ""

    @property
    def final(self) -> float:
        """The share recovered after all queries."""
        return self.recovered[-1]

    def to_dict(self) -> dict[str, object]:
        """The curve as a machine reads it."""
        return {
            "defence": self.defence,
            "queries": list(self.queries),
            "recovered": list(self.recovered),
            "note": self.note,
        }


@dataclass(frozen=True, slots=True)
class AttackResult:
    """All defences under one attack. `guessing` is the share that pure guessing gets right."""

    attack: str
    secret: str
    guessing: float
    curves: tuple[Curve, ...]

    def curve(self, defence: str) -> Curve:
        """The first curve whose defence begins so."""
        return next(curve for curve in self.curves if curve.defence.startswith(defence))

    def to_dict(self) -> dict[str, object]:
        """The result as a machine reads it."""
        return {
            "attack": self.attack,
            "secret": self.secret,
            "guessing": self.guessing,
            "curves": [curve.to_dict() for curve in self.curves],
        }

    def __str__(self) -> str:
        lines = [f"{self.attack}: {self.secret} (guessing gets {self.guessing:.1%})"]
        width = max(len(curve.defence) for curve in self.curves)
        for curve in self.curves:
            steps = "   ".join(
                f"{share:6.1%} after {count}" for count, share in zip(curve.queries, curve.recovered, strict=True)
            )
            lines.append(f"  {curve.defence:<{width}}  {steps}" + (f"   ({curve.note})" if curve.note else ""))
        return "\n".join(lines)

    def plot(self, path: str | Path | None = None) -> Any:
        """The curves over the number of queries, as a Matplotlib figure (extra: plot)."""
        figure, axes = new_figure("A plot of an attack")
        for curve, colour in zip(self.curves, _COLOURS, strict=False):
            axes.plot(curve.queries, curve.recovered, marker="o", color=colour, label=curve.defence)
        axes.axhline(self.guessing, color="#5a5a5a", linestyle="--", label="guessing")
        axes.set(title=f"{self.attack}: {self.secret}", xlabel="queries", ylabel="share recovered", ylim=(0, 1.05))
        if max(max(curve.queries) for curve in self.curves) > 20:
            axes.set_xscale("log")
        axes.legend(frameon=False)
        return saved(figure, path)
