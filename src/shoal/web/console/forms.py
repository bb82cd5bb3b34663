"""What a form sent: from our own page, with the session's form token, and only known fields; and what is shown of a refused one."""

from __future__ import annotations

import hmac
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlsplit

from shoal.errors import ShoalError
from shoal.frozen import dataclass
from shoal.web.console.rendering import session_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.requests import Request

MOST_FIELDS = 200


class FieldError(ShoalError):
    """What is refused because of one field of a form."""

    def __init__(self, field: str, error: ShoalError) -> None:
        super().__init__(error.code, error.message, hint=error.hint)
        self.field = field


@contextmanager
def about(field: str) -> Iterator[None]:
    """What is refused in here is refused because of this field."""
    try:
        yield
    except ShoalError as error:
        raise FieldError(field, error) from None


@dataclass(frozen=True, slots=True)
class Refused:
    """The form on a page that was refused, with what was typed; of none by default."""

    form: str = ""
    fields: dict[str, str] | None = None
    error: ShoalError | None = None

    def typed(self, form: str, field: str, otherwise: str = "") -> str:
        """What a field of this form holds: what was typed, or what it holds at first."""
        return self.fields.get(field, "") if self.fields is not None and form == self.form else otherwise

    def is_about(self, form: str, field: str) -> bool:
        """Whether this is the field that is to be changed."""
        return form == self.form and isinstance(self.error, FieldError) and self.error.field == field


async def form_of(request: Request, known: set[str]) -> dict[str, str]:
    """The fields sent by somebody who is signed in; a field that was not sent is ''.

    Every browser names the origin of a form in one header or the other.
    """
    session = session_of(request)
    if not {"sec-fetch-site", "origin"} & set(request.headers):
        raise _foreign()
    found = await fields_of(request, {*known, "form"})
    if not hmac.compare_digest(found["form"].encode(), session.form.encode()):
        raise ShoalError(
            "E_FORBIDDEN",
            "This form is out of date, or was not sent from this page.",
            hint="Go back, reload, send it again.",
        )
    return found


async def fields_of(request: Request, known: set[str]) -> dict[str, str]:
    """The fields of one of our own forms; several values of one name are joined by a space."""
    require_same_origin(request)
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise ShoalError("E_USAGE", "This address takes a form.")
    try:
        body = (await request.body()).decode("ascii")
        pairs = parse_qsl(body, keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict")
    except ValueError:
        raise ShoalError("E_USAGE", "The form cannot be read.") from None
    unknown = {name for name, _ in pairs} - known
    if unknown:
        raise ShoalError("E_USAGE", "The form has a field that this page does not know.", hint="Reload the page.")
    found = dict.fromkeys(known, "")
    for name, value in pairs:
        text = value.replace("\r\n", "\n")
        found[name] = f"{found[name]} {text}" if found[name] else text
    return found


def require_same_origin(request: Request) -> None:
    """E_FORBIDDEN for a form from another site. Browsers send a form's origin in one of two headers."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None:
        foreign = site not in {"same-origin", "none"}
    else:
        foreign = origin not in {None, "null"} and urlsplit(origin or "").netloc != request.headers.get("host")
    if foreign:
        raise _foreign()


def _foreign() -> ShoalError:
    return ShoalError(
        "E_FORBIDDEN", "This form was sent from another site.", hint="Open the page itself and send it there."
    )
