"""The face: open data with a catalog, ask, explain, and see what is left of the budget."""

from __future__ import annotations

from contextlib import contextmanager
from copy import copy
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from shoal import params
from shoal.accounting.spending.asking import NO_TERMS, Request, Terms, kept_user
from shoal.catalog import Catalog
from shoal.errors import InternalError, ShoalError
from shoal.explain import Explanation, explain_plan
from shoal.result import PolicyResult, Result, Rows
from shoal.rewrite.pipeline import plan_query
from shoal.schema import described, frozen_schemas, rows_about
from shoal.sql.binding.context import Context
from shoal.sql.binding.real_names import in_real_names
from shoal.sql.binding.statement import Binder, Given
from shoal.sql.grammar.catalog_questions import asked_of_catalog
from shoal.sql.grammar.parameters import with_parameters
from shoal.sql.parse import parse
from shoal.stack import on_its_own_stack, one_stack

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from shoal.accounting.ledger import Ledger
    from shoal.collections.collection import Collection
    from shoal.engines.base import Engine
    from shoal.engines.deadline import Deadline
    from shoal.plan.policy_select import PolicySelect
    from shoal.plan.releases import StatementPlan
    from shoal.release.policy_clause.plan import PolicyPlan
    from shoal.sql.parse import Statement

    Params = Sequence[Any] | Mapping[str, Any]

LONGEST_CALL = 3600
__all__ = ["Explanation", "Result", "Rows", "Session", "connect"]


def connect(
    source: Any,
    catalog: Catalog | Mapping[str, Any] | str | Path | None = None,
    budget: tuple[Any, Any] | None = None,
    ledger: str | Path | None = None,
    accountant: str | None = None,
    user: str | None = None,
    token: str | None = None,
    buckets: int | None = None,
) -> Session:
    """Opens a session over a source of data.

    Args:
        source: a DuckDB, SQLite or Excel file; a parquet, CSV or JSON lines file, a glob or a folder (a table per file stem);
            a dict of name → Arrow,
            pandas or polars table; an open DuckDB connection (never reconfigured); postgresql://role@host/database; or a
            Spark session, classic or Connect (never reconfigured or stopped).
        catalog: a dict, the path of a TOML file, or a `shoal.Catalog`. Queries see only the tables in it.
        budget: (ε, δ) for the whole session; without it, each query is bounded by its own and the session adds up.
        ledger: a file, or postgresql://user@host/database#name, that remembers every spend, shared by any number of
            processes; made if `budget` is given.
        accountant: "basic" or "zcdp".
        user: who asks, for the ledger.
        token: of a service, where the source is https://host/d/NAME (or the variable SHOAL_TOKEN). Such a session has the
            same methods; catalog, budget and user are the service's.
        buckets: into how many parts Spark cuts the owners; enough for all processors where it is left out.
    """
    from shoal.remote import WHAT_TO_CONNECT, RemoteSession, is_remote

    if is_remote(source):
        if any(option is not None for option in (catalog, budget, ledger, accountant, user, buckets)):
            raise ShoalError(
                "E_USAGE", "A service has its own catalog, budget and users.", hint="Give the token alone."
            )
        return cast("Session", RemoteSession(source, token))
    if catalog is None or token is not None:
        raise ShoalError("E_USAGE", "A session over data needs a catalog, and no token.", hint=WHAT_TO_CONNECT)
    from shoal.engines.duckdb.filled import keep_one
    from shoal.engines.sources import open_source

    kept_user(user)
    known = Catalog.load(catalog)
    keep_one()
    book = _ledger(budget, ledger, accountant)
    return Session(open_source(source, known, buckets), known, book, user)


def _ledger(budget: tuple[Any, Any] | None, path: str | Path | None, accountant: str | None) -> Ledger:
    from shoal.accounting.ledger import Ledger

    limit = params.budget(budget) if budget is not None else None
    if path is not None and not isinstance(path, (str, Path)):
        raise ShoalError("E_USAGE", "A ledger is named by its path or URL.", hint='Write ledger="budget.ledger".')
    if path is None:
        return Ledger.in_memory(limit, accountant or "basic")
    opened = Ledger.open(path) if limit is None else Ledger.create_or_open(path, limit, accountant or "basic")
    if limit is not None and opened.budget != limit:
        raise ShoalError(
            "E_LEDGER",
            "The ledger's budget is not the one given.",
            hint="Leave out budget= to use the ledger's own.",
        )
    if accountant is not None and opened.accountant != accountant:
        raise ShoalError(
            "E_LEDGER", f"The ledger uses the {opened.accountant} accountant.", hint="Leave out accountant=."
        )
    return opened


