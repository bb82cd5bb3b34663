"""What must hold for every query, whoever wrote it: shared by the corpus, the replay and the fuzzer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shoal.errors import ShoalError
from shoal.plan import nodes
from shoal.plan.traverse import all_nodes, is_owned

if TYPE_CHECKING:
    from shoal.plan.releases import SelectPlan, StatementPlan
    from shoal.session import Session

PROMISE = {b"shoal.promise": b"owner-level differential privacy"}
Face = tuple[str, tuple[tuple[str, str], ...], tuple[float, float]]
"""What an analyst sees without looking at values: the status or the whole error, columns with types, the charge."""


def face_of(session: Session, sql: str) -> Face:
    """Asks the query. Anything but an answer or a refusal is an error of the test."""
    before = session.ledger.spent
    status: str
    columns: tuple[tuple[str, str], ...] = ()
    try:
        answer = session.query(sql).to_arrow()
        status = "answered"
        columns = tuple((field.name, str(field.type)) for field in answer.schema)
        promise = answer.schema.metadata or {}
        assert promise.keys() <= PROMISE.keys(), "a file would say more than the promise that it keeps"
        assert " WITH POLICY " in sql or promise in ({}, PROMISE), "the promise is another one"
        columns += tuple((name.decode(), text.decode()) for name, text in promise.items())
    except ShoalError as error:
        status = str(error)
    assert not status.startswith(("E_EXECUTION", "E_SUSPENDED")), "the query failed after data was read"
    spent = session.ledger.spent
    return status, columns, (float(spent[0] - before[0]), float(spent[1] - before[1]))


def refusal_of(session: Session, sql: Any) -> tuple[str | None, str]:
    """The code and the whole text of a refusal by planning alone; (None, "") when the query would be answered."""
    try:
        session.plan(sql)
    except ShoalError as error:
        return error.code, str(error)
    return None, ""


def assert_every_column_is_paid_for(plan: StatementPlan) -> None:
    """Nothing leaves but keys that were selected or are public, and aggregates whose noise is charged."""
    assert not is_owned(plan.root), "private rows reach the answer"
    for node in all_nodes(plan.root):
        if isinstance(node, nodes.StoredRows):
            offered = _released_symbols(plan.selects[node.select])
            assert {field.symbol for field in node.fields} <= offered, "a column without a mechanism"
    for select in plan.selects:
        _assert_groups_are_protected(select)
    assert plan.loss.epsilon <= plan.epsilon
    assert plan.loss.delta <= plan.delta


def _released_symbols(select: SelectPlan) -> set[str]:
    return {field.symbol for field, _ in select.select.keys} | {c.call.field.symbol for c in select.columns}


def _assert_groups_are_protected(select: SelectPlan) -> None:
    public = select.select.public_groups
    if select.select.keys:
        assert (select.selection is None) == (public is not None), "groups are neither selected nor public"
    if public is not None:
        assert not is_owned(public), "the list of groups comes from private rows"
    assert select.select.input.owner is not None
    for release in select.releases:
        # Without noise only what no owner can move: a constant.
        assert release.noise.shift.l1 > 0 or release.bounds is not None
