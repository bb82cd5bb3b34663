"""What a request may say. An unknown field, or one of another type, is E_USAGE."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, WithJsonSchema

from shoal.errors import ShoalError
from shoal.service.people import NAME, SCOPES, SCOPES_OF
from shoal.service.questions import LONGEST_ANSWER_TIME


def _some_of(words: Iterable[str]) -> dict[str, Any]:
    """A list of at least one of these words."""
    return {"type": "array", "minItems": 1, "items": {"type": "string", "enum": sorted(words)}}


Text = Annotated[str, Field(max_length=200_000)]
Sql = Annotated[Text, WithJsonSchema({"type": "string", "minLength": 1, "maxLength": 200_000})]
Number = Annotated[float, Field(allow_inf_nan=False)]
Name = Annotated[str, Field(max_length=80)]
Epsilon = Annotated[Number, WithJsonSchema({"type": "number", "minimum": 1e-10, "maximum": 1e6})]
Delta = Annotated[Number, WithJsonSchema({"type": "number", "minimum": 0, "exclusiveMaximum": 1})]
Level = Annotated[Number, WithJsonSchema({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1})]
"""What these may be is in the description; whatever is outside is refused by the service, in words of its own, as are names."""
Named = Annotated[str, WithJsonSchema({"type": "string", "pattern": f"^{NAME.pattern}$"})]
To = Annotated[Name, WithJsonSchema({"type": "string", "pattern": f"^(group:)?{NAME.pattern}$"})]
Roles = Annotated[list[Name], WithJsonSchema(_some_of(SCOPES_OF))]
Scopes = Annotated[list[Name], WithJsonSchema(_some_of(SCOPES))]
AnswerTime = Annotated[Number, Field(gt=0, le=LONGEST_ANSWER_TIME)]


class Body(BaseModel):
    """Strict: nothing is converted, nothing is ignored."""

    model_config = ConfigDict(extra="forbid", strict=True)


B = TypeVar("B", bound=Body)


def read(kind: type[B], body: bytes) -> B:
    """A body that the gate has let through as JSON."""
    try:
        found: B = kind.model_validate(json.loads(body) if body else None)
    except ValidationError as error:
        raise not_understood(each["loc"] for each in error.errors()) from None
    return found


def not_understood(places: Iterable[tuple[int | str, ...]]) -> ShoalError:
    """Which fields are wrong, and never what was in them."""
    named = {".".join(str(part) for part in place)[:100] for place in list(places)[:20]}
    shown = ", ".join(sorted(name for name in named if name.isprintable() and name)) or "the body"
    return ShoalError("E_USAGE", f"The request cannot be understood: {shown}.", hint="See /openapi.json.")


class ExplainBody(Body):
    """A question to be explained."""

    sql: Sql
    epsilon: Epsilon | None = None
    composition: Literal["basic", "pld"] = "basic"


class EpsilonBody(Body):
    """The error one can live with."""

    sql: Sql
    error: Annotated[Number, WithJsonSchema({"type": "number", "exclusiveMinimum": 0})]
    level: Level = 0.95
    owners: Annotated[int, WithJsonSchema({"type": "integer", "minimum": 1})] | None = None


class QueryBody(Body):
    """A question."""

    sql: Sql
    epsilon: Epsilon | None = None
    fresh: bool = False
    level: Level | None = None
    wait: Annotated[Number, Field(ge=0, le=60)] = 30.0
    composition: Literal["basic", "pld"] = "basic"
    reason: Annotated[str, Field(max_length=4096)] = ""
    answer_time: AnswerTime | None = None


class ApprovalBody(Body):
    """A question that needs a custodian."""

    dataset: Named
    sql: Sql
    epsilon: Epsilon | None = None
    fresh: bool = False
    composition: Literal["basic", "pld"] = "basic"
    reason: Annotated[str, Field(max_length=4096)] = ""
    answer_time: AnswerTime | None = None


class DecisionBody(Body):
    """A decision on a question that waits."""

    decision: Literal["approve", "refuse"]
    note: Annotated[str, Field(max_length=4096)] = ""


class TokenBody(Body):
    """A new token."""

    user: Name | None = None
    scope: Scopes | None = None
    dataset: list[Named] | None = None
    days: Annotated[Number, Field(gt=0, le=366)] = 90.0


class RevokeBody(Body):
    """The id of a token, never the token."""

    id: Name


class UserBody(Body):
    """A new person."""

    name: Named
    roles: Roles
    groups: list[Named] = []


class Pair(Body):
    """(ε, δ)."""

    epsilon: Epsilon
    delta: Delta = 0.0


class AllowanceBody(Body):
    """An allowance."""

    dataset: Named
    to: To
    budget: Pair | None = None
    per: Literal["day", "week", "month", "ever"] = "ever"
    max_epsilon_per_query: Epsilon | None = None
    approve_above: Epsilon | None = None


class WithdrawBody(Body):
    """The allowance that ends."""

    dataset: Named
    to: To
    per: Literal["day", "week", "month", "ever"] = "ever"


class TuneBody(Body):
    """Settings to look at; `bounds` by output name, as pairs."""

    sql: Sql
    epsilon: list[Epsilon] | None = None
    groups: list[int] | None = None
    bounds: dict[Name, list[Annotated[list[Number], Field(min_length=2, max_length=2)]]] = {}


class LiftBody(Body):
    """The end of a suspension."""

    user: Name
    because: Annotated[str, Field(min_length=1, max_length=4096)]