def _checked_epsilon(value: float) -> Fraction:
    return params.epsilon(value)


def _names_its_own_epsilon() -> ShoalError:
    return ShoalError("E_UNSUPPORTED", "Under a policy the query names its own epsilon.", hint="OPTIONS(epsilon = …)")


class Session:
    """Private queries over one source, under one catalog and one budget."""

    def __init__(self, engine: Engine, catalog: Catalog, ledger: Ledger, user: str | None = None) -> None:
        self._engine = engine
        self._catalog = catalog
        self._ledger = ledger
        self._user = user
        self._schemas, self._facts = frozen_schemas(engine, catalog)
        self._spent_by_promise: dict[str, Fraction] = {}
        self._seconds = float(catalog.defaults.max_seconds_per_query)

    def __repr__(self) -> str:
        names = list(self.tables())
        listed = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
        spent, left = self.spent, self.remaining
        budget = "no budget" if left is None else f"ε = {left[0]:.4g}, δ = {left[1]:.3g} left"
        return f"<shoal session over {self._engine.name}: {listed}; ε = {spent[0]:.4g} spent, {budget}>"

    def __enter__(self) -> Session:  # noqa: PYI034 - a session is not subclassed
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the files and connections that the session opened."""
        self._engine.close()

    # ---- asking --------------------------------------------------------------------------------------------------

    def query(
        self,
        sql: str,
        params: Params | None = None,
        *,
        epsilon: float | None = None,
        composition: str = "basic",
        key: str | None = None,
    ) -> Result | Rows:
        """The private answer; `EXPLAIN PRIVACY …` gives the plan as text, SHOW TABLES and DESCRIBE the catalog, free.

        `params` are the values of placeholders: a list for ? and $1, a dict for $name and :name. `epsilon` replaces that of
        each private SELECT.

        `composition="pld"` composes the releases of each private SELECT numerically: the same (ε, δ) with less noise where
        many Laplace releases share it (extra: accounting). With a `key` of your choice, sending the same query again gives
        the same answer, charged once; another query under that key is E_IDEMPOTENCY.
        """
        sql = sql if params is None else with_parameters(sql, params)
        question = asked_of_catalog(sql)
        if question is not None:
            return Rows(rows_about(self.tables(), *question))
        request = None
        if key is not None:
            terms_of_it = composition if epsilon is None else f"{composition} {float(epsilon)!r}"
            body = f"{terms_of_it}\n{sql}".encode(errors="surrogatepass")
            request = Request.of(self._user or "", "", key, body, may_resume=False)
        return self.query_under(sql, Terms(request=request), composition=composition, epsilon=epsilon)

    def query_under(
        self, sql: str, terms: Terms, *, composition: str = "basic", epsilon: float | None = None
    ) -> Result | Rows:
        """The answer, charged under keys and limits that a service sets."""
        with one_stack():
            return self._query_under(sql, terms, composition, None if epsilon is None else _checked_epsilon(epsilon))

    def _query_under(self, sql: str, terms: Terms, composition: str, asked: Fraction | None) -> Result | Rows:
        under_policy = self._under_policy(sql)
        if under_policy is not None and asked is not None:
            raise _names_its_own_epsilon()
        if under_policy is not None:
            return self._policy_query(*under_policy, terms)
        plan, explain = self._planned(sql, asked, composition)
        if explain:
            return self._explained(plan)
        return self.run(plan, terms)

    def _explained(self, plan: StatementPlan) -> Rows:
        return Rows.in_words(self.explained(plan))

    def snapshot(self, deadline: Deadline) -> AbstractContextManager[Engine]:
        """The engine itself, for instruments that look at raw data; see `Engine.snapshot`."""
        return self._engine.snapshot(deadline)

    def for_user(self, user: str, ledger: Ledger, seconds: float = float("inf")) -> Session:
        """The same data, asked by somebody else, charged to another ledger, in no more time than this for a query."""
        other = copy(self)
        other._user, other._ledger, other._spent_by_promise = user, ledger, {}  # noqa: SLF001 - a copy of ourselves
        other._seconds = min(self._seconds, seconds)  # noqa: SLF001 - same
        return other

    def asked(
        self, sql: str, *, epsilon: float | None = None, composition: str = "basic"
    ) -> tuple[StatementPlan | PolicyPlan, bool]:
        """The verified plan of any statement, and whether it is only to be explained. Reads no data."""
        under_policy = self._under_policy(sql)
        if under_policy is not None:
            if epsilon is not None:
                raise _names_its_own_epsilon()
            self._require_policy_ceiling(under_policy[0])
            return under_policy
        plan, explain = self._planned(sql, None if epsilon is None else _checked_epsilon(epsilon), composition)
        if not explain:
            self._require_ceiling(plan)
            self._require_floor(plan)
        return plan, explain

    def plan(self, sql: str, *, composition: str = "basic") -> StatementPlan:
        """The verified plan: what would be run, and what it would cost. Reads no data."""
        if self._under_policy(sql) is not None:
            raise ShoalError("E_UNSUPPORTED", "plan() is about owner-level queries.", hint="explain() knows policies.")
        return self._planned(sql, composition=composition)[0]

    def explain(
        self, sql: str, params: Params | None = None, *, epsilon: float | None = None, composition: str = "basic"
    ) -> Explanation:
        """The plan in words and numbers; reads no data, spends nothing. `epsilon` replaces the query's own."""
        sql = sql if params is None else with_parameters(sql, params)
        return self._explained_once(sql, epsilon, composition, as_asked=False)[0]

    def explained_with_plan(
        self, sql: str, *, epsilon: float | None = None, composition: str = "basic"
    ) -> tuple[Explanation, StatementPlan | PolicyPlan]:
        """The explanation and the plan it is about, planned once; refused where asking would be."""
        return self._explained_once(sql, epsilon, composition, as_asked=epsilon is None)

    def _explained_once(
        self, sql: str, epsilon: float | None, composition: str, *, as_asked: bool
    ) -> tuple[Explanation, StatementPlan | PolicyPlan]:
        asked = None if epsilon is None else _checked_epsilon(epsilon)
        with one_stack():
            under_policy = self._under_policy(sql, asked)
            if under_policy is not None:
                return self._policy_explanation(under_policy[0]), under_policy[0]
            plan, is_explain = self._planned(sql, asked, composition)
            if as_asked and not is_explain:
                self._require_ceiling(plan)
            return self.explained(plan), plan

    def epsilon_for(self, sql: str, error: float, level: float = 0.95, owners: int | None = None) -> float:
        """The smallest ε at which the widest interval of the query has this half-width, without reading data.

        The query's own epsilon (and the catalog's limit on it) is ignored. `owners` says how many owners a group has, which
        the error of AVG depends on.
        """
        from shoal.accuracy import epsilon_for, widest

        checked = float(params.confidence_level(level))
        if self._under_policy(sql) is not None:
            found = epsilon_for(lambda epsilon: self._policy_width(sql, epsilon, checked, owners), error)
        else:
            found = epsilon_for(lambda epsilon: widest(self._planned(sql, epsilon)[0], checked, owners), error)
        return float(max(found, self._floor or found))

    def _planned(
        self,
        sql: str,
        epsilon: Fraction | None = None,
        composition: str = "basic",
        given: Given = lambda _: {},
    ) -> tuple[StatementPlan, bool]:
        if not isinstance(composition, str) or composition not in {"basic", "pld"}:
            raise ShoalError("E_USAGE", "composition must be 'basic' or 'pld'.")
        statement = parse(sql)
        with self._refusing(sql, statement):
            plan = on_its_own_stack(
                lambda: plan_query(statement, self._catalog, self._schemas, self._facts, epsilon, composition, given)
            )
            if epsilon is None:
                self._require_floor(plan)
        return plan, statement.explain

    @contextmanager
    def _refusing(self, sql: str, statement: Statement) -> Iterator[None]:
        """Refusals show where in the SQL they are and what to write instead."""
        try:
            yield
        except ShoalError as error:
            raise self._advised(error, statement).located(sql) from None
        except RecursionError:
            raise ShoalError(
                "E_LIMITS", "The query nests too deeply.", hint="Name the inner parts with WITH."
            ) from None

    # ---- collections ---------------------------------------------------------------------------------------------

    def collection(self, table: str, *, function_timeout: float = 10.0) -> Collection:
        """The records of a private table, for Python functions; one call of a function may take `function_timeout` seconds.

        The functions are code of whoever runs the session: never offer collections to analysts who are not trusted.
        """
        from shoal.collections.collection import Collection
        from shoal.collections.recipes import Stored

        if not isinstance(table, str):
            raise ShoalError("E_USAGE", "A collection is named by a table of the catalog.")
        seconds = float(params.exact_number(function_timeout, option="function_timeout"))
        if not 0 < seconds <= LONGEST_CALL:
            raise ShoalError("E_USAGE", f"function_timeout is a number of seconds, {LONGEST_CALL} at most.")
        return Collection(self, Stored(table), seconds)

    def binder(self) -> Binder:
        """What turns names into a plan; for collections."""
        return Binder(Context(self._catalog, self._schemas, facts=self._facts))

    def plan_given(self, sql: str, given: Given) -> StatementPlan:
        """The verified plan of a statement that names its own relations. Reads no data."""
        return self._planned(sql, given=given)[0]

    @property
    def planned_on(self) -> tuple[Catalog, Any, Any]:
        """What plans depend on besides their statements: the catalog, the types of tables, what is known of public ones."""
        return self._catalog, self._schemas, self._facts

    def run(self, plan: StatementPlan, terms: Terms = NO_TERMS) -> Result:
        """The answer of a plan, charged."""
        from shoal.release.execute import execute

        self._require_ceiling(plan)
        self._require_floor(plan)
        return Result(execute(plan, self._engine, self._ledger, self._user, seconds=self._seconds, terms=terms))

    def explained(self, plan: StatementPlan) -> Explanation:
        """A plan in words and numbers."""
        return explain_plan(plan, self._ledger, self.warnings, self._catalog.defaults.single_owner_groups)

    # ---- under a policy ------------------------------------------------------------------------------------------

    def _under_policy(self, sql: str, epsilon: Fraction | None = None) -> tuple[PolicyPlan, bool] | None:
        """The plan of a SELECT WITH POLICY, and whether it is only to be explained; None for every other statement."""
        if not isinstance(sql, str) or "POLICY" not in sql.upper():
            return None  # most queries are parsed once, and need nothing of this
        from shoal.policies.charging import uses_public_counts
        from shoal.sql.policy_clause.select import bind_policy_select
        from shoal.sql.policy_clause.statement import has_policy_clause

        statement = parse(sql)
        if not has_policy_clause(statement):
            return None
        schemas = self._schemas if self._engine.tables() else None
        with self._refusing(sql, statement):
            select = on_its_own_stack(lambda: bind_policy_select(statement, self._catalog, schemas, epsilon))
            if epsilon is None and self._floor is not None and select.epsilon < self._floor:
                raise self._too_cheap(select.position)
            return self._policy_plan(select, public_n=uses_public_counts(self._charged_ledger)), statement.explain

    def _policy_plan(self, select: PolicySelect, *, public_n: bool) -> PolicyPlan:
        from shoal.release.policy_clause.plan import plan_policy

        return plan_policy(select, self._deadline(), public_n=public_n)

    def _policy_width(self, sql: str, epsilon: Fraction, level: float, owners: int | None) -> float:
        from shoal.release.policy_clause.accuracy import widest

        planned = self._under_policy(sql, epsilon)
        if planned is None:
            raise InternalError("a query changed while it was planned")
        return widest(planned[0], level, owners)

    def _policy_query(self, plan: PolicyPlan, explain: bool, terms: Terms) -> Result | Rows:
        from shoal.engines.domain_records import check_columns
        from shoal.release.policy_clause.run import execute_policy

        if explain:
            return Rows.in_words(self._policy_explanation(plan))
        select = plan.select
        self._require_policy_ceiling(plan)
        check_columns(self._engine, select.table, select.rule.domain, select.owner)
        answer = execute_policy(plan, self._engine, self._ledger, self._user, self._deadline(), terms=terms)
        if self._charged_ledger is None:
            before = self._spent_by_promise.get(select.rule.name, Fraction(0))
            self._spent_by_promise[select.rule.name] = before + plan.epsilon
        return PolicyResult(answer)

    def _policy_explanation(self, plan: PolicyPlan) -> Explanation:
        from shoal.release.policy_clause.explain import explain_policy

        return explain_policy(plan, self._policy_plan(plan.select, public_n=False))

    @property
    def _charged_ledger(self) -> Ledger | None:
        """The ledger with a budget; without one, a session adds up what was asked, promise by promise."""
        return self._ledger if self._ledger.has_budget else None

    def _deadline(self) -> Deadline:
        from shoal.engines.deadline import Deadline

        return Deadline(self._seconds)

    def _too_cheap(self, position: tuple[int, int] | None) -> ShoalError:
        return ShoalError(
            "E_POLICY",
            f"A query on this budget costs at least epsilon = {float(self._floor or 0):g}.",
            hint="Give it a larger epsilon; the catalog's min_epsilon_per_query sets the limit.",
            position=position,
        )

    @property
    def _floor(self) -> Fraction | None:
        return self._catalog.defaults.floor(has_budget=self._ledger.has_budget)

    def _require_ceiling(self, plan: StatementPlan) -> None:
        """The catalog's limit holds for what is asked, whoever named the ε."""
        limit = self._catalog.defaults.max_epsilon_per_query
        if limit is not None and plan.epsilon > limit:
            raise ShoalError(
                "E_POLICY",
                f"The catalog allows at most epsilon = {float(limit):g} for one query.",
                hint="Give it a smaller epsilon.",
                position=plan.selects[-1].select.position,
            )

    def _require_policy_ceiling(self, plan: PolicyPlan) -> None:
        """The same for what a policy's release costs on the session's budget, which may be many times the ε it names."""
        from shoal.policies.charging import loss_on

        limit, ledger = self._catalog.defaults.max_epsilon_per_query, self._charged_ledger
        if limit is None or ledger is None:
            return
        cost = loss_on(ledger, plan, plan.select.owner).epsilon
        if cost > limit:
            raise ShoalError(
                "E_POLICY",
                f"On this budget the query would cost epsilon = {float(cost):.3g}; the catalog allows {float(limit):g}.",
                hint="Give it a smaller epsilon, or use a ledger about the policy itself.",
                position=plan.select.position,
            )

    def _require_floor(self, plan: StatementPlan) -> None:
        """Cheap queries are many queries, and each may be a chance to learn from a failure."""
        if self._floor is None or not plan.selects or plan.epsilon >= self._floor:
            return
        raise self._too_cheap(plan.selects[-1].select.position)

    def _advised(self, error: ShoalError, statement: Statement) -> ShoalError:
        """Without a source only the columns that the catalog names are known, and a missing one may well exist."""
        if error.code == "E_UNKNOWN_COLUMN" and not self._engine.tables():
            missing = "There is no source, so only the catalog's columns are known: name its type there, or open the data (--db)."
            error.hint = f"{error.hint} {missing}" if error.hint else missing
        return in_real_names(error, statement.tree, self._catalog, self._schemas)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the custodian should know about the source, such as a role that may do more than read."""
        return self._engine.warnings

    # ---- the budget ----------------------------------------------------------------------------------------------

    @property
    def spent(self) -> tuple[float, float]:
        """(ε, δ) spent so far."""
        epsilon, delta = self._ledger.spent
        return float(epsilon), float(delta)

    @property
    def spent_by_promise(self) -> dict[str, float]:
        """ε of the policies asked about without a budget: sums under each promise, never added to each other."""
        return {name: float(amount) for name, amount in self._spent_by_promise.items()}

    @property
    def remaining(self) -> tuple[float, float] | None:
        """(ε, δ) left, or None without a budget."""
        left = self._ledger.remaining
        return (float(left[0]), float(left[1])) if left is not None else None

    @property
    def ledger(self) -> Ledger:
        """Every charge, read-only."""
        return self._ledger

    def tables(self) -> dict[str, dict[str, Any]]:
        """What the catalog knows: columns with their types, owner, bounds and domains."""
        return described(self._catalog, self._schemas)
