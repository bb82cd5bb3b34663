"""A socket, signals, and the requested number of processes.

SIGTERM: no new work (503), running queries get thirty seconds, waiting ones stay in the store, exit 0; a second one ends at once.
"""

from __future__ import annotations

import gc
import logging
import os
import shutil
import signal
import socket
import ssl
import tempfile
import threading
import time
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import uvicorn

from shoal.errors import ShoalError
from shoal.frozen import dataclass
from shoal.service.rates import SharedBuckets
from shoal.service.runners import nursery
from shoal.service.runners.bells import Bell, bells
from shoal.service.service import Limits, Service
from shoal.web.app import LOOPBACK, application
from shoal.web.gate import REQUEST_SECONDS
from shoal.web.operation import certificates, process_log
from shoal.web.operation.arrivals import PromptProtocol
from shoal.web.operation.sharing import Seat, Seats, SharedListener

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from shoal.service.rates import Buckets
    from shoal.web.operation.proxy import Proxy

LAST_REPLIES_SECONDS = 5
REPLACED_A_MINUTE = 10
ORDERS = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
_LOGGER = logging.getLogger("shoal.web")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a service listens."""

    host: str = "127.0.0.1"
    port: int = 8642
    hosts: tuple[str, ...] = ()
    public_url: str | None = None
    certificate: str | None = None
    key: str | None = None
    plain_http: bool = False
    workers: int = 1
    flight_port: int | None = None
    proxy: Proxy | None = None

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            raise ShoalError("E_USAGE", "--tls-cert and --tls-key belong together.")
        protected = self.certificate is not None or self.proxy is not None or self.plain_http
        if self.proxy is not None and (self.certificate is not None or self.plain_http or self.flight_port is not None):
            raise ShoalError("E_USAGE", "--behind-proxy goes without TLS of our own, --plain-http and --flight-port.")
        if self.host not in {"127.0.0.1", "::1", "localhost"} and not protected:
            raise ShoalError(
                "E_USAGE",
                "Tokens would cross the network in the clear.",
                hint="Give --tls-cert and --tls-key or --behind-proxy, listen on 127.0.0.1, or say --plain-http.",
            )
        if self.workers < 1 or not 0 <= self.port < 65_536 or not 0 <= (self.flight_port or 0) < 65_536:
            raise ShoalError("E_USAGE", "--workers is at least 1, ports from 0 to 65535.")

    @property
    def known_hosts(self) -> frozenset[str]:
        """The host names under which requests are accepted; others may be a rebound name of another site."""
        public = urlsplit(self.public_url).hostname if self.public_url else None
        named = (self.host, *self.hosts, *([public] if public else []))
        return LOOPBACK | {_as_host(name) for name in named}

    def url(self, port: int) -> str:
        """Where a browser finds it."""
        scheme = "http" if self.certificate is None else "https"
        return self.public_url or f"{scheme}://{_as_host(self.host)}:{port}"


def _as_host(name: str) -> str:
    """As requests name it: an address of IPv6 is in brackets."""
    return f"[{name}]" if ":" in name and not name.startswith("[") else name


class Server(uvicorn.Server):
    """Leaves signals to us: uvicorn raises them again after its shutdown, and the exit status would not be 0."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """None are captured."""
        yield


def serve(home: Path | str, limits: Limits, place: Place, ready: Callable[[str, int, str | None], None]) -> int:
    """Serves until a signal; `ready` gets the URL and the process once requests are accepted. Returns the exit status."""
    process_log.start()
    listening = Listening.at(place)
    if place.workers == 1:
        return _serve_here(home, limits, place, listening, ready, Bell())
    return _serve_in_children(home, limits, place, listening, ready)


@dataclass(frozen=True, slots=True)
class Listening:
    """The sockets of a service, which all of its processes share."""

    http: SharedListener
    flight: socket.socket | None

    @classmethod
    def at(cls, place: Place) -> Listening:
        """E_USAGE if a port is taken."""
        flight = None if place.flight_port is None else bound_socket(place.host, place.flight_port)
        return cls(bound_socket(place.host, place.port), flight)


def bound_socket(host: str, port: int) -> SharedListener:
    """Made with IPPROTO_TCP: without it asyncio leaves Nagle's algorithm on, and every small reply waits 40 ms."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = SharedListener(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        raise ShoalError("E_USAGE", f"The port {port} of {host} cannot be listened on: {error.strerror}.") from None
    listening.listen(1024)
    return listening


