"""The meeting point: reserve → run → select → noise → finish → commit. A plan runs once; the ledger comes before any data.

`measure` is the exact half (what enters the mechanisms), `release` the noisy half (what leaves them).
"""

from __future__ import annotations

from contextlib import ExitStack, suppress
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.accounting.spending.asking import NO_TERMS
from shoal.accounting.spending.interrupts import HeldInterrupts
from shoal.accounting.spending.pen import TOO_LARGE
from shoal.accounting.spending.refusals import too_large_to_keep
from shoal.engines.base import EngineFailure
from shoal.engines.deadline import DEFAULT_SECONDS, Deadline
from shoal.engines.group_keys import as_arrow
from shoal.errors import InternalError, ShoalError
from shoal.mechanisms.entropy import SYSTEM, Entropy
from shoal.plan import nodes
from shoal.plan.aggregates.defaults import WITHOUT_BOUNDS_OF_TIMES, OfOwner, range_in_words, seconds_of_unit
from shoal.plan.totals import MASK, LeafCounts, SamplingKey
from shoal.plan.traverse import all_nodes, rebuilt, relations_in, with_relations
from shoal.release.answer_bytes import OWNER_LEVEL, PROMISE_KEY, KeptAnswer, from_bytes, to_bytes
from shoal.release.answer_notes import answer_notes, groups_between, groups_in_no_total, nothing_left, without_interval
from shoal.release.bounds_per_group import release_by_group
from shoal.release.computed.draws import draws_for
from shoal.release.cuts.clamped import beyond_in_words
from shoal.release.error_bars import error_bars
from shoal.release.first_rows import chosen_by_noise
from shoal.release.found_limits import Searches, kept_of_guesses, notes_of_guesses, notes_of_limits
from shoal.release.noisy import Read, owners_needed, owners_that_select, read_bounds, reading, selected, weights_among
from shoal.release.output_names import with_output_names
from shoal.release.postprocess import Answer, AnswerTooLargeError, finish, public_rows
from shoal.release.prepare import asked_of, placeholders, steps_of
from shoal.release.resolve_bounds import (
    ResolvedTotals,
    as_asked,
    from_bound,
    histogram_query,
    resolved_releases,
    selecting_tasks,
    selection_under,
    totals_query,
)
from shoal.release.stored_rows import StoredRows, answer_table
from shoal.sql.grammar.source_text import CallsAsWritten

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from shoal.accounting.accountants import Loss
    from shoal.accounting.ledger import Ledger, Reservation
    from shoal.accounting.spending.asking import Terms
    from shoal.engines.base import Asked, Engine
    from shoal.params import Bounds
    from shoal.plan.expressions import Expression
    from shoal.plan.measures import Measure
    from shoal.plan.nodes import Node
    from shoal.plan.releases import Column, HistogramRelease, SelectPlan, StatementPlan

SAMPLING_NUMBERS = 160


def fresh_sampling_key(entropy: Entropy = SYSTEM) -> SamplingKey:
    """Random numbers for one query, from the operating system; never from the query's text."""
    return SamplingKey(tuple(int(w) & MASK for w in entropy.uint64(SAMPLING_NUMBERS)))


