"""Intervals of computed columns: draws what the noisy numbers may have been without noise, and re-evaluates the expression.

For a noisy number y and noise X with a public distribution, y − X′ with X′ drawn alike is spread around the truth as far as y is.
The generator is seeded by a hash of the released numbers, so that an answer shows the same interval every time; nobody's privacy
depends on its draws. The whole interval also lets every aggregate be anywhere between its number and its far end, in half of the
draws all equally far, in the others each independently: what one limit cuts from two numbers leaves their ratio unchanged, what
two limits cut does not.

A window (a share of the total, a rank, the month before) is evaluated over all groups that it looks at, draw by draw; HAVING has
already chosen these groups by the released numbers.

A quantile has no noise that could be drawn, but an interval at every level. A number u in [0, 1] is drawn, and the quantile taken
to be the end on its side at the next level above |2u − 1|: whatever grows or falls with one quantile then has its interval. How far
two quantiles stray together is not known. So half of the draws move them each by itself, a quarter all alike, and a quarter
against each other.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.accounting.events import GaussianNoise, LaplaceNoise
from shoal.frozen import dataclass
from shoal.plan import nodes
from shoal.plan.aggregates import CountDistinct, CountOwners, CountRows, Sum
from shoal.plan.expressions import Call, Cast, Literal, WindowCall, transform, walk
from shoal.plan.expressions import Column as ColumnOf
from shoal.plan.nodes import Field
from shoal.plan.types import DOUBLE, INTEGER, Kind
from shoal.release.computed.possible import possible_values
from shoal.release.stored_rows import arrow_type
from shoal.sql import functions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from shoal.plan.aggregates import Aggregate, NoisyMeasure
    from shoal.plan.expressions import Expression
    from shoal.plan.releases import AggregateCall
    from shoal.release.computed.columns import Computed
    from shoal.release.computed.parts import Parts
    from shoal.release.cuts.widening import Widening

LEVELS = (0.5, 0.8, 0.9, 0.95, 0.98, 0.99)
"""Two-sided levels that are kept; between them the next higher one is used."""
MOST_DRAWS, FEWEST_DRAWS, AT_ONCE, MOST_ROWS = 2000, 200, 200_000, 20_000
PLACE, DRAW, MORE, FEWER, BETWEEN = "place", "draw", "more", "fewer", "between"
MOST_DIGITS = 30
"""Further digits than this are not rounded away by anybody."""
LEFT_OUT = 0.75
"""The size of a group in the octave below the even-chance size, as a fraction of that size."""
BETWEEN_STEPS = 5
_WHOLE = (CountRows, CountOwners, CountDistinct, Sum)

Draws = dict[str, "NDArray[Any]"]


@dataclass(frozen=True, slots=True)
class Input:
    """A private aggregate that a computed column reads: its noisy numbers in the rows of the answer, and their noise."""

    symbol: str
    call: AggregateCall
    taken: tuple[NoisyMeasure, ...]
    numbers: tuple[NDArray[Any], ...]
    widening: Widening
    ladders: tuple[Ladder, Ladder] | None = None
    """For a quantile, instead of numbers with noise: by its noise, and with what its bounds cut."""


@dataclass(frozen=True, slots=True)
class Ladder:
    """The ends of an interval at each of `LEVELS`: (levels, rows)."""

    low: NDArray[np.float64]
    high: NDArray[np.float64]

    def at(self, where: NDArray[np.float64]) -> NDArray[np.float64]:
        """For numbers in [0, 1], (draws, rows), the end on their side at the next level."""
        level = np.minimum(np.searchsorted(LEVELS, np.abs(2 * where - 1)), len(LEVELS) - 1)
        rows = np.arange(self.low.shape[1])[None, :]
        return np.where(where < 1 / 2, self.low[level, rows], self.high[level, rows])


@dataclass(frozen=True, slots=True)
class LookedAt:
    """The groups that windows look at: how many, which of them each row of the answer is, and how many owners each has."""

    rows: int
    shown: NDArray[np.int64]
    sizes: NDArray[np.float64] | None = None
    even_chance: int = 0
    counted: bool = True
    """Whether sizes count owners; otherwise they are lower bounds."""

    def left_out(self) -> NDArray[np.float64]:
        """How much the groups left out of a total may hold, as a share of each group's own number.

        Their number is unknown. The worst case assumed is as many owners in each octave below the even-chance size as in the one
        above it, plus those of one more group: sizes that fall off as 1/x.
        """
        if self.sizes is None or not self.even_chance:
            return np.zeros(self.rows)
        octaves = math.log2(max(self.even_chance, 2))
        owners = LEFT_OUT * self.even_chance * octaves
        near = self.sizes <= 2 * self.even_chance
        # A group that appears has about that many owners, however few of them its noisy number says.
        sizes = np.maximum(self.sizes, self.even_chance / 2)
        return np.where(near, owners / sizes, 0.0) + owners / max(float(sizes.sum()), 1.0)

    def groups_left_out(self) -> float:
        """How many groups may be left out, relative to those that appear, in the same worst case: one, or many small ones.

        A lower bound on the number of owners says nothing about groups near the even-chance size. If nothing does, it is one group.
        """
        if not self.even_chance:
            return 0.0
        if self.sizes is None:
            return 1 / max(self.rows, 1)
        near = np.maximum(self.sizes[self.sizes <= 2 * self.even_chance], 0.0) if self.counted else np.zeros(1)
        return (1 + 2 / LEFT_OUT * float(near.sum())) / max(self.rows, 1)


def seed_of(numbers: pa.Table) -> int:
    """A number that depends on the released numbers alone."""
    digest = hashlib.sha256()
    for name in numbers.column_names:
        digest.update(repr(numbers.column(name).to_pylist()).encode())
    return int.from_bytes(digest.digest()[:16], "big")


def draws_for(rows: int) -> int:
    """How many draws for each row; none if there are too many rows."""
    return 0 if not 0 < rows <= MOST_ROWS else max(FEWEST_DRAWS, min(MOST_DRAWS, AT_ONCE // rows))


def drawn_ends(
    columns: Mapping[int, Computed],
    inputs: list[Input],
    others: pa.Table,
    answer: pa.Table,
    evaluate: Callable[[nodes.Node, dict[str, pa.Table]], pa.Table],
    seed: int,
    groups: LookedAt | None = None,
    parts: Parts = frozenset(),
) -> dict[str, pa.Array]:
    """For every computed column its ends, of the noise and whole, at every level, by name; `others` are columns without noise.

    `groups`: what windows look at; inputs and others then have these rows. `parts`: which inputs are parts of others.
    """
    rows = answer.num_rows if groups is None else groups.rows
    shown_rows = slice(None) if groups is None else groups.shown
    draws = draws_for(rows)
    if not draws or not columns:
        return {}
    of_noise, whole = _drawn(inputs, rows, draws, seed)
    known = {each.symbol: each.widening.possible for each in inputs}
    found: dict[str, pa.Array] = {}
    for part, values in (("noise", of_noise), ("whole", whole)):
        table = _table(values, inputs, others, draws, rows)
        if groups is not None:
            missing = groups.left_out() if part == "whole" else np.zeros(rows)
            somewhere = np.random.default_rng(seed).random((draws, 1))
            table = table.append_column(MORE, pa.array((1 + somewhere * missing[None, :]).ravel()))
            # Half of the draws leave no group out, so that the other end stays where it is; one in twenty leaves out the most.
            often = np.clip(1.1 * (2 * somewhere - 1), 0.0, 1.0)
            fewer = 1 / (1 + often * (groups.groups_left_out() if part == "whole" else 0.0))
            table = table.append_column(FEWER, pa.array(np.repeat(fewer.ravel(), rows)))
            # Numbers of groups that are left out lie anywhere between the others, as often at one end as at the other.
            between = np.arange(draws) % BETWEEN_STEPS / (BETWEEN_STEPS - 1)
            table = table.append_column(BETWEEN, pa.array(np.repeat(between, rows)))
        results = _evaluated(columns, table, evaluate).select([f"c{position}" for position in columns])
        for position in columns:
            drawn = np.array(results.column(f"c{position}").to_numpy(zero_copy_only=False), dtype=np.float64)
            shown = np.array(
                answer.column(position).cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), dtype=np.float64
            )
            expression = columns[position].expression
            possible = possible_values(expression, known, parts)
            drawn = np.clip(drawn.reshape(draws, rows)[:, shown_rows], *possible)
            half = half_a_step(expression)
            found |= _ends(
                position, part, drawn, shown, np.clip(shown - half, *possible), np.clip(shown + half, *possible)
            )
    return found | _around(columns, found)


def _around(columns: Mapping[int, Computed], ends: dict[str, pa.Array]) -> dict[str, pa.Array]:
    """The whole intervals, none of them inside that of its noise: what is cut moves all draws to one side."""
    wide = {}
    for position, level, side in product(columns, LEVELS, ("low", "high")):
        name = end_name(position, "whole", side, level)
        further = pc.min_element_wise if side == "low" else pc.max_element_wise
        of_noise = ends[end_name(position, "noise", side, level)]
        known = pc.and_(pc.is_valid(ends[name]), pc.is_valid(of_noise))
        wide[name] = pc.if_else(known, further(ends[name], of_noise), ends[name])
    return wide


def end_name(position: int, part: str, side: str, level: float) -> str:
    """The column that carries one end."""
    return f"drawn_{position}_{part}_{side}_{LEVELS.index(level)}"


def _drawn(inputs: list[Input], rows: int, draws: int, seed: int) -> tuple[Draws, Draws]:
    """Every aggregate in every draw: by its noise, plus anywhere up to its far end; equal numbers are drawn once."""
    generator = np.random.default_rng(seed)
    noise: dict[tuple[str, ...], NDArray[Any]] = {}
    of_noise: Draws = {}
    whole: Draws = {}
    up, down = generator.random((draws, 1)), generator.random((draws, 1))
    together = np.arange(draws)[:, None] < draws / 2
    common = generator.random((draws, rows))
    for number, each in enumerate(inputs):
        if each.ladders is not None:
            where = _wherever(common, number, generator)
            of_noise[each.symbol], whole[each.symbol] = (ladder.at(where) for ladder in each.ladders)
            continue
        moved = []
        for taken, numbers in zip(each.taken, each.numbers, strict=True):
            same = (repr(taken.measure), repr(taken.noise))
            if same not in noise:
                noise[same] = _noise(taken, (draws, rows), generator)
            moved.append(numbers[None, :] - noise[same])
        values = _finished(each.call.aggregate, each.taken, moved, (draws, rows))
        of_noise[each.symbol] = values
        readings = [replace(taken, values=one.ravel()) for taken, one in zip(each.taken, moved, strict=True)]
        sizes = each.call.aggregate.owners_of(readings)
        low, high = each.widening.of(values.ravel(), values.ravel(), sizes=sizes)
        low, high = (np.asarray(end, dtype=np.float64).reshape(draws, rows) for end in (low, high))
        far = [np.where(together, one, generator.random((draws, 1))) for one in (up, down)]
        whole[each.symbol] = values + far[0] * (high - values) - far[1] * (values - low)
    for part, of_all in product(inputs, inputs):
        if _is_part(part.call.aggregate, of_all.call.aggregate):
            for drawn in (of_noise, whole):
                drawn[part.symbol] = np.minimum(drawn[part.symbol], np.maximum(drawn[of_all.symbol], 0.0))
    return of_noise, whole


def _is_part(part: Aggregate, whole: Aggregate) -> bool:
    """Whether a number cannot exceed a count of all rows of the same group: it counts some of them, or adds up zeros and ones."""
    if not whole.counts_all_rows or part.counts_all_rows:
        return False
    return (part.adds_up and part.never_negative) or part.as_count() is not None


def _wherever(common: NDArray[Any], number: int, generator: np.random.Generator) -> NDArray[Any]:
    """Where a quantile is in its interval: a quarter of the draws move with all others, a quarter mirrored, half independently."""
    turn = np.arange(len(common))[:, None] % 4
    mirrored = 1 - common if number % 2 else common
    return np.where(turn == 0, common, np.where(turn == 1, mirrored, generator.random(common.shape)))


def _noise(taken: NoisyMeasure, shape: tuple[int, int], generator: np.random.Generator) -> NDArray[Any]:
    """Noise in steps of the grid."""
    noise = taken.noise
    if not noise.shift.l1:
        return np.zeros(shape)
    if isinstance(noise, LaplaceNoise):
        return np.rint(generator.laplace(0.0, float(noise.scale), shape))
    if isinstance(noise, GaussianNoise):
        return np.rint(generator.normal(0.0, float(noise.sigma), shape))
    return np.zeros(shape)


def _finished(
    aggregate: Aggregate, taken: tuple[NoisyMeasure, ...], moved: list[NDArray[Any]], shape: tuple[int, int]
) -> NDArray[Any]:
    """The aggregate of these numbers."""
    if isinstance(aggregate, _WHOLE) and len(taken) == 1:
        values = moved[0] * float(taken[0].grid)
        return np.rint(values) if aggregate.type.kind is Kind.INTEGER else values
    readings = [replace(each, values=values.ravel()) for each, values in zip(taken, moved, strict=True)]
    return np.asarray(aggregate.finish(readings), dtype=np.float64).reshape(shape)


def _table(values: Draws, inputs: list[Input], others: pa.Table, draws: int, rows: int) -> pa.Table:
    """Every row once for each draw, one draw after the other."""
    repeated = pa.concat_tables([others] * draws) if others.num_columns else None
    columns: dict[str, Any] = {name: repeated.column(name) for name in others.column_names} if repeated else {}
    for each in inputs:
        type_ = arrow_type(each.call.field.type)
        numbers = values[each.symbol].ravel()
        if pa.types.is_integer(type_):
            numbers = np.clip(np.rint(numbers), -(2.0**62), 2.0**62).astype(np.int64)
        columns[each.symbol] = pa.array(numbers).cast(type_)
    size = next(len(column) for column in columns.values())
    position = np.arange(size)
    return pa.table(columns | {PLACE: pa.array(position), DRAW: pa.array(position // rows)})


def _evaluated(
    columns: Mapping[int, Computed], table: pa.Table, evaluate: Callable[[nodes.Node, dict[str, pa.Table]], pa.Table]
) -> pa.Table:
    parts = (part for column in columns.values() for part in walk(column.expression))
    types = {part.symbol: part.type for part in parts if isinstance(part, ColumnOf)}
    fields = tuple(Field("", symbol, type_) for symbol, type_ in types.items())
    added = [Field("", PLACE, INTEGER), Field("", DRAW, INTEGER)]
    added += [Field("", name, DOUBLE) for name in (MORE, FEWER, BETWEEN) if name in table.column_names]
    source = nodes.StoredRows(0, (*fields, *added))
    items = tuple(
        (Field("", f"c{number}", DOUBLE), Cast(transform(column.expression, _in_one_draw_of(column)), DOUBLE))
        for number, column in columns.items()
    )
    root = nodes.Project(source, (*items, (Field("", "turn", INTEGER), ColumnOf(PLACE, INTEGER))))
    return evaluate(root, {"released_0": table}).sort_by("turn")


def _in_one_draw_of(column: Computed) -> Callable[[Expression], Expression]:
    alike = column.groups is not None and column.groups.alike
    return partial(_within_one_draw, alike=alike)


def _within_one_draw(part: Expression, *, alike: bool = False) -> Expression:
    """A window looks at the rows of its own draw; a total has more than the groups that appear."""
    if not isinstance(part, WindowCall):
        return part
    own = replace(part, partition=(*part.partition, ColumnOf(DRAW, INTEGER)))
    if part.function == "avg" and part.frame is None and not part.order:
        # An average over all groups: small ones that are left out make it smaller, or draw it to where they lie.
        mean = functions.resolve("multiply", [Cast(own, DOUBLE), ColumnOf(FEWER, DOUBLE)], None)
        return Cast(functions.resolve("add", [mean, _of_left_out(own)], None) if alike else mean, part.type)
    if part.function != "sum":
        return own
    (value,) = part.arguments
    number = Cast(value, DOUBLE)
    # What is left out only adds to a total: a negative number is noise, and nothing is in proportion to it.
    positive = functions.resolve("greatest", [number, Literal(0.0, DOUBLE)], None)
    left_out = functions.resolve(
        "multiply",
        [positive, functions.resolve("subtract", [ColumnOf(MORE, DOUBLE), Literal(1.0, DOUBLE)], None)],
        None,
    )
    more = functions.resolve("add", [number, left_out], None)
    return replace(own, arguments=(Cast(more, value.type),))


def _of_left_out(mean: WindowCall) -> Expression:
    """What groups that are left out add to an average of numbers like theirs: their share, times a number between the others."""
    least, most = (Cast(replace(mean, function=end, type=mean.arguments[0].type), DOUBLE) for end in ("min", "max"))
    width = functions.resolve("subtract", [most, least], None)
    within = functions.resolve("multiply", [ColumnOf(BETWEEN, DOUBLE), width], None)
    share = functions.resolve("subtract", [Literal(1.0, DOUBLE), ColumnOf(FEWER, DOUBLE)], None)
    return functions.resolve("multiply", [share, functions.resolve("add", [least, within], None)], None)


def half_a_step(value: Expression) -> float:
    """By how much ROUND may have changed a number; 0 without it."""
    match value:
        case Cast(value=inner):
            return half_a_step(inner)
        case Call(function="round", arguments=(_,)):
            return 0.5
        case Call(function="round", arguments=(_, Literal(value=int(digits)))) if abs(digits) < MOST_DIGITS:
            return 0.5 * 10.0**-digits
    return 0.0


def _ends(
    position: int, part: str, drawn: NDArray[Any], shown: NDArray[Any], least: NDArray[Any], most: NDArray[Any]
) -> dict[str, pa.Array]:
    """The ends at every level; none if more than one draw in twenty has no value. An interval always contains the number shown.

    Where rounding hides the noise, it goes from `least` to `most`, which both round to that number: no interval around noise has
    a width of 0.
    """
    defined = np.isnan(drawn).mean(axis=0) <= 1 / 20
    ends = {}
    filled = np.where(defined[None, :], drawn, 0.0)
    for level in LEVELS:
        low = np.nanquantile(filled, (1 - level) / 2, axis=0, method="lower")
        high = np.nanquantile(filled, (1 + level) / 2, axis=0, method="higher")
        still = low == high
        low, high = np.where(still, np.fmin(low, least), low), np.where(still, np.fmax(high, most), high)
        for side, end in (("low", np.fmin(low, shown)), ("high", np.fmax(high, shown))):
            ends[end_name(position, part, side, level)] = pa.array(np.where(defined, end, np.nan), from_pandas=True)
    return ends