def _serve_here(
    home: Path | str,
    limits: Limits,
    place: Place,
    listening: Listening,
    ready: Callable[[str, int, str | None], None],
    bell: Bell,
    buckets: Buckets | None = None,
    sit: Callable[[], Seat] | None = None,
) -> int:
    service = Service.open(home, limits, bell=bell, buckets=buckets)
    service.start()
    doorway = Doorway(service, place, listening.flight)
    listening.http.seat = None if sit is None else sit()
    server = Server(configuration(service, place, listening.http.seat))
    _end_on_signals(service, server)
    _reload_on_signal(server, place, doorway)
    announced = threading.Thread(
        target=_announce, args=(server, place, listening.http, doorway.address, ready), daemon=True
    )
    announced.start()
    _LOGGER.info("serving")
    gc.freeze()  # what is loaded stays: a search for cycles need not look at it
    server.run(sockets=[listening.http])
    _LOGGER.info("ended")
    doorway.close()
    try:
        return 0 if service.close(0.0) else 1
    except ShoalError as error:
        _LOGGER.error("the store could not be closed: %s", error.message)  # noqa: TRY400 - the text says it
        return 1


class Doorway:
    """Flight SQL, if there is a socket for it: every process that serves accepts its connections."""

    def __init__(self, service: Service, place: Place, listening: socket.socket | None) -> None:
        self._place, self._listening = place, listening
        self._tls: ssl.SSLContext | None = None
        self._ends: list[Callable[[], None]] = []
        if listening is None:
            return
        from shoal.web.flight_sql.door import Door
        from shoal.web.flight_sql.front import Front

        if place.certificate is not None:
            self._tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            self._tls.load_cert_chain(place.certificate, place.key)
            self._tls.set_alpn_protocols(["h2"])
        folder = tempfile.mkdtemp(prefix="shoal-")  # nobody else can reach what is in it
        inner = f"{folder}/flight"
        door = Door(service, f"grpc+unix://{inner}")
        front = Front(listening, inner, self._tls)
        self._ends = [front.close, door.shutdown, lambda: shutil.rmtree(folder, ignore_errors=True)]

    @property
    def address(self) -> str | None:
        """Where other programs find it."""
        if self._listening is None:
            return None
        scheme = "grpc" if self._place.certificate is None else "grpc+tls"
        return f"{scheme}://{_as_host(self._place.host)}:{self._listening.getsockname()[1]}"

    def reload(self) -> None:
        """New connections get the certificate that is in the files now."""
        if self._tls is not None:
            certificates.reload(self._tls, self._place.certificate, self._place.key)

    def close(self) -> None:
        """No new calls."""
        while self._ends:
            self._ends.pop(0)()


def configuration(service: Service, place: Place, seat: Seat | None = None) -> Any:
    """How uvicorn serves it: h11, no access log, no server name. `seat`: where connections are counted."""

    class Protocol(PromptProtocol):
        counted_at = seat

    return uvicorn.Config(
        application(service, place.known_hosts, secure=place.url(place.port).startswith("https:"), proxy=place.proxy),
        http=Protocol,
        loop="asyncio",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
        timeout_keep_alive=REQUEST_SECONDS,
        timeout_graceful_shutdown=LAST_REPLIES_SECONDS,
        proxy_headers=False,
        ssl_certfile=place.certificate,
        ssl_keyfile=place.key,
    )