def execute(
    plan: StatementPlan,
    engine: Engine,
    ledger: Ledger,
    user: str | None,
    entropy: Entropy = SYSTEM,
    seconds: float = DEFAULT_SECONDS,
    terms: Terms = NO_TERMS,
) -> KeptAnswer:
    """Runs a plan once. A failure after the charge stays charged and always gives the same message.

    Under a key of `terms`, the answer is what the ledger keeps: an answer released before comes back for free.
    """
    if not plan.selects:
        return kept_answer(plan, _public(plan, engine, Deadline(seconds)))
    deadline = Deadline(seconds)
    with ExitStack() as open_until_the_end:
        taken = snapshot_of(engine, deadline, open_until_the_end)
        prepare(plan, taken)
        held = HeldInterrupts()
        open_until_the_end.callback(held.let_go)
        reservation = ledger.reserve(
            charge_of(plan),
            user=user,
            description=plan.sql,
            fingerprint=terms.fingerprint,
            request=terms.request,
            accounts=terms.accounts,
            resume=terms.resume,
        )
        if reservation.answer is not None:
            return from_bytes(reservation.answer)
        opened = open_until_the_end.pop_all()
        found = _run_or_none(plan, taken, entropy, reservation, deadline, opened, held, keep=terms.keeps_answer)
    if found is not None:
        answer, written = found
        kept = reservation.commit(written)
        return answer if kept is None or kept == written else from_bytes(kept)
    # Raised out here, so that the error's context holds no engine message.
    reservation.fail()
    raise ShoalError(
        "E_EXECUTION",
        "The query failed. It stays charged, because data may have been read.",
        hint="Details are withheld because they could reveal data. Ask the data custodian.",
    )


def snapshot_of(engine: Engine, deadline: Deadline, stack: ExitStack) -> Engine:
    """The engine for this query. A failure here has read nothing, and costs nothing."""
    with suppress(EngineFailure):
        return stack.enter_context(engine.snapshot(deadline))
    raise ShoalError(
        "E_SOURCE",
        "The database no longer responds. Nothing was charged.",
        hint="Try again. If that fails too, open a new session. If you passed in a connection, close results that were "
        "not read to the end.",
    )


def prepare(plan: StatementPlan, engine: Engine) -> None:
    """Writes every statement and checks how the engine reads it, while a surprise still costs and reveals nothing."""
    try:
        engine.prepare(plan, _asked)
    except ShoalError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, it is ours: no data was read
        found = str(error) if isinstance(error, InternalError) else type(error).__name__
    else:
        return
    raise ShoalError(
        "E_INTERNAL",
        f"This query cannot be run safely, which is a bug in shoal ({found}). Nothing was read and nothing was charged.",
        hint="Please report it with the text of the query. Written another way, it may work.",
    )


def _asked(plan: StatementPlan) -> Asked:
    known_later = placeholders(plan)
    steps = [step for select in with_output_names(plan).selects for step in steps_of(select)]
    return asked_of(plan, [with_stored_rows(step, known_later) for step in steps])


def _run_or_none(
    plan: StatementPlan,
    engine: Engine,
    entropy: Entropy,
    reservation: Reservation,
    deadline: Deadline,
    opened: ExitStack,
    held: HeldInterrupts,
    *,
    keep: bool,
) -> tuple[KeptAnswer, bytes | None] | None:
    """The answer, or None whatever went wrong: the reason could depend on the data, and none of it may be revealed.

    What was opened is closed in here: after an answer is settled, nothing is left that could fail.
    """
    try:
        with opened:
            held.let_go()
            answer = kept_answer(plan, _run(plan, engine, entropy, deadline))
        return answer, to_bytes(answer) if keep else None
    except AnswerTooLargeError:
        reservation.fail(TOO_LARGE)
        raise too_large_to_keep() from None
    except Exception:  # noqa: BLE001 - an engine may raise anything, and nothing of it may travel
        return None
    except BaseException:
        # Ctrl+C or an ordered exit: the user's own doing, which suspends nobody.
        with suppress(ShoalError):
            reservation.cancel()
        raise


def charge_of(plan: StatementPlan) -> Loss:
    """What is requested from the ledger: the requested ε, and δ if any mechanism uses it."""
    return replace(plan.loss, epsilon=plan.epsilon, delta=plan.delta if plan.loss.delta else Fraction(0))


def kept_answer(plan: StatementPlan, finished: Answer) -> KeptAnswer:
    """What a finished query releases: rows, what they cost, and what error bars are computed from."""
    cost = charge_of(plan)
    level = plan.selects[0].select.options.confidence_level if plan.selects else Fraction(19, 20)
    bars = error_bars(plan, finished)
    return KeptAnswer(
        finished.table.replace_schema_metadata({PROMISE_KEY: OWNER_LEVEL}),
        OWNER_LEVEL,
        cost.epsilon,
        cost.delta,
        level,
        bool(plan.selects),
        (*finished.notes, *chosen_by_noise(plan, finished, bars, float(level))),
        bars,
    )


