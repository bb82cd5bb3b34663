"""A service that listens on a free port, for several suites."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

import httpx

sys.path.insert(0, str(Path(__file__).parent.parent / "service"))
from service_shop import counting, new_service, write_folder

from shoal.params import budget
from shoal.service.service import OPERATOR
from shoal.web.server import Place, Server, bound_socket, configuration

__all__ = ["Served", "counting", "write_folder"]


class Served:
    """A service that listens."""

    def __init__(self, folder: Path, limit: tuple[float, float] = (50.0, 1e-3), **limits: object) -> None:
        self.service = new_service(folder / "home", write_folder(folder / "data"), budget(limit), **limits)
        self.service.start()
        listening = bound_socket("127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        self._server = Server(configuration(self.service, Place(port=0)))
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [listening]}, daemon=True)
        self._thread.start()
        while not self._server.started:
            time.sleep(0.01)
        self._tokens: dict[str, str] = {}

    def token(self, name: str) -> str:
        if name not in self._tokens:
            self._tokens[name] = self.service.create_token(OPERATOR, name)["token"]
        return self._tokens[name]

    def client(self, name: str | None) -> httpx.Client:
        headers = {} if name is None else {"Authorization": f"Bearer {self.token(name)}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=300)

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join(10)
        self.service.close(5)
