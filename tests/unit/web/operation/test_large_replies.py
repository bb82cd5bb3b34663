"""Large answers: the same bytes a few rows at a time, little memory, few at once."""

from __future__ import annotations

import asyncio
import io
import threading
import tracemalloc
from fractions import Fraction

import pyarrow as pa
import pytest
from starlette.responses import Response

from shoal.release import answer_bytes
from shoal.release.answer_bytes import KeptAnswer
from shoal.release.error_bars import ErrorBars
from shoal.result import Result
from shoal.web import replies
from shoal.web.operation import large

OPTIONS = {"charged": None, "replayed": True, "remaining": None}


def answer(rows: int) -> Result:
    number = range(rows)
    table = pa.table({"a": list(number), "b": [f"=x{i}" for i in number], "c": [i / 7 for i in number]})
    level = Fraction(19, 20)
    return Result(KeptAnswer(table, "p", Fraction(0), Fraction(0), level, False, (), ErrorBars(pa.table({}), {})))


@pytest.mark.parametrize("rows", [0, 1, 1000, 1003])
@pytest.mark.parametrize("level", [None, 0.9])
@pytest.mark.parametrize("kind", replies.FORMATS)
def test_in_pieces_are_the_same_bytes_and_headers(monkeypatch, rows, level, kind):
    monkeypatch.setattr(answer_bytes, "PART_CELLS", 300)
    said = kind, f"a_{rows}", "d", answer(rows), b"stored"
    whole, body = replies.answer_reply(*said, level=level, **OPTIONS), io.BytesIO()
    head = replies.answer_reply(*said, level=level, into=body, **OPTIONS)
    head.headers["content-length"] = str(len(body.getvalue()))
    assert (body.getvalue(), head.raw_headers) == (whole.body, whole.raw_headers)


@pytest.mark.parametrize("kind", [replies.JSON, replies.CSV])
def test_a_large_answer_is_written_with_little_memory(tmp_path, kind):
    result = answer(100_000)
    with (tmp_path / "body").open("wb") as body:
        tracemalloc.start()
        replies.answer_reply(kind, "a_", "d", result, b"", level=0.9, into=body, **OPTIONS)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 32 * 2**20


def test_a_large_answer_is_the_same_reply_and_is_refused_without_a_place(served, ann, monkeypatch):
    sql = "SELECT town, site FROM sites"
    stored = ann.post("/v1/datasets/visits/query", json={"sql": sql}).json()["answer"]
    small = ann.get(f"/v1/answers/{stored}")
    monkeypatch.setattr(replies, "MANY_CELLS", 1)
    again = ann.get(f"/v1/answers/{stored}")
    assert (again.content, dict(again.headers) | {"date": ""}) == (small.content, dict(small.headers) | {"date": ""})
    monkeypatch.setattr(large, "OPEN_AT_ONCE", 0)
    monkeypatch.setattr(large, "MOST_WAITING", 0)
    refused = ann.get(f"/v1/answers/{stored}")
    assert (refused.status_code, refused.json()["error"]["code"], refused.headers["Retry-After"]) == (
        429,
        "E_RATE",
        "1",
    )
    replayed = ann.post("/v1/datasets/visits/query", json={"sql": sql})
    assert replayed.status_code == 429
    assert ann.get("/v1/me").status_code == 200


class Reader:
    """Somebody who reads a reply, and leaves after some pieces."""

    def __init__(self, leaves_after: int | None = None) -> None:
        self.leaves_after, self.pieces, self.looked = leaves_after, [], 0

    async def receive(self):
        self.looked += 1
        if self.leaves_after is None or len(self.pieces) < self.leaves_after:
            await asyncio.Event().wait()
        return {"type": "http.disconnect"}

    async def send(self, message):
        if message["type"] == "http.response.body" and message["body"]:
            self.pieces.append(message["body"])


def many_pieces(into):
    into.write(bytes(200 * large.PIECE + 1))
    return Response(b"", 200, {}, "text/csv")


@pytest.mark.anyio
async def test_whoever_reads_is_seldom_looked_at_and_whoever_left_gets_little_more():
    places, stays, leaves = large.Places(), Reader(), Reader(leaves_after=10)
    for reader in (stays, leaves):
        await large.LargeReply(places, "ann", many_pieces)({}, reader.receive, reader.send)
    assert sum(map(len, stays.pieces)) == 200 * large.PIECE + 1
    assert 1 < stays.looked <= 6
    assert 10 <= len(leaves.pieces) <= 10 + large.PIECES_BETWEEN_LOOKS


@pytest.mark.anyio
async def test_large_answers_are_made_in_few_threads():
    places, made = large.Places(), set()

    def make(into):
        made.add(threading.get_ident())
        return many_pieces(into)

    readers = [Reader() for _ in range(8)]
    replies_of = [large.LargeReply(places, f"person{n}", make) for n in range(8)]
    await asyncio.gather(*(r({}, each.receive, each.send) for r, each in zip(replies_of, readers, strict=True)))
    assert all(len(each.pieces) == 201 for each in readers)
    assert len(made) <= large.MADE_AT_ONCE
