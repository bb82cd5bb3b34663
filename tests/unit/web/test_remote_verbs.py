"""`shoal query|explain|budget --db https://host/d/NAME`: the verbs of today, elsewhere."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner
from web_server import counting

from shoal.cli.verbs import app

RUNNER = CliRunner()


@pytest.fixture
def where(served, tmp_path):
    (tmp_path / "token").write_text(served.token("ann") + "\n")
    return ["--db", f"{served.url}/d/visits", "--token-file", str(tmp_path / "token")]


def printed(*words):
    run = RUNNER.invoke(app, list(words), catch_exceptions=False)
    assert run.exit_code == 0, run.output
    return run.stdout


def test_query_explain_and_budget_of_a_service(where):
    explained = json.loads(printed("explain", counting(0.1, "by_verb"), *where, "--json"))
    assert (explained["epsilon"], explained["affordable"]) == (0.1, True)
    answer = json.loads(printed("query", counting(0.1, "by_verb"), *where, "--epsilon", "0.2", "--json"))
    assert (answer["epsilon"], len(answer["rows"])) == (0.2, 1)
    spent = json.loads(printed("budget", *where, "--json"))
    assert spent["entries"][-1]["epsilon"] == 0.2
    assert "ε = 0.2  answered" in printed("budget", *where)


def test_options_that_are_the_services_own_are_refused(where, tmp_path):
    for words in (
        ["query", "SELECT 1", *where, "--ledger", "x.db"],
        ["query", "SELECT 1", "--db", str(tmp_path), *where[2:]],
        ["query", "SELECT 1", *where[:2], "--token-file", str(tmp_path / "none")],
        ["budget", *where, "--ledger", "x.db"],
        ["budget"],
    ):
        assert RUNNER.invoke(app, words).exit_code != 0


def test_a_remote_session_takes_parameters(served):
    import shoal

    sql = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 0.1) COUNT(DISTINCT uid) AS n FROM visits WHERE site = ?"
    with shoal.connect(f"{served.url}/d/visits", token=served.token("ann")) as session:
        assert session.query(sql, ["s1"], epsilon=0.15).epsilon == 0.15
        assert session.explain(sql, ["s1"]).to_dict()["epsilon"] == 0.1


def test_check_counts_one_charge_as_one(tmp_path):
    from shoal.cli.serving.upkeep import _counted

    assert [_counted(n, "charge") for n in (0, 1, 2)] == ["0 charges", "1 charge", "2 charges"]
    RUNNER.invoke(app, ["service", "init", "--home", str(tmp_path / "home")], catch_exceptions=False)
    assert "0 charges are right, and agree." in printed("service", "check", "--home", str(tmp_path / "home"))
