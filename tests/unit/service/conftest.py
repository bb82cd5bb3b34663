"""Services that are closed at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from service_shop import new_service, write_folder

from shoal.params import budget

if TYPE_CHECKING:
    from shoal.service.service import Service


@pytest.fixture
def folder(tmp_path):
    return write_folder(tmp_path / "data")


@pytest.fixture
def opened(tmp_path, folder):
    """Opens and starts services; all are closed at the end."""
    made: list[Service] = []

    def open_one(
        limit: tuple[float, float] = (2.0, 1e-5), *, home: str = "home", start: bool = True, **limits
    ) -> Service:
        service = new_service(tmp_path / home, folder, budget(limit), **limits)
        made.append(service)
        if start:
            service.start()
        return service

    yield open_one
    for service in made:
        service.close(5.0)


@pytest.fixture
def service(opened):
    return opened()
