"""What holds for an aggregate whose class says nothing else: bounds, words, and the error to expect."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.plan.aggregates.noisy_measure import half_width

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from shoal.params import Bounds
    from shoal.plan.known_bounds import Known
    from shoal.plan.measures import Measure
    from shoal.plan.releases import Release


class AggregateDefaults:
    """What holds for an aggregate that says nothing else."""

    __slots__ = ()
    needs_owners = False
    """Whether the expected error depends on how many owners a group has."""
    without_bounds = (
        "no bounds could be found privately{paid}, so the cell is NULL; give bounds in the query. "
        "Finding them takes about {needed} with values of one size"
    )
    without_bounds_there = "NULL there"
    """The same in a few words, where single groups have none."""

    @property
    def feed(self) -> Measure | None:
        """What a histogram looks at whose bounds are themselves the answer."""
        return None

    @property
    def partition(self) -> tuple[Measure, ...]:
        """Sums of which one owner moves no more than one whole, and which say the same as the measures."""
        return ()

    @property
    def ranks(self) -> tuple[Fraction, ...]:
        """Which shares of the rows lie below what is asked for, in an aggregate of quantiles."""
        return ()

    @property
    def catalog_bounds_note(self) -> str | None:
        """What to say where bounds are the catalog's, and how many rows an owner has in a group is not known."""
        return None

    def measures_within(self, bounds: Bounds | None) -> tuple[Measure, ...]:  # noqa: ARG002 - few go by the bounds
        """The measures, given the bounds that are known."""
        own: tuple[Measure, ...] = self.measures  # type: ignore[attr-defined]
        return own

    def bounds_from(self, known: Known | None, rows: int | None) -> Known | None:  # noqa: ARG002 - same
        """Bounds of what one owner gives a group, from what is known of single values and of rows per owner and group."""
        return known if known is not None and (known.from_catalog or known.lower < known.upper) else None

    def expected_half_width(self, releases: Sequence[Release], level: float, owners: int) -> float | None:  # noqa: ARG002 - one signature
        """How far the noise strays, before data is read; None where that depends on the data."""
        return None


class OneNumber(AggregateDefaults):
    """An aggregate that is one noisy number: its error is that of the noise."""

    __slots__ = ()

    def expected_half_width(self, releases: Sequence[Release], level: float, owners: int) -> float | None:  # noqa: ARG002 - one signature
        """The quantile of the noise."""
        return half_width(releases[0].noise, level)
