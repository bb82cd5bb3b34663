"""Services that are closed at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from service_shop import emptied, new_database, new_service, write_folder

from shoal.params import budget

if TYPE_CHECKING:
    from shoal.service.service import Service


@pytest.fixture
def folder(tmp_path):
    return write_folder(tmp_path / "data")


@pytest.fixture(scope="session")
def service_database(postgres_server):
    return new_database(postgres_server[0])


@pytest.fixture(params=["file", "postgresql"])
def place(request, tmp_path):
    """Where a service can be made: a folder, or a database of its own."""
    if request.param == "file":
        return tmp_path / "home"
    return emptied(request.getfixturevalue("service_database"))


@pytest.fixture
def opened(place, folder):
    """Opens and starts services; all are closed at the end."""
    made: list[Service] = []

    def open_one(limit: tuple[float, float] = (2.0, 1e-5), *, start: bool = True, **limits) -> Service:
        service = new_service(place, folder, budget(limit), **limits)
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
