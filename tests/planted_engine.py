"""An engine that does something else first: it fails, waits until all are there, or watches."""

from __future__ import annotations

from contextlib import contextmanager


class PlantedEngine:
    """Calls `before` just before it reads totals; for everything else it is the engine it stands for."""

    def __init__(self, engine, before) -> None:
        self._engine = engine
        self._before = before

    def totals(self, *arguments):
        self._before()
        return self._engine.totals(*arguments)

    @contextmanager
    def snapshot(self, _deadline):
        yield self

    def __getattr__(self, name):
        return getattr(self._engine, name)
