"""Pictures of releases and of what a policy gains (extra: plot)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shoal.pages.figures import new_figure, saved
from shoal.policies import queries, secrets
from shoal.policies.domain import Domain
from shoal.policies.policy import Policy
from shoal.policies.queries import Cumulative
from shoal.policy.explanation import explain

if TYPE_CHECKING:
    from pathlib import Path

    from shoal.policy.release import Release

_POLICY, _OWNER = "#1b6ca8", "#e08e45"


def plot_release(release: Release, path: str | Path | None = None) -> Any:
    """The answers with their intervals; a cumulative release as a staircase."""
    figure, axes = new_figure("A plot of a release")
    lists = [each if isinstance(each, list) else [each] for each in (release.values, release.low, release.high)]
    values, low, high = ([float(number) for number in each] for each in lists)
    positions = range(len(values))
    if isinstance(release._plan.query, Cumulative):  # noqa: SLF001 - a picture of the release itself
        axes.step(release.keys, values, where="post", color=_POLICY)
        axes.fill_between(release.keys, low, high, step="post", color=_POLICY, alpha=0.2)
    else:
        axes.bar(positions, values, color=_POLICY)
        axes.vlines(positions, low, high, color="#5a5a5a", linewidth=1)
        if len(values) <= 40:
            axes.set_xticks(list(positions), [str(key) for key in release.keys], rotation=45, ha="right")
    axes.set_title(
        f"{release.mechanism}, ε = {float(release.epsilon):.3g}; {release.promise.split(';')[0]}", fontsize=9
    )
    axes.set_ylabel("records")
    return saved(figure, path)


def plot_distances(values: int, distances: list[int], *, epsilon: float = 1.0, path: str | Path | None = None) -> Any:
    """The expected error of a range under distance policies, with owner-level privacy at the same ε beside it."""
    figure, axes = new_figure("A plot of errors")
    domain = Domain({"x": range(values)})
    found = [
        explain(queries.cumulative("x"), Policy(domain, secrets.distance(x=d)), epsilon=epsilon) for d in distances
    ]
    axes.loglog(distances, [each.expected_error for each in found], "o-", color=_POLICY, label="under the policy")
    axes.axhline(found[0].owner_level_error, color=_OWNER, linestyle="--", label="owner-level privacy")
    axes.set_xlabel("distance that is hidden")
    axes.set_ylabel("mean squared error of a range")
    axes.set_title(f"{values} values, ε = {epsilon:g}", fontsize=10)
    axes.legend(frameon=False)
    return saved(figure, path)
