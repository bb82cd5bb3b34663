"""A socket, signals, and the requested number of processes.

SIGTERM: no new work (503), running queries get thirty seconds, waiting ones stay in the store, exit 0; a second one ends at once.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import socket
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import uvicorn

from shoal.errors import ShoalError
from shoal.frozen import dataclass
from shoal.service.runners import nursery
from shoal.service.runners.bells import Bell, bells
from shoal.service.service import Limits, Service
from shoal.web.app import LOOPBACK, application
from shoal.web.gate import REQUEST_SECONDS
from shoal.web.operation import certificates, process_log
from shoal.web.operation.arrivals import PromptProtocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from shoal.web.operation.proxy import Proxy

LAST_REPLIES_SECONDS = 5
REPLACED_A_MINUTE = 10
TAKE_OVER_SECONDS = 1.0
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
        if self.workers > 1 and self.flight_port == 0:
            raise ShoalError("E_USAGE", "Several processes share one --flight-port: name it.")

    @property
    def known_hosts(self) -> frozenset[str]:
        """The host names under which requests are accepted; others may be a rebound name of another site."""
        public = urlsplit(self.public_url).hostname if self.public_url else None
        return frozenset({*LOOPBACK, self.host, *self.hosts, *([public] if public else [])})

    def url(self, port: int) -> str:
        """Where a browser finds it."""
        scheme = "http" if self.certificate is None else "https"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return self.public_url or f"{scheme}://{host}:{port}"


class Server(uvicorn.Server):
    """Leaves signals to us: uvicorn raises them again after its shutdown, and the exit status would not be 0."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """None are captured."""
        yield


def serve(home: Path | str, limits: Limits, place: Place, ready: Callable[[str, int, str | None], None]) -> int:
    """Serves until a signal; `ready` gets the URL and the process once requests are accepted. Returns the exit status."""
    process_log.start()
    listening = bound_socket(place)
    if place.workers == 1:
        return _serve_here(home, limits, place, listening, ready, Bell())
    return _serve_in_children(home, limits, place, listening, ready)


def bound_socket(place: Place) -> socket.socket:
    """Made with IPPROTO_TCP: without it asyncio leaves Nagle's algorithm on, and every small reply waits 40 ms."""
    family = socket.AF_INET6 if ":" in place.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((place.host, place.port))
    except OSError as error:
        raise ShoalError(
            "E_USAGE", f"The port {place.port} of {place.host} cannot be listened on: {error.strerror}."
        ) from None
    listening.listen(1024)
    return listening


def _serve_here(
    home: Path | str,
    limits: Limits,
    place: Place,
    listening: socket.socket,
    ready: Callable[[str, int, str | None], None],
    bell: Bell,
) -> int:
    service = Service.open(home, limits, bell=bell)
    service.start()
    doorway = Doorway(service, place)
    server = Server(configuration(service, place))
    _end_on_signals(service, server)
    _reload_on_signal(server, place, doorway)
    announced = threading.Thread(target=_announce, args=(server, place, listening, doorway.address, ready), daemon=True)
    announced.start()
    _LOGGER.info("serving")
    gc.freeze()  # what is loaded stays: a search for cycles need not look at it
    server.run(sockets=[listening])
    _LOGGER.info("ended")
    doorway.close()
    return 0 if service.close(0.0) else 1


class Doorway:
    """Flight SQL, if a port was given. One of several processes has it, and another takes over when that one is gone."""

    def __init__(self, service: Service, place: Place) -> None:
        self._service, self._place = service, place
        self._door: Any = None
        self._lock = threading.Lock()
        self._closed = False
        if place.flight_port is None:
            return
        if place.workers > 1:
            threading.Thread(target=self._take_over, name="shoal-flight-port", daemon=True).start()
        elif not _is_free(place.host, place.flight_port):
            raise ShoalError("E_USAGE", f"The port {place.flight_port} of {place.host} cannot be listened on.")
        else:
            self._open(place.flight_port)

    @property
    def address(self) -> str | None:
        """Where other programs find it."""
        if self._place.flight_port is None:
            return None
        return self._location(self._place.flight_port if self._door is None else self._door.port)

    def _location(self, port: int) -> str:
        host = f"[{self._place.host}]" if ":" in self._place.host else self._place.host
        return f"{'grpc' if self._place.certificate is None else 'grpc+tls'}://{host}:{port}"

    def _open(self, port: int) -> None:
        from shoal.web.flight_sql.door import Door

        certificate, key = self._place.certificate, self._place.key
        tls = None if certificate is None or key is None else (Path(certificate).read_bytes(), Path(key).read_bytes())
        self._door = Door(self._service, self._location(port), tls)

    def _take_over(self) -> None:
        port = self._place.flight_port or 0
        while not self._closed:
            with self._lock:
                if self._door is None and not self._closed and _is_free(self._place.host, port):
                    with suppress(Exception):  # another process was faster
                        self._open(port)
            time.sleep(TAKE_OVER_SECONDS)

    def open_anew(self) -> None:
        """A door with the current certificate. Calls through the old one are answered first; two cannot share a port."""
        with self._lock:
            if self._door is not None and self._place.certificate is not None:
                port = self._door.port
                self._door.shutdown()
                self._open(port)

    def close(self) -> None:
        """No new calls."""
        with self._lock:
            self._closed = True
            if self._door is not None:
                self._door.shutdown()


def _is_free(host: str, port: int) -> bool:
    """Whether a port is free to listen on; gRPC reports a taken one in its own way, and on standard error."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with suppress(OSError):
            probe.bind((host, port))
            return True
    return False


def configuration(service: Service, place: Place) -> Any:
    """How uvicorn serves it: h11, no access log, no server name."""
    return uvicorn.Config(
        application(service, place.known_hosts, secure=place.url(place.port).startswith("https:"), proxy=place.proxy),
        http=PromptProtocol,
        loop="asyncio",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
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
        service.close()
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
            try:
                doorway.open_anew()
            except Exception:  # noqa: BLE001 - whatever it is, HTTP goes on
                _LOGGER.error("Flight SQL keeps the old certificate")  # noqa: TRY400 - the files are no secret, keys are

    if hasattr(signal, "SIGHUP"):
        # In a thread: a door closes when its last call is answered, and HTTP requests do not wait for that.
        signal.signal(signal.SIGHUP, lambda *_: threading.Thread(target=reload, daemon=True).start())


def _serve_in_children(
    home: Path | str,
    limits: Limits,
    place: Place,
    listening: socket.socket,
    ready: Callable[[str, int, str | None], None],
) -> int:
    """The same socket in several processes, forked before any thread or data set exists. One that dies is replaced."""
    nursery.start()  # one for all of them
    seats = bells(place.workers)
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
                os._exit(_serve_here(home, limits, place, listening, told, seats[seat]))
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
    return _watch(children, lambda: ending, lambda seat: fork(seat, lambda *_: None))


def _watch(children: dict[int, int], is_ending: Callable[[], bool], replace: Callable[[int], None]) -> int:
    """Waits for all children; one that was killed is replaced, a few times a minute at most. The worst exit status."""
    worst, replaced = 0, [0.0] * REPLACED_A_MINUTE
    while children:
        child, status = os.wait()
        seat = children.pop(child, None)
        if seat is None:
            continue  # the nursery: whoever needs it next starts another
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
