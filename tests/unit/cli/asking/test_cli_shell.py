from __future__ import annotations

import io
import json

import pytest

from shoal.cli.asking.shell import _keep_history, _split, history_file
from shoal.cli.query import format_of

pytestmark = pytest.mark.usefixtures("in_shop")
PRIVATE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6)"


def test_tables_are_listed_and_described_for_nothing(shoal):
    done = shoal("tables", "--db", "data/")
    assert done.status == 0, done.err
    assert "visits" in done.out
    described = shoal("tables", "visits", "--db", "data/", "--json")
    assert "uid" in {row["column"] for row in json.loads(described.out)}
    assert shoal("tables", "nothing", "--db", "data/").status == 2


def test_a_shell_says_what_a_query_costs_and_what_is_left(shoal, monkeypatch):
    assert shoal("budget", "--ledger", "shell.db", "--create", "3,1e-5").status == 0
    lines = f"SHOW TABLES;\n{PRIVATE} COUNT(*) AS n\n FROM visits; SELECT uid FROM visits;\nexit\nSELECT 1;\n"
    monkeypatch.setattr("sys.stdin", io.StringIO(lines))
    done = shoal("shell", "--db", "data/", "--ledger", "shell.db")
    assert done.status == 0, done.err
    assert done.out.index("costs ε = 1") < done.out.index("left: ε = 2")
    assert done.err.count("E_") == 1
    assert "spent" not in done.out


def test_a_shell_knows_the_words_of_others(shoal, monkeypatch):
    monkeypatch.setattr(
        "sys.stdin", io.StringIO(".tables\nhelp\n.schema visits\n\\d regions;\n.quit\nSELECT uid FROM visits;\n")
    )
    done = shoal("shell", "--db", "data/")
    assert (done.status, done.err) == (0, "")
    assert done.out.index("customers") < done.out.index("A query ends with a semicolon") < done.out.index("bounds")
    assert done.out.count("bounds") == 2


def test_a_file_that_is_no_text_is_refused_before_anything_is_spent(shoal, in_shop):
    shoal("budget", "--ledger", "x.db", "--create", "3,1e-5")
    done = shoal("query", f"{PRIVATE} COUNT(*) FROM visits", "--db", "data/", "--ledger", "x.db", "-o", "visits.xlsx")
    assert done.status == 2
    assert "Name a .csv" in done.err
    assert not (in_shop / "visits.xlsx").exists()
    assert json.loads(shoal("budget", "--ledger", "x.db", "--json").out)["entries"] == []


def test_a_shell_for_machines_prints_objects_alone(shoal, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{PRIVATE} COUNT(*) AS n FROM visits; SHOW TABLES;"))
    done = shoal("shell", "--db", "data/", "--json")
    first, end = json.JSONDecoder().raw_decode(done.out)
    assert first["epsilon"] == 1
    assert "visits" in json.dumps(json.loads(done.out[end:]))


def test_a_semicolon_inside_quotes_ends_nothing():
    assert _split("SELECT ';' AS \";\"; b") == ["SELECT ';' AS \";\"", " b"]


def test_a_query_comes_from_a_file_and_goes_to_one(shoal, in_shop):
    (in_shop / "visits.sql").write_text(f"{PRIVATE} COUNT(*) AS n FROM visits\n", encoding="utf-8")
    shoal("budget", "--ledger", "l.db", "--create", "3,1e-5")
    done = shoal("query", "--file", "visits.sql", "--db", "data/", "-o", "visits.csv", "--ledger", "l.db")
    assert done.status == 0, done.err
    noted = json.loads(shoal("budget", "--ledger", "l.db", "--json").out)["entries"][0]["query"]
    assert noted == f"{PRIVATE} COUNT(*) AS n FROM visits"
    assert (in_shop / "visits.csv").read_text(encoding="utf-8").startswith('"n"')
    for wrong in (("query", "--db", "data/"), ("query", "SELECT 1", "--file", "visits.sql", "--db", "data/")):
        assert shoal(*wrong).status == 2
    assert shoal("query", "--file", "gone.sql", "--db", "data/").status == 2


def test_an_epsilon_of_the_command_line_replaces_that_of_the_query(shoal):
    done = shoal("query", f"{PRIVATE} COUNT(*) AS n FROM visits", "--db", "data/", "--epsilon", "0.25", "--json")
    assert done.status == 0, done.err
    assert json.loads(done.out)["epsilon"] == 0.25


def test_what_is_left_is_said_beside_the_answer(shoal):
    assert shoal("budget", "--ledger", "left.db", "--create", "3,1e-5").status == 0
    done = shoal("query", f"{PRIVATE} COUNT(*) AS n FROM visits", "--db", "data/", "--ledger", "left.db")
    assert "left: ε = 2" in done.err


@pytest.mark.parametrize(
    ("name", "expected"), [("a.csv", "csv"), ("a.PARQUET", "parquet"), ("a.txt", None), (None, None)]
)
def test_the_end_of_a_name_tells_the_format(in_shop, name, expected):
    assert format_of(None if name is None else in_shop / name) == expected


def test_lines_of_a_shell_are_kept_for_its_user_alone(tmp_path, monkeypatch):
    readline = pytest.importorskip("readline")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    readline.clear_history()
    readline.add_history("SELECT COUNT(*) FROM visits;")
    _keep_history()
    assert "SELECT COUNT(*)" in history_file().read_text(encoding="utf-8")
    assert history_file().stat().st_mode & 0o777 == 0o600
    readline.clear_history()