def _announce(
    server: Any,
    place: Place,
    listening: socket.socket,
    flight: str | None,
    ready: Callable[[str, int, str | None], None],
) -> None:
    waited = threading.Event()
    while not server.started:
        waited.wait(0.02)
    ready(place.url(listening.getsockname()[1]), os.getpid(), flight)


def _end_on_signals(service: Service, server: Any) -> None:
    def close() -> None:
        try:
            service.close()
        finally:  # also where its store is gone: nobody waits for ever
            server.should_exit = True

    def ended(_: int, __: object) -> None:
        if service.ending:
            os._exit(1)
        service.refuse_new_work()
        threading.Thread(target=close, daemon=True).start()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, ended)


def _reload_on_signal(server: Any, place: Place, doorway: Doorway) -> None:
    """SIGHUP reads the certificate again, for both doors."""

    def reload() -> None:
        if certificates.reload(server.config.ssl, place.certificate, place.key):
            doorway.reload()

    if hasattr(signal, "SIGHUP"):
        # In a thread: files are read, and requests do not wait for that.
        signal.signal(signal.SIGHUP, lambda *_: threading.Thread(target=reload, daemon=True).start())


def _serve_in_children(
    home: Path | str,
    limits: Limits,
    place: Place,
    listening: Listening,
    ready: Callable[[str, int, str | None], None],
) -> int:
    """The same socket in several processes, forked before any thread or data set exists. One that dies is replaced."""
    nursery.start()  # one for all of them
    heard, seats, buckets = bells(place.workers), Seats(place.workers), SharedBuckets()
    children: dict[int, int] = {}  # each process, and its seat
    ending = False

    def fork(seat: int, told: Callable[[str, int, str | None], None]) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, ORDERS)  # a signal that comes now is handled once the child is known
        if not ending:
            child = os.fork()
            if child == 0:
                signal.signal(signal.SIGHUP, signal.SIG_IGN)
                for number in (signal.SIGTERM, signal.SIGINT):
                    signal.signal(number, signal.SIG_DFL)  # until it has its own: ours would end its siblings
                signal.pthread_sigmask(signal.SIG_UNBLOCK, ORDERS)
                sit = partial(Seat, seats, seat)
                os._exit(_serve_here(home, limits, place, listening, told, heard[seat], buckets, sit))
            children[child] = seat
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ORDERS)

    def forward(signal_number: int, _: object) -> None:
        nonlocal ending
        ending = True
        for child in children:
            os.kill(child, signal_number)

    def reload(*_: object) -> None:
        for child in children:
            os.kill(child, signal.SIGHUP)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, forward)
    signal.signal(signal.SIGHUP, reload)
    for worker in range(place.workers):
        fork(worker, ready if worker == 0 else lambda *_: None)
    return _watch(children, lambda: ending, lambda seat: fork(seat, lambda *_: None), seats)


def _watch(
    children: dict[int, int], is_ending: Callable[[], bool], replace: Callable[[int], None], seats: Seats
) -> int:
    """Waits for all children; one that was killed is replaced, a few times a minute at most. The worst exit status."""
    worst, replaced = 0, [0.0] * REPLACED_A_MINUTE
    while children:
        child, status = os.wait()
        seat = children.pop(child, None)
        if seat is None:
            continue  # the nursery: whoever needs it next starts another
        seats.leave(seat)
        code = os.waitstatus_to_exitcode(status)
        if is_ending() and -code in ORDERS:
            code = 0  # the signal came before it could handle it: it had begun nothing
        if code and not is_ending():
            _LOGGER.error("process %d died: %d", child, code)
        if code and not is_ending() and time.monotonic() - replaced[0] > 60:
            replaced = [*replaced[1:], time.monotonic()]
            replace(seat)
        else:
            worst = max(worst, abs(code))
    return worst
