"""`shoal query|explain|budget --db https://host/d/NAME`: the verbs of today, elsewhere."""

from __future__ import annotations

import json
from fractions import Fraction

import pyarrow as pa
import pytest
from pyarrow import parquet
from typer.testing import CliRunner
from web_server import counting

from shoal.accounting.accountants import Loss
from shoal.accounting.ledger import Ledger
from shoal.cli.verbs import app
from shoal.errors import ShoalError
from shoal.service.allowances import Grant
from shoal.service.service import OPERATOR

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
    assert " of ε = " in printed("budget", *where)


def test_options_that_are_the_services_own_are_refused(where, tmp_path):
    for words in (
        ["query", "SELECT 1", *where, "--ledger", "x.db"],
        ["query", "SELECT 1", "--db", str(tmp_path), *where[2:]],
        ["query", "SELECT 1", *where[:2], "--token-file", str(tmp_path / "none")],
        ["budget", *where, "--ledger", "x.db"],
        ["budget"],
    ):
        assert RUNNER.invoke(app, words).exit_code != 0


def test_tables_and_the_shell_take_a_token_file(where):
    assert "visits" in printed("tables", *where)
    asked = RUNNER.invoke(
        app, ["shell", *where], input="SHOW TABLES;" + 2 * f"{counting(0.1, 'by_shell')};", catch_exceptions=False
    )
    assert "visits" in asked.stdout
    assert asked.stdout.count("costs ε = 0.1, δ = 0") == 1
    assert asked.stdout.count("costs nothing: it is released already") == 1


@pytest.mark.parametrize(
    ("words", "said", "hint"),
    [
        (["tune", "SELECT 1", "--db"], "is tuned on its page Tune", "http://host/d/visits/tune as a custodian"),
        (["init"], "needs the data itself", "runs where the data is"),
        (["risk", "scan"], "needs the data itself", "query, shell, explain, tables and budget"),
    ],
)
def test_verbs_that_look_at_data_say_what_asks_a_service(words, said, hint):
    with pytest.raises(ShoalError) as refused:
        RUNNER.invoke(app, [*words, "http://host/d/visits"], catch_exceptions=False)
    assert said in refused.value.message
    assert hint in refused.value.hint


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


def test_whoever_lifts_a_suspension_of_a_service_sees_the_statement(tmp_path):
    (tmp_path / "data").mkdir()
    parquet.write_table(pa.table({"uid": [1, 2, 3]}), tmp_path / "data" / "visits.parquet")
    (tmp_path / "shoal.toml").write_text('[tables.visits]\nowner = "uid"\n')
    home = ["--home", str(tmp_path / "home")]
    place = [str(tmp_path / "data"), "--catalog", str(tmp_path / "shoal.toml"), "--budget", "3,0"]
    printed("service", "init", *home)
    printed("service", "dataset", "add", "visits", *place, *home)
    book = Ledger.open(tmp_path / "home" / "ledgers" / "visits.db")
    book.reserve(Loss(Fraction(1, 4), Fraction(0)), user="ann", description="SELECT 1").fail()
    words = ["service", "lift", "visits", "ann", "--because", "a full disk", *home]
    run = RUNNER.invoke(app, words, catch_exceptions=False)
    assert "by entry 1:\nSELECT 1\n" in run.stderr
    assert run.stdout == "ann may ask visits again.\n"
    assert not book.is_suspended("ann")


def test_a_question_that_needs_approval_says_so_and_can_be_left(served):
    import shoal
    from shoal.remote import ApprovalWarning

    served.service.allow(OPERATOR, Grant("visits", "bob", approve_above=Fraction(1)))
    with shoal.connect(f"{served.url}/d/visits", token=served.token("bob")) as session:
        with pytest.warns(ApprovalWarning, match="as job j_") as told, pytest.raises(shoal.ShoalError, match="E_BUSY"):
            session.query(counting(2, "left"), timeout=0.5)
        job = session.job(str(told[0].message).partition("as job ")[2].partition(".")[0])
        assert job.state == "approval"
        job.cancel()


def test_the_command_line_says_in_a_sentence_that_a_question_waits_for_approval(served, tmp_path, monkeypatch):
    from shoal.remote import session as remote

    def stops_waiting(job, timeout=None):
        job.cancel()
        raise ShoalError("E_CANCELLED", "It was left.")

    monkeypatch.setattr(remote.Job, "result", stops_waiting)
    served.service.allow(OPERATOR, Grant("visits", "bob", approve_above=Fraction(1)))
    (tmp_path / "token").write_text(served.token("bob"))
    where = ["--db", f"{served.url}/d/visits", "--token-file", str(tmp_path / "token")]
    run = RUNNER.invoke(app, ["query", counting(2, "told"), *where])
    assert run.stderr.startswith("This question waits for a custodian's approval, as job j_")
