"""What a runner receives, and what it asks back, as plain values."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from shoal.accounting.accountants import Loss
from shoal.accounting.promises import Promise
from shoal.errors import ShoalError
from shoal.frozen import dataclass

if TYPE_CHECKING:
    from shoal.accounting.ledger import Ledger


@dataclass(frozen=True, slots=True)
class Place:
    """A version of a data set: where it is, and what its catalog says."""

    name: str
    version: int
    source: str
    catalog: str
    seconds: float
    """The most that a query may take, whatever the catalog says."""

    def to_dict(self) -> dict[str, Any]:
        """As it is sent."""
        return _fields(self)


@dataclass(frozen=True, slots=True)
class Errand:
    """One statement to run. The runner has no say in who is charged, under which keys, or within which limits."""

    place: Place
    person: str
    sql: str
    composition: str
    epsilon: float | None
    seconds: float
    has_budget: bool
    promise: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """As it is sent."""
        return _fields(self) | {"place": self.place.to_dict()}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Errand:
        """As it was sent."""
        return cls(**(data | {"place": Place(**data["place"])}))


@dataclass(frozen=True, slots=True)
class PlanErrand:
    """One statement to plan, and what to report about its plan: see `runners/planning.py`."""

    place: Place
    what: str
    person: str
    shared: bool
    """Whether answers are shared, or each person has their own."""
    catalog_version: str
    sql: str
    composition: str
    epsilon: float | None
    has_budget: bool
    promise: dict[str, Any]
    width: tuple[float, float, int | None] | None = None
    """Half-width, level and owners of the acceptable interval."""

    def to_dict(self) -> dict[str, Any]:
        """As it is sent."""
        return _fields(self) | {"place": self.place.to_dict()}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> PlanErrand:
        """As it was sent."""
        return cls(**(data | {"place": Place(**data["place"])}))


def _fields(record: Any) -> dict[str, Any]:
    """What `asdict` returns for plain values, without copying them one by one."""
    return {name: getattr(record, name) for name in record.__dataclass_fields__}


def facts_of(ledger: Ledger) -> tuple[bool, dict[str, Any]]:
    """What a plan depends on, which never changes: whether a ledger has a limit, and what it is about."""
    return ledger.has_budget, _fields(ledger.promise)


def loss_data(loss: Loss | None) -> list[str | None] | None:
    """A loss as it is sent."""
    if loss is None:
        return None
    return [None if part is None else str(part) for part in (loss.epsilon, loss.delta, loss.rho, loss.rho_delta)]


def loss_of(data: list[str | None]) -> Loss:
    """A loss as it was sent."""
    epsilon, delta, rho, rho_delta = (None if part is None else Fraction(part) for part in data)
    return Loss(epsilon or Fraction(0), delta or Fraction(0), rho, rho_delta)


def promise_of(data: dict[str, Any] | None) -> Promise | None:
    """A promise as it was sent."""
    return None if data is None else Promise(**data)


def error_of(data: dict[str, Any]) -> ShoalError:
    """An error as it was sent."""
    position = data["position"]
    where = None if position is None else (int(position[0]), int(position[1]))
    return ShoalError(data["code"], data["message"], hint=data["hint"], position=where)
