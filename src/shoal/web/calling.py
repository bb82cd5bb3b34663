"""Work off the event loop, and waiting for jobs on it."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

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
    loop, told = asyncio.get_running_loop(), asyncio.Event()
    ends = time.monotonic() + seconds

    def tell() -> None:
        loop.call_soon_threadsafe(told.set)

    with service.listening(identifier, tell):
        while True:
            job = await call(service.job, caller, identifier)
            left = ends - time.monotonic()
            if job.ended or job.state == "approval" or left <= 0 or service.ending:
                return job
            told.clear()
            try:
                await asyncio.wait_for(told.wait(), min(left, LOOK_AGAIN_SECONDS))
            except TimeoutError:
                continue
