"""Work off the event loop, and waiting for jobs on it."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from shoal.service import jobs

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request

    from shoal.service.jobs import Job
    from shoal.service.people import Caller
    from shoal.service.service import Service

T = TypeVar("T")
THREADS = 64
LOOK_AGAIN_SECONDS = 0.5
"""The job may run on another machine; processes on this one ring (`service/runners/bells.py`)."""
_POOL = ThreadPoolExecutor(THREADS, thread_name_prefix="shoal-http")


async def call(function: Callable[..., T], *args: Any, **options: Any) -> T:
    """A method of the service, in a thread."""
    return await asyncio.get_running_loop().run_in_executor(_POOL, partial(function, *args, **options))


def service_of(request: Request) -> Service:
    """The service of the application."""
    return request.app.state.service  # type: ignore[no-any-return]


def caller_of(request: Request) -> Caller:
    """The caller who passed the gate."""
    return request.state.caller  # type: ignore[no-any-return]


async def ended(service: Service, caller: Caller, identifier: str, seconds: float) -> Job:
    """The job once it has ended, is waiting for approval, or the time has passed; waiting costs no thread."""
    return (await answered(service, caller, lambda _: service.job(caller, identifier), seconds))[0]


def _nothing(_: Job) -> None:
    """Nothing is made of an answer."""


async def answered(
    service: Service,
    caller: Caller,
    ask: Callable[[str], Job],
    seconds: float,
    reply: Callable[[Job], T | None] = _nothing,
    prompt: Callable[[Job], T | None] = _nothing,
) -> tuple[Job, T | None]:
    """The same for a job that is asked for, under the id that it gets if it is new, and what is made of its answer.

    `prompt` makes it without a thread, if it can, of a job that ended in this process; `reply` in the thread that finds it there.
    """
    loop, told = asyncio.get_running_loop(), asyncio.Event()
    ends = time.monotonic() + seconds
    here: list[Job] = []

    def tell(job: Job | None) -> None:
        if job is not None:
            here.append(job)
        loop.call_soon_threadsafe(told.set)

    def looked(job: Job) -> tuple[Job, T | None]:
        return job, reply(job) if job.state == "answered" else None

    def first() -> tuple[Job, T | None]:
        new = jobs.new_id()
        listening.begin(service, new)
        job = ask(new)
        if job.id != new and not is_final(job):
            listening.begin(service, job.id)
            job = service.job(caller, job.id)  # it may have ended before anybody listened
        return looked(job)

    def is_final(job: Job) -> bool:
        return job.ended or job.state == "approval" or time.monotonic() >= ends or service.ending

    with _Listening(tell) as listening:
        job, found = await call(first)
        while not is_final(job):
            with suppress(TimeoutError):
                await asyncio.wait_for(told.wait(), min(max(0.0, ends - time.monotonic()), LOOK_AGAIN_SECONDS))
            told.clear()
            if here:
                job = here.pop()
                found = prompt(job)
                job, found = (job, found) if found is not None else await call(looked, job)
            else:
                job, found = await call(lambda identifier: looked(service.job(caller, identifier)), job.id)
        return job, found


class _Listening:
    """A subscription that begins in a thread, and ends with the request, even if that ends first."""

    def __init__(self, tell: Callable[[Job | None], None]) -> None:
        self._tell = tell
        self._lock = threading.Lock()
        self._open = ExitStack()
        self._is_over = False

    def begin(self, service: Service, identifier: str) -> None:
        """From now on, whoever waits is told."""
        with self._lock:
            if not self._is_over:
                self._open.enter_context(service.listening(identifier, self._tell))

    def __enter__(self) -> _Listening:  # noqa: PYI034 - not subclassed
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._is_over = True
            self._open.close()