def _public(plan: StatementPlan, engine: Engine, deadline: Deadline) -> Answer:
    with suppress(EngineFailure), engine.snapshot(deadline) as taken:
        try:
            return finish(plan, {}, public_rows(plan.root, taken), deadline, ordered=True)
        except AnswerTooLargeError:
            raise ShoalError(
                "E_LIMITS", "The answer is too large.", hint="Ask for fewer rows: LIMIT, WHERE, or joins on a key."
            ) from None
    raise ShoalError("E_EXECUTION", "The query over public tables failed.")


def _run(plan: StatementPlan, engine: Engine, entropy: Entropy, deadline: Deadline) -> Answer:
    released: dict[int, StoredRows] = {}
    as_run: list[SelectPlan] = []
    written = CallsAsWritten(plan.sql)

    def run(select: SelectPlan) -> StoredRows:
        ready = with_stored_rows(select, released)
        key = fresh_sampling_key(entropy)
        if ready.finds_bounds_per_group:
            return release_by_group(ready, engine, key, entropy)
        return release(ready, measure(ready, engine, key, entropy), entropy)

    named = with_output_names(plan).selects
    searched = Searches(named, run)
    for number, select in enumerate(named):
        found, beyond = searched.found(number)
        chosen = select if found is None else replace(found.plan, one_row=select.one_row)
        stored = run(chosen)
        limits = notes_of_guesses(chosen) if found is None else tuple(notes_of_limits(select, found, beyond, written))
        notes = (*limits, *answer_notes(chosen, stored.table.num_rows, written), *stored.notes)
        kept = kept_of_guesses(chosen) if found is None else found.kept
        released[number] = replace(stored, notes=notes, columns=chosen.columns, kept=kept, beyond=beyond)
        as_run.append(chosen)
    # Step two may release other numbers behind a column than the plan that explained it.
    taken = replace(plan, selects=tuple(as_run))
    answer = finish(taken, released, public_rows(plan.root, engine), deadline, entropy=entropy)
    drawn = {column.field.name for column in answer.row_by_row} if draws_for(answer.table.num_rows) else set()
    totals: list[str] = []
    skipping: list[str] = []
    for each in answer.windows:
        names = {column.field.name for column in each.computed.values()} if draws_for(each.groups.rows) else set()
        drawn |= names
        totals += sorted(names) if each.groups.even_chance else []
        skipping += (
            sorted(names) if any(c.groups is not None and c.groups.skips for c in each.computed.values()) else []
        )
    lost = max(
        (1 - kept.share for stored in released.values() for kept in stored.kept or () if kept is not None), default=0.0
    )
    empty = nothing_left(answer.table.num_rows, [stored.table.num_rows for stored in released.values()], lost)
    notes = (
        *answer.notes,
        *empty,
        *without_interval(plan, drawn),
        *groups_in_no_total(totals),
        *groups_between(skipping),
    )
    return replace(answer, notes=tuple(dict.fromkeys(notes)))


def _reads_released(select: SelectPlan) -> bool:
    asked = select.select
    roots = [asked.input] if asked.public_groups is None else [asked.input, asked.public_groups]
    measures = [*(r.measure for r in select.releases), *(r.histogram.serves for r in select.histograms)]
    values = [*(key for _, key in asked.keys), *(m.argument for m in measures if m.argument is not None)]
    roots += [relation for value in values for relation in relations_in(value)]
    return any(isinstance(part, nodes.StoredRows) for root in roots for part in all_nodes(root))


