"""Notebooks: what a real kernel shows, where ipykernel is installed; the magic itself anywhere."""

from __future__ import annotations

import sys

import pytest

import shoal

SESSION = """
import pyarrow as pa, shoal
tables = {"visits": pa.table({"uid": list(range(200)), "site": ["a", "b"] * 100})}
catalog = {"tables": {"visits": {"owner": "uid"}}, "defaults": {"epsilon": 1.0, "delta": 1e-6}}
session = shoal.connect(tables, catalog=catalog, budget=(10, 1e-4))
session
"""
CELLS = (
    SESSION,
    'session.query("SELECT site, COUNT(*) FROM visits GROUP BY site")',
    'session.query("SELECT uid FROM visits")',
    "session.ledger",
    "%load_ext shoal",
    "%%shoal -o total\nSELECT COUNT(*) AS n FROM visits",
    "type(total).__name__",
    "%%shoal nobody\nSELECT 1",
    "%shoal --epsilon 0.5 SELECT COUNT(*) AS n FROM visits",
    'session.query("SELECT COUNT(*) AS n FROM visits").plot()',
)


class Shell:
    """As much of IPython as the magic needs."""

    def __init__(self):
        self.user_ns = {}

    def register_magic_function(self, function, kind, name):
        assert (kind, name) == ("line_cell", "shoal")
        self.magic = function


@pytest.fixture
def shell():
    found = Shell()
    shoal.load_ipython_extension(found)
    exec(SESSION.rsplit("\n", 2)[0], found.user_ns)  # noqa: S102 - the text above
    return found


def test_a_cell_asks_the_only_session_and_keeps_the_answer(shell):
    answer = shell.magic("-o total", "SELECT COUNT(*) AS n FROM visits")
    assert shell.user_ns["total"] is answer
    assert shell.magic("session", "SHOW TABLES").to_dicts()[0]["table"] == "visits"


def test_a_line_asks_as_well_and_says_what_to_spend(shell):
    before = shell.user_ns["session"].spent[0]
    assert shell.magic("SELECT COUNT(*) AS n FROM visits").columns == ["n"]
    shell.magic("session --epsilon 0.5 SELECT COUNT(*) AS m FROM visits")
    assert shell.user_ns["session"].spent[0] - before == pytest.approx(1.5)
    assert shell.magic("session SELECT 'a  b' AS text")["text"] == ["a  b"]


@pytest.mark.parametrize(
    "line", ["nobody", "session other", "-o", "-o 1", "--epsilon", "session --epsilon much", "session --epsilon 0.5 -o"]
)
def test_a_line_that_names_no_session_is_refused(shell, line):
    with pytest.raises(shoal.ShoalError) as refused:
        shell.magic(line, "SELECT 1")
    assert refused.value.code == "E_USAGE"


def test_sessions_and_ledgers_say_what_they_are(shell):
    session = shell.user_ns["session"]
    assert repr(session) == "<shoal session over DuckDB: visits; ε = 0 spent, ε = 10, δ = 0.0001 left>"
    assert "spent of a budget of ε = 10" in repr(session.ledger)


def test_a_refusal_is_a_few_lines():
    lines = shoal.ShoalError("E_PARSE", "This is no query.", hint="Write SELECT.")._render_traceback_()
    assert lines == ["E_PARSE: This is no query.", "Hint: Write SELECT."]


@pytest.mark.slow
def test_a_real_kernel_connects_asks_and_shows():
    reason = "there is no notebook kernel here (./run test --all installs one)"
    nbformat, nbclient, _ = (pytest.importorskip(name, reason=reason) for name in ("nbformat", "nbclient", "ipykernel"))
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    book.metadata.kernelspec = {"name": "python3", "display_name": sys.executable}
    nbclient.NotebookClient(book, timeout=300, allow_errors=True).execute()
    shown = [[dict(output) for output in cell.outputs] for cell in book.cells]
    assert "200" not in shown[0][0]["data"]["text/plain"]
    assert "text/html" in shown[1][0]["data"]
    assert len(shown[2][0]["traceback"]) <= 5
    assert "spent of a budget" in shown[3][0]["data"]["text/plain"]
    assert shown[6][0]["data"]["text/plain"] == "'Result'"
    assert shown[7][0]["ename"] == "ShoalError"
    assert shown[8][0]["data"]["text/plain"].startswith(" ")
    assert "image/png" in shown[9][0]["data"]
