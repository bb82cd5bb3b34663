"""What plain SQL says the exact integers of a query are: the definitions of the aggregates, written again without any bounding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shoal.plan.measures import DistinctValues, Leaves, OwnerCount, OwnerMean, OwnerSum, RowCount, RowMoment
from shoal.plan.totals import LeafCounts

if TYPE_CHECKING:
    from fractions import Fraction

    import duckdb
    from generated_queries import Query

    from shoal.plan.releases import SelectPlan
    from shoal.plan.totals import GridMeasure
    from shoal.release.resolve_bounds import ResolvedTotals

Groups = dict[tuple[Any, ...], Any]


def measured_groups(measured: ResolvedTotals) -> dict[str, Groups]:
    """The measurement by group: owners, and one entry per task."""
    keys = (
        [tuple(row.values()) for row in measured.measurement.keys.to_pylist()]
        if measured.measurement.keys.num_columns
        else [()]
    )
    found: dict[str, Groups] = {"owners": dict(zip(keys, measured.measurement.owners.tolist(), strict=True))}
    for index, total in enumerate(measured.measurement.totals):
        if isinstance(total, LeafCounts):
            cells = zip(total.groups.tolist(), total.leaves.tolist(), total.counts.tolist(), strict=True)
            found[f"task {index}"] = {(*keys[g], leaf): n for g, leaf, n in cells}
        else:
            found[f"task {index}"] = dict(zip(keys, map(int, total), strict=True))
    return found


class Plain:
    """Asks a plain database for the integers of a drawn query."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, query: Query) -> None:
        self._connection = connection
        self._query = query

    def groups(self, plan: SelectPlan, measured: ResolvedTotals) -> dict[str, Groups]:
        """The same shape as the measurement."""
        found = {"owners": self._grouped(f"COUNT(DISTINCT {self._query.source.owner})")}
        arguments = {
            i: a
            for column, a in zip(plan.columns, self._query.aggregates, strict=True)
            for i in column.releases
            # A column that counts owners reads the numbers of another one, the part from the upper bound first.
            if plan.releases[column.releases[0]].measure.origin != "upper"
        }
        for index, task in enumerate(measured.tasks):
            assert task is not None
            found[f"task {index}"] = self._task(task, arguments[index].argument)
        return found

    def _task(self, task: GridMeasure, argument: str) -> Groups:
        """A sum, or rows, from one of the bounds: less that bound for every owner of the group, with a value or without."""
        found = self._number(task, argument)
        if not isinstance(task.measure, OwnerSum | RowCount) or task.measure.origin == "middle":
            return found
        assert task.steps is not None
        owners = self._grouped(f"COUNT(DISTINCT {self._query.source.owner})")
        bound = task.steps.lower if task.measure.origin == "lower" else task.steps.upper
        return {key: number - bound * owners[key] for key, number in found.items()}

    def _number(self, task: GridMeasure, argument: str) -> Groups:
        match task.measure:
            case OwnerCount():
                present = (
                    f"CASE WHEN ({argument}) IS NOT NULL THEN {self._query.source.owner} END"
                    if argument
                    else self._query.source.owner
                )
                return self._grouped(f"COUNT(DISTINCT {present})")
            case RowCount() | RowMoment(power=0):
                return self._grouped(f"COUNT({argument})" if argument else "COUNT(*)")
            case DistinctValues():
                return self._grouped(f"COUNT(DISTINCT {argument})")
            case OwnerSum(is_integer=True) | RowMoment(is_integer=True):
                return self._grouped(f"COALESCE(SUM({argument}), 0)")
            case OwnerSum():
                return self._grouped(f"COALESCE(SUM({_steps(argument, task.row_grid)}), 0)")
            case OwnerMean():
                return self._means(task, argument)
            case RowMoment():
                return self._moments(task, argument)
            case Leaves():
                return self._leaves(task, argument)
        raise AssertionError(task.measure)

    def _grouped(self, *values: str) -> Groups:
        rows = self._rows(self._query.keys, values)
        size = len(self._query.keys)
        return {row[:size]: int(row[size]) for row in rows}

    def _rows(self, keys: tuple[str, ...], values: tuple[str, ...]) -> list[tuple[Any, ...]]:
        grouped = f" GROUP BY {', '.join(str(i + 1) for i in range(len(keys)))}" if keys else ""
        return self._connection.sql(f"SELECT {', '.join((*keys, *values))} {self._query.rows}{grouped}").fetchall()

    def _means(self, task: GridMeasure, argument: str) -> Groups:
        """Σ over owners of (⌊mean + ½⌋ − middle), the mean in steps."""
        assert task.steps is not None
        size = len(self._query.keys)
        found: Groups = dict.fromkeys(self._grouped("COUNT(*)"), 0)
        per_owner = self._rows(
            (*self._query.keys, self._query.source.owner),
            (f"SUM({_steps(argument, task.row_grid)})", f"COUNT({argument})"),
        )
        for row in per_owner:
            total, count = row[size + 1 :]
            if count:
                found[row[:size]] += (2 * int(total) + count) // (2 * count) - task.steps.middle
        return found

    def _moments(self, task: GridMeasure, argument: str) -> Groups:
        assert task.steps is not None
        assert isinstance(task.measure, RowMoment)
        assert task.shrink == task.stretch == 1

        def above(origin: int) -> str:
            return f"(({_steps(argument, task.row_grid)}) - ({origin})::HUGEINT)"

        lower, upper = above(task.steps.lower), above(task.steps.upper)
        middle = above(task.steps.middle if task.measure.centred else 0)
        power = {
            "lower": f"{lower} * {lower}",
            "upper": f"{upper} * {upper}",
            "between": f"-2 * {lower} * {upper}",
            "middle": f"{middle} * {middle}" if task.measure.power == 2 else middle,
        }[task.measure.origin]
        return self._grouped(f"COALESCE(SUM({power}), 0)")

    def _leaves(self, task: GridMeasure, argument: str) -> Groups:
        assert task.bounds is not None
        assert isinstance(task.measure, Leaves)
        lower, width = float(task.bounds.lower), float(task.bounds.upper - task.bounds.lower)
        place = f"floor(({argument} - ({lower!r}::DOUBLE)) * ({task.measure.leaf_count / width!r}::DOUBLE))"
        leaf = f"least(greatest({place}, 0), {task.measure.leaf_count - 1})::BIGINT"
        rows = self._rows((*self._query.keys, f"CASE WHEN ({argument}) IS NOT NULL THEN {leaf} END"), ("COUNT(*)",))
        return {row[:-1]: row[-1] for row in rows if row[-2] is not None}


def _steps(argument: str, grid: Fraction) -> str:
    """A row's number in steps of a grid."""
    return f"floor(({argument})::DOUBLE * ({float(1 / grid)!r}::DOUBLE) + 0.5)::HUGEINT"
