"""A browser without a screen: cookies, forms, no script."""

from __future__ import annotations

import re
from itertools import count
from typing import TYPE_CHECKING, Any, Self

import httpx
from web_server import counting

if TYPE_CHECKING:
    from web_server import Served

NUMBER = count()


def new_question(epsilon: float = 0.1) -> str:
    """A question that nobody has asked yet."""
    return counting(epsilon, f"c{next(NUMBER)}")


class Browser(httpx.Client):
    """Signed in as somebody."""

    def __init__(self, served: Served, name: str | None) -> None:
        super().__init__(base_url=served.url, timeout=300, headers={"Origin": served.url})
        self._token = None if name is None else served.token(name)
        self.form = ""

    def __enter__(self) -> Self:
        super().__enter__()
        if self._token is not None:
            assert self.post("/login", data={"token": self._token}).status_code == 303
            self.form = re.search('name="form" value="([0-9a-f]{64})"', self.get("/help").text)[1]
        return self

    def send_form(self, path: str, **fields: Any) -> httpx.Response:
        return self.post(path, data={"form": self.form, **fields})

    def field(self, page: httpx.Response, name: str) -> str:
        return re.search(f'name="{name}" value="([^"]*)"', page.text)[1]

    def ask(self, sql: str, do: str = "pay", **more: str) -> httpx.Response:
        """Explain, then pay the price on the button; the page where it ends."""
        page = self.send_form("/d/visits/ask", sql=sql, do="explain")
        fields = {"explained": self.field(page, "explained"), "key": self.field(page, "key")} | more
        return self.send_form("/d/visits/ask", sql=sql, do=do, **fields)

    def answer(self, sql: str, do: str = "pay") -> httpx.Response:
        sent = self.ask(sql, do)
        assert sent.status_code == 303, sent.text
        return self.ended(sent.headers["Location"])

    def ended(self, job: str) -> httpx.Response:
        """The page where a job leads once it neither waits nor runs."""
        page = self.get(job, follow_redirects=True)
        while re.search('data-state="(waiting|running)"', page.text):
            page = self.get(job, follow_redirects=True)
        return page
