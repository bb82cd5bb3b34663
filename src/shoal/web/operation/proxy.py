"""The person a proxy names: trusted from its address with its secret; the same header from anywhere else is refused, not ignored.

OIDC, MFA and SCIM are up to the proxy; the people it names must exist here.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal.errors import ShoalError
from shoal.frozen import dataclass
from shoal.service.people import unknown_caller

if TYPE_CHECKING:
    from shoal.service.people import Caller, People

SECRET_HEADER = b"x-shoal-proxy-secret"
USER_HEADER = "X-Forwarded-User"
LEAST_SECRET = 16
VIA = "proxy"
_OF_A_PROXY = frozenset({SECRET_HEADER, USER_HEADER.lower().encode()})
_HEADER = re.compile(r"[A-Za-z0-9-]{1,64}")
_PATH = re.compile(r"/(?!/)[A-Za-z0-9_/.?=&%-]{1,500}")
_TAKEN = frozenset({"authorization", "cookie", "host", "origin", "content-type", "accept", "idempotency-key"})


@dataclass(frozen=True)
class Proxy:
    """The addresses of a proxy, the header in which it names people, and what only it knows."""

    networks: tuple[Any, ...]
    header: bytes
    secret: bytes
    sign_out: str = ""
    """Where it signs people out, a path under the address of the service; '' if it is not known."""

    @classmethod
    def of(cls, networks: str, header: str, secret_file: str | None, sign_out: str = "") -> Proxy:
        """From the command line's options; E_USAGE if anything is missing."""
        if secret_file is None:
            raise ShoalError("E_USAGE", "A proxy is believed by its secret: give --proxy-secret FILE.")
        if _HEADER.fullmatch(header) is None or header.lower() in _TAKEN | {SECRET_HEADER.decode()}:
            raise ShoalError("E_USAGE", "--user-header names a dedicated header, such as X-Forwarded-User.")
        if sign_out and _PATH.fullmatch(sign_out) is None:
            raise ShoalError("E_USAGE", "--sign-out is a path of the proxy, such as /oauth2/sign_out.")
        try:
            known = tuple(ipaddress.ip_network(part.strip()) for part in networks.split(","))
        except ValueError:
            raise ShoalError("E_USAGE", "--behind-proxy is an address or a network, such as 10.0.0.0/24.") from None
        try:
            secret = Path(secret_file).read_bytes().strip()
        except OSError:
            raise ShoalError("E_USAGE", f"The file {secret_file!r} cannot be read.") from None
        if len(secret) < LEAST_SECRET or not secret.isascii():
            raise ShoalError(
                "E_USAGE",
                f"The secret of a proxy has at least {LEAST_SECRET} ASCII characters.",
                hint="head -c 32 /dev/urandom | base64 > FILE",
            )
        return cls(known, header.lower().encode(), secret, sign_out)

    def named(self, client: tuple[str, int] | None, headers: list[tuple[bytes, bytes]]) -> str | None:
        """The person that the proxy names, None if it names nobody; E_AUTH for anyone who is not the proxy."""
        if self.complaint(client, headers):
            raise unknown_caller()
        names = _values(headers, self.header)
        return names[0].decode("latin-1") if names else None

    def complaint(self, client: tuple[str, int] | None, headers: list[tuple[bytes, bytes]]) -> str:
        """Why a request is not believed to come from the proxy, for whoever runs the service; '' if it is."""
        names, secrets = _values(headers, self.header), _values(headers, SECRET_HEADER)
        if not self._is_from(client):
            return f"{client[0] if client else 'nobody'} is no address of the proxy (--behind-proxy)"
        if not names and not secrets:
            return ""
        if len(secrets) != 1 or not hmac.compare_digest(secrets[0], self.secret):
            return "it names somebody without the proxy's secret (X-Shoal-Proxy-Secret)"
        return "" if len(names) == 1 else "the proxy has to name one person (--user-header)"

    def _is_from(self, client: tuple[str, int] | None) -> bool:
        try:
            address = ipaddress.ip_address(client[0] if client else "")
        except ValueError:
            return False
        mapped = getattr(address, "ipv4_mapped", None)
        return any((mapped or address) in network for network in self.networks)


def _values(headers: list[tuple[bytes, bytes]], wanted: bytes) -> list[bytes]:
    return [value for name, value in headers if name == wanted]


def refuse_names(headers: list[tuple[bytes, bytes]]) -> None:
    """A service without a proxy trusts none: a caller who expects a header to sign them in learns that it does not."""
    if any(name in _OF_A_PROXY for name, _ in headers):
        raise unknown_caller()


def caller_named(people: People, name: str, token: Caller | None) -> Caller:
    """The person; a token sent with the header must be theirs, and may allow less."""
    if token is None:
        return people.trusted(name, VIA)
    if token.name != name:
        raise unknown_caller()
    return token