def with_stored_rows(select: SelectPlan, released: Mapping[int, StoredRows]) -> SelectPlan:
    """A later SELECT may read what an earlier one released: its stored rows, as a public list."""
    if not released or not _reads_released(select):
        return select

    def stored(node: Node) -> Node:
        if isinstance(node, nodes.StoredRows):
            table = released[node.select].table.select([f.symbol for f in node.fields])
            _refuse_more(table, node)
            return nodes.Values(tuple(tuple(row.values()) for row in table.to_pylist()), node.fields)
        return rebuilt(node, stored)

    def value(expression: Expression) -> Expression:
        return with_relations(expression, stored)

    asked = select.select
    groups_ = stored(asked.public_groups) if asked.public_groups is not None else None
    keys = tuple((field, value(key)) for field, key in asked.keys)
    return replace(
        select,
        select=replace(asked, input=stored(asked.input), public_groups=groups_, keys=keys),
        releases=tuple(replace(r, measure=_with_argument(r.measure, value)) for r in select.releases),
        histograms=tuple(
            replace(r, histogram=replace(r.histogram, serves=_with_argument(r.histogram.serves, value)))
            for r in select.histograms
        ),
    )


def _refuse_more(table: pa.Table, stored: nodes.StoredRows) -> None:
    """What private rows meet is as much as the plan has allowed for; what was released decides about it, and nothing else."""
    longest = (pc.max(pc.binary_length(c)).as_py() or 0 for c in table.columns if pa.types.is_string(c.type))
    if stored.most_rows is not None and table.num_rows > stored.most_rows:
        raise AnswerTooLargeError
    if stored.longest_text is not None and max(longest, default=0) > stored.longest_text:
        raise AnswerTooLargeError


def _with_argument(measure_: Measure, change: Callable[[Expression], Expression]) -> Measure:
    return replace(measure_, argument=change(measure_.argument)) if measure_.argument is not None else measure_


# ---- the exact half ----------------------------------------------------------------------------------------------


def measure(
    plan: SelectPlan,
    engine: Engine,
    key: SamplingKey,
    entropy: Entropy = SYSTEM,
    found: tuple[Bounds | None, ...] | None = None,
) -> ResolvedTotals:
    """What enters the mechanisms. Bounds that must be inferred are released first, and clamp the rest."""
    read: tuple[Read, ...] = ()
    if found is None:
        read = read_histograms(plan, engine, key, entropy)
        found = tuple(each.bounds for each in read)
    resolved = resolved_releases(plan, found)
    asked = tuple(dict.fromkeys(as_asked(task) for task, _, _ in resolved if task is not None))
    selecting = selecting_tasks(plan)
    measurement = engine.totals(totals_query(plan, (*asked, *selecting)), key)
    totals = dict(zip(asked, measurement.totals, strict=False))
    owners = measurement.owners
    spread = tuple(
        from_bound(task, totals[as_asked(task)], owners) if task is not None else np.zeros(len(owners), dtype=object)
        for task, _, _ in resolved
    )
    return ResolvedTotals(
        replace(measurement, totals=spread),
        tuple(task for task, _, _ in resolved),
        tuple(noise for _, noise, _ in resolved),
        tuple(bounds for _, _, bounds in resolved),
        found,
        tuple(each.outside for each in read),
        tuple(each.clamped for each in read),
        weights_among(measurement, selecting),
    )


def infer(
    plan: SelectPlan, engine: Engine, key: SamplingKey, entropy: Entropy
) -> tuple[tuple[Bounds | None, ...], tuple[float | None, ...]]:
    """Bounds read from noisy logarithmic histograms (None if no bin stands out), and roughly what share lies outside them."""
    read = read_histograms(plan, engine, key, entropy)
    return tuple(each.bounds for each in read), tuple(each.outside for each in read)


def read_histograms(plan: SelectPlan, engine: Engine, key: SamplingKey, entropy: Entropy) -> tuple[Read, ...]:
    """Everything that the noisy logarithmic histograms say."""
    if not plan.histograms:
        return ()
    exact = engine.totals(histogram_query(plan), key).histograms
    return tuple(
        read_bounds(release, dense_bins(release, counts), entropy, plan.select.input)[0]
        for release, counts in zip(plan.histograms, exact, strict=True)
    )


