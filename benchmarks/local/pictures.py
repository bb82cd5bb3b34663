"""The figures of the survey tutorial, each with its data: docs/figures/local-*.png and .csv."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.figures import Figure, write
from benchmarks.figures.drawing import BLUE, GREEN, GREY, ORANGE
from shoal import local
from shoal.local.surveys import central_error
from shoal.mechanisms.entropy import seeded_entropy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from matplotlib.axes import Axes

FOLDER = Path(__file__).parent.parent.parent / "docs" / "figures"
SHARES = {"never": 0.6, "once": 0.3, "often": 0.1}
COLOURS = (BLUE, ORANGE, GREEN, GREY)
Line = tuple[Any, ...]


def survey_lines() -> Iterator[Line]:
    """The tutorial's survey, with seeded bits (of another seed) so that the picture stays the same."""
    question = local.choice(list(SHARES), epsilon=1.0)
    answers = np.random.default_rng(7).choice(list(SHARES), size=10_000, p=list(SHARES.values()))
    found = question.estimate(question.randomize_many(answers, seeded_entropy(101)))
    for place, value in enumerate(found.values):
        yield value, float(np.mean(answers == value)), *(float(x[place]) for x in (found.shares, found.low, found.high))


def draw_survey(panels: list[Axes], lines: Sequence[Line]) -> None:
    """Bars of the truth, points with intervals for the estimates."""
    (axes,) = panels
    places = range(len(lines))
    axes.bar(places, [line[1] for line in lines], color="#cccccc", width=0.6, label="true share of those who answered")
    centre = [line[2] for line in lines]
    ends = [[max(0.0, line[2] - line[3]) for line in lines], [max(0.0, line[4] - line[2]) for line in lines]]
    axes.errorbar(places, centre, yerr=ends, fmt="o", color=BLUE, capsize=5, label="estimate, 95% interval")
    axes.set_xticks(list(places), [line[0] for line in lines])
    axes.set_ylabel("share")
    axes.set_title("10,000 reports, ε = 1")
    axes.legend()


def error_lines() -> Iterator[Line]:
    """Standard errors of a share of one half."""
    for epsilon in (0.5, 1.0, 4.0):
        question = local.yes_no(epsilon=epsilon)
        for n in np.logspace(2, 6, 33).astype(int):
            yield f"local, ε = {epsilon:g}", int(n), question.expected_error(int(n))
    for n in np.logspace(2, 6, 33).astype(int):
        yield "central, ε = 1", int(n), central_error(1.0, int(n))


def shuffled_lines() -> Iterator[Line]:
    """Central ε by number of reports."""
    for epsilon in (1.0, 2.0, 4.0):
        for n in np.logspace(2, 6, 9).astype(int):
            yield f"ε₀ = {epsilon:g}", int(n), local.shuffled(epsilon, int(n), 1e-6)


def draw_curves(title: str, height: str) -> Any:
    """Lines over n, both axes logarithmic."""

    def draw(panels: list[Axes], lines: Sequence[Line]) -> None:
        (axes,) = panels
        for name, colour in zip(dict.fromkeys(line[0] for line in lines), COLOURS, strict=False):
            points = [(line[1], line[2]) for line in lines if line[0] == name]
            style = "--" if name.startswith("central") else "-"
            axes.loglog(*zip(*points, strict=True), style, color=colour, label=name)
        axes.set_xlabel("respondents")
        axes.set_ylabel(height)
        axes.set_title(title)
        axes.legend()

    return draw


FIGURES = (
    Figure("local-survey", ("value", "true_share", "share", "low", "high"), survey_lines, draw_survey),
    Figure(
        "local-error-by-respondents",
        ("way", "respondents", "standard_error"),
        error_lines,
        draw_curves("A share of one half", "standard error"),
    ),
    Figure(
        "local-shuffled",
        ("local_epsilon", "reports", "epsilon"),
        shuffled_lines,
        draw_curves("Shuffled reports, δ = 10⁻⁶", "central ε"),
    ),
)


def draw_all(folder: Path = FOLDER) -> None:
    """Every PNG and CSV."""
    folder.mkdir(parents=True, exist_ok=True)
    for figure in FIGURES:
        lines = write(figure, folder)
        print(f"{folder / figure.name}.png and .csv ({len(lines)} lines)", flush=True)