def dense_bins(release: HistogramRelease, counts: dict[int, int] | LeafCounts) -> NDArray[np.int64]:
    """The one histogram of all groups, dense."""
    if isinstance(counts, LeafCounts):
        raise InternalError("bounds of single groups are found by `by_group`")
    return np.array([[counts.get(number, 0) for number in release.histogram.bins]], dtype=np.int64)


# ---- the noisy half ----------------------------------------------------------------------------------------------


def release(plan: SelectPlan, measured: ResolvedTotals, entropy: Entropy = SYSTEM) -> StoredRows:
    """Select groups, draw noise only for those that are kept, and put them in a random order."""
    measurement = measured.measurement
    counted, selection = owners_that_select(plan, measured), selection_under(plan, measured.noises)
    kept, decided = selected(plan, counted, measured.weights, entropy, selection)
    order = kept[entropy.permutation(len(kept))]
    readings = tuple(reading(plan, measured, index, order, decided, entropy) for index in range(len(plan.releases)))
    keys = measurement.keys.take(as_arrow(order))
    outside = tuple((share,) * len(order) for share in measured.outside)
    table = answer_table(plan, keys, readings, len(order), measured.found, outside)
    # Trees hold exact counts: they have been answered, and go no further.
    taken = (tuple(replace(r, forest=None) for r in readings),)
    return StoredRows(table, taken, notes_of(plan, measured), clamped=(measured.clamped,))


def _of_zero_and_one(column: Column, bounds: Bounds) -> str:
    """An average of zeros and ones is a share, but only the catalog can say so."""
    is_share = column.call.aggregate.of_owner is OfOwner.MEAN and bounds.lower == 0 and bounds.upper == 1
    return " If nothing but 0 and 1 is there, values = [0, 1] in the catalog says so, for nothing." if is_share else ""


def notes_of(plan: SelectPlan, measured: ResolvedTotals) -> tuple[str, ...]:
    """What the analyst should know about this answer: found bounds and what they cost, or that none were found."""
    names: dict[tuple[int, str], list[str]] = {}
    for column in plan.columns:
        if column.histogram is None or column.histogram >= len(measured.found):
            continue
        bounds, name = measured.found[column.histogram], column.call.field.name or column.call.aggregate.name
        paid = plan.price_of_bounds(column.histogram)
        clamped = measured.clamped[column.histogram] if measured.clamped else None
        if bounds is not None:
            said = (
                f"bounds {_found_in_words(column, bounds)} were found privately{paid}. "
                f"Values beyond them are clamped{beyond_in_words(clamped)}.{_of_zero_and_one(column, bounds)}"
            )
        else:
            needed = owners_needed(plan.histograms[column.histogram])
            argument = _bounds_as_written(plan, column.histogram)
            aggregate = column.call.aggregate
            missing = aggregate.without_bounds if seconds_of_unit(aggregate) is None else WITHOUT_BOUNDS_OF_TIMES
            said = f"{missing.format(paid=paid, needed=needed, argument=argument)}."
        # What was paid once is reported once.
        names.setdefault((column.histogram, said), []).append(name)
    return tuple(f"{', '.join(dict.fromkeys(who))}: {said}" for (_, said), who in names.items())


def _found_in_words(column: Column, bounds: Bounds) -> str:
    aggregate = column.call.aggregate
    if seconds_of_unit(aggregate) is not None:
        return range_in_words(bounds, aggregate)
    return f"[{float(bounds.lower):g}, {float(bounds.upper):g}]"


def _bounds_as_written(plan: SelectPlan, histogram: int) -> str:
    """How the query gives the bounds that one histogram looks for; some of its aggregates may take them by another name."""
    names: dict[str, list[str]] = {}
    for column in plan.columns:
        if column.histogram == histogram:
            call = column.call
            names.setdefault(call.aggregate.bounds_argument, []).append(call.field.name or call.aggregate.name)
    if len(names) == 1:
        return f"{next(iter(names))} => (0, 100)"
    return "; ".join(f"of {', '.join(dict.fromkeys(of))}: {argument} => (0, 100)" for argument, of in names.items())
