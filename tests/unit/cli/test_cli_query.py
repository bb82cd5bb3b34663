from __future__ import annotations

import csv
import io
import json
import os
import pty
import re
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from shoal.accounting.accountants import Loss
from shoal.accounting.ledger import Ledger
from shoal.cli.explain import rounded_up
from shoal.params import Budget

pytestmark = pytest.mark.usefixtures("in_shop")

SITES = """SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, delta=1e-6, max_groups_contributed=3)
  site, COUNT(DISTINCT uid) AS customers FROM visits GROUP BY site ORDER BY site"""


def query(shoal, *words: str):
    return shoal("query", SITES, "--db", "data/", "--catalog", "shoal.toml", *words)


def test_a_table_is_shown_to_people(shoal):
    done = query(shoal)
    assert done.status == 0, done.err
    assert "site" in done.out
    assert "market" in done.out
    assert done.err == ""


def test_the_catalog_is_shoal_toml_unless_named(shoal):
    assert shoal("query", SITES, "--db", "data/").status == 0


def test_rows_as_json(shoal):
    rows = json.loads(query(shoal, "--format", "json").out)
    assert set(rows[0]) == {"site", "customers", "customers_low", "customers_high"}
    assert all(isinstance(row["customers"], int) for row in rows)


def test_everything_as_json(shoal):
    whole = json.loads(query(shoal, "--json").out)
    assert whole["epsilon"] == pytest.approx(1)
    assert whole["delta"] <= 1e-6
    assert set(whole["intervals"][0]) == {"site", "customers", "customers_low", "customers_high"}
    assert len(whole["rows"]) == len(whole["intervals"])


def test_rows_as_csv_with_intervals(shoal):
    rows = list(csv.DictReader(io.StringIO(query(shoal, "--format", "csv").out)))
    assert list(rows[0]) == ["site", "customers", "customers_low", "customers_high"]
    assert all(float(row["customers_low"]) <= float(row["customers"]) <= float(row["customers_high"]) for row in rows)


def test_a_parquet_file(shoal, in_shop):
    done = query(shoal, "--format", "parquet", "-o", "answer.parquet")
    assert (done.status, done.out) == (0, "")
    assert pq.read_table(in_shop / "answer.parquet").column_names == [
        *("site", "customers", "customers_low", "customers_high"),
    ]


def test_sql_from_standard_input(in_shop):
    done = subprocess.run(
        [sys.executable, "-m", "shoal", "query", "-", "--db", "data/", "--format", "csv"],
        input=SITES, text=True, capture_output=True, check=True,
    )  # fmt: skip
    assert done.stdout.startswith('"site","customers"')


def test_the_ledger_is_charged_in_the_name_of_the_user(shoal, in_shop):
    shoal("budget", "--ledger", "ledger.db", "--create", "1.5,1e-5")
    assert query(shoal, "--ledger", "ledger.db", "--user", "ada").status == 0
    (entry,) = Ledger.open(in_shop / "ledger.db").entries()
    assert (entry.user, entry.epsilon, entry.state) == ("ada", 1, "answered")


def test_a_spent_budget_refuses_with_status_2_and_says_what_would_fit(shoal, in_shop):
    shoal("budget", "--ledger", "ledger.db", "--create", "1.5,1e-5")
    query(shoal, "--ledger", "ledger.db")
    done = query(shoal, "--ledger", "ledger.db", "--json")
    assert done.status == 2
    assert done.err.startswith("E_BUDGET")
    assert "0.5" in done.err
    assert json.loads(done.out)["error"]["code"] == "E_BUDGET"
    assert len(Ledger.open(in_shop / "ledger.db").entries()) == 1


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("SELECT uid FROM visits", "E_NO_DP_CLAUSE"),
        ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=-1) COUNT(*) FROM visits", "E_OPTION_INVALID"),
        ("DROP TABLE visits", "E_STATEMENT"),
        ("SELECT (((", "E_PARSE"),
        ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1) COUNT(*) FROM nowhere", "E_UNKNOWN_TABLE"),
    ],
)
def test_a_refused_query_is_a_paragraph_on_stderr_and_status_2(shoal, sql, code):
    done = shoal("query", sql, "--db", "data/")
    assert done.status == 2
    assert done.out == ""
    assert done.err.startswith(code)
    assert "Traceback" not in done.err


def test_a_place_that_cannot_be_written_is_refused_before_anything_is_spent(shoal, in_shop):
    shoal("budget", "--ledger", "ledger.db", "--create", "3,1e-5")
    done = query(shoal, "--ledger", "ledger.db", "-o", "no-such-folder/answer.csv")
    assert done.status == 2
    assert Ledger.open(in_shop / "ledger.db").entries() == []


@pytest.mark.parametrize(
    "words",
    [
        ("--level", "2"),
        ("--level", "2", "--format", "csv"),
        ("--level", "nan", "--json"),
        ("--json", "--format", "csv"),
        ("-o", "/proc/answer.csv"),
        ("-o", "data"),
        ("-o", "data/visits.parquet/answer.csv"),
    ],
    ids=" ".join,
)
def test_wrong_words_are_refused_before_anything_is_spent(shoal, in_shop, words):
    shoal("budget", "--ledger", "ledger.db", "--create", "3,1e-5")
    done = query(shoal, "--ledger", "ledger.db", *words)
    assert done.status == 2
    assert done.err.startswith(("E_USAGE", "E_OPTION_INVALID"))
    assert Ledger.open(in_shop / "ledger.db").entries() == []


@pytest.mark.skipif(os.geteuid() == 0, reason="the administrator may write everywhere")
def test_a_folder_that_may_not_be_written_is_refused_before_anything_is_spent(shoal, in_shop):
    shoal("budget", "--ledger", "ledger.db", "--create", "3,1e-5")
    (in_shop / "closed").mkdir(mode=0o500)
    assert query(shoal, "--ledger", "ledger.db", "-o", "closed/answer.csv").status == 2
    assert Ledger.open(in_shop / "ledger.db").entries() == []


def test_a_parquet_file_on_a_terminal_is_refused_before_anything_is_spent(shoal, in_shop):
    shoal("budget", "--ledger", "ledger.db", "--create", "3,1e-5")
    ours, terminal = pty.openpty()
    command = [sys.executable, "-m", "shoal", "query", SITES, "--db", "data/", "--ledger", "ledger.db"]
    done = subprocess.run(
        [*command, "--format", "parquet"], stdout=terminal, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(ours)
    os.close(terminal)
    assert done.returncode == 2
    assert "not for a terminal" in done.stderr
    assert Ledger.open(in_shop / "ledger.db").entries() == []


def test_a_refused_query_leaves_no_file_behind_and_an_old_one_alone(shoal, in_shop):
    (in_shop / "old.csv").write_text("kept")
    for name in ("old.csv", "new.csv"):
        assert shoal("query", "SELECT uid FROM visits", "--db", "data/", "-o", name).status == 2
    assert (in_shop / "old.csv").read_text() == "kept"
    assert not (in_shop / "new.csv").exists()


def test_an_answer_that_cannot_be_written_is_no_bug_and_the_charge_is_said(in_shop):
    command = [sys.executable, "-m", "shoal", "query", SITES, "--db", "data/"]
    for words in (("--format", "csv"), ("--format", "table"), ("--json",), ("-o", "/dev/full")):
        with Path("/dev/full").open("w") as full:
            done = subprocess.run([*command, *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        assert done.returncode == 2
        assert done.stderr.startswith("E_USAGE: ")
        assert "No space left on device" in done.stderr
        assert "stays charged" in done.stderr
        assert "bug" not in done.stderr


DAYS = """SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1000, delta=1e-6, max_groups_contributed=300)
  day, COUNT(DISTINCT uid) AS customers FROM visits GROUP BY day"""


def test_the_table_has_every_row_on_the_terminal_and_in_a_file(shoal, in_shop):
    words = ("query", DAYS, "--db", "data/")
    printed = shoal(*words).out
    assert shoal(*words, "-o", "days.txt").status == 0
    for text in (printed, (in_shop / "days.txt").read_text()):
        rows = [line for line in text.splitlines() if re.match(r"\d{4}-\d{2}-\d{2} ", line)]
        assert len(rows) > 100
        assert "more rows" not in text


def test_the_level_is_that_of_the_error_bars_in_the_table(shoal):
    def width(*words: str) -> float:
        found = re.search(r"± ([\d.,]+)\n", query(shoal, *words).out)
        return float(found.group(1).replace(",", ""))

    assert width("--level", "0.5") < width() < width("--level", "0.9999")
    assert "99.99% of the time" in query(shoal, "--level", "0.9999").out


FOUND = """SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1000, delta=1e-6) SUM(SQRT(spend)) AS roots FROM visits"""


@pytest.mark.parametrize("format_", ["csv", "json", "parquet"])
def test_cost_warnings_and_notes_go_to_stderr_beside_rows_for_machines(shoal, format_):
    done = shoal("query", FOUND, "--db", "data/", "--format", format_, "-o", "answer")
    assert done.out == ""
    assert "cost: ε = 1000, δ = 0" in done.err
    assert "protects nobody" in done.err
    assert "were found privately" in done.err
    assert "note: SUM(SQRT(spend)): the sum of each owner is clamped to [" in done.err


def test_warnings_and_notes_are_in_the_object_for_machines(shoal):
    done = shoal("query", FOUND, "--db", "data/", "--json")
    warning, *notes = json.loads(done.out)["notes"]
    assert "protects nobody" in warning
    assert any("is clamped to [" in note for note in notes)


def test_an_explanation_through_query_is_whole_and_has_no_cost(shoal):
    done = shoal("query", f"EXPLAIN PRIVACY {SITES}", "--db", "data/", "--format", "csv")
    assert done.status == 0
    assert done.err == ""
    assert "…" not in shoal("query", f"EXPLAIN PRIVACY {SITES}", "--db", "data/").out


def test_a_missing_catalog_or_source_is_refused_in_a_sentence(shoal):
    assert shoal("query", SITES, "--db", "data/", "--catalog", "none.toml").err.startswith("E_CATALOG")
    assert shoal("query", SITES, "--db", "nowhere/").err.startswith("E_SOURCE")


def test_explain_reads_the_catalog_alone(shoal):
    done = shoal("explain", SITES, "--catalog", "shoal.toml")
    assert done.status == 0, done.err
    assert "ε = 1" in done.out
    assert "uid of visits" in done.out


def test_explain_for_machines(shoal):
    done = shoal("explain", SITES, "--db", "data/", "--json")
    assert isinstance(json.loads(done.out), dict)


def test_explain_finds_the_epsilon_for_a_wanted_error(shoal):
    wanted = json.loads(shoal("explain", SITES, "--error", "50", "--json").out)["epsilon_for_error"]
    narrower = json.loads(shoal("explain", SITES, "--error", "5", "--json").out)["epsilon_for_error"]
    assert 0 < wanted < narrower
    assert "needs epsilon = " in shoal("explain", SITES, "--error", "50").out


def test_the_query_is_explained_with_the_epsilon_that_was_found(shoal):
    without = SITES.replace("epsilon=1, ", "")
    assert without != SITES
    told = json.loads(shoal("explain", without, "--error", "50", "--json").out)
    assert told["epsilon"] == pytest.approx(told["epsilon_for_error"])
    assert told["selects"][0]["columns"][0]["expected_error"] <= 50


@pytest.mark.parametrize("error", ["3", "7", "50", "1234"])
def test_the_printed_epsilon_reaches_the_error(shoal, error):
    sql = SITES.replace("epsilon=1", "epsilon={}")
    said = shoal("explain", sql.format(1), "--error", error).out
    epsilon = re.search(r"needs epsilon = (\d[\d.]*)\.\n", said).group(1)
    told = json.loads(shoal("explain", sql.format(epsilon), "--json").out)
    assert told["selects"][0]["columns"][0]["expected_error"] <= float(error)


@pytest.mark.parametrize("epsilon", [1.788430889168, 0.1234561, 0.5, 1e-10, 123456.01, 999999.9])
def test_an_epsilon_is_rounded_up_and_by_little(epsilon):
    assert epsilon <= float(rounded_up(epsilon)) <= epsilon * (1 + 2e-5)


@pytest.mark.parametrize("words", [("--level", "0.9"), ("--owners", "100"), ("--error", "0"), ("--error", "nan")])
def test_words_that_would_do_nothing_are_refused(shoal, words):
    done = shoal("explain", SITES, *words)
    assert done.status == 2
    assert done.err.startswith("E_USAGE: --")


def test_hints_are_written_as_on_the_command_line(shoal):
    average = SITES.replace("COUNT(DISTINCT uid)", "AVG(spend)")
    assert "--owners 1000" in shoal("explain", average, "--error", "5").err
    assert "'--owners'" in shoal("explain", average, "--error", "5", "--owners", "0").err
    assert "--level 0.95" in query(shoal, "--level", "7").err
    assert shoal("explain", average, "--error", "5", "--owners", "1000").status == 0


def test_one_of_the_approximate_quantiles_is_that_quantile(shoal):
    quantile = SITES.replace("COUNT(DISTINCT uid)", "APPROX_QUANTILES(spend, 4)[OFFSET(2)]")
    done = shoal("query", quantile, "--db", "data/")
    assert done.status == 0, done.err


def test_a_first_answer_costs_little_processor_time(processor_seconds):
    """A guard with much room, against calibrations or imports that take seconds; the claim itself is measured elsewhere.

    `python -m benchmarks latency` holds the start of the program against its goal of one second by the clock.
    """
    assert processor_seconds("query", SITES, "--db", "data/", "--format", "csv") < 3


STOPPED = """
import os, signal, sys

# Tests that are started in the background, or by nohup, inherit signals that are ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

from shoal.cli.main import program
from shoal.engines.duckdb.engine import DuckDBEngine

number = getattr(signal, sys.argv.pop(1))

def stopped(*_):
    os.kill(os.getpid(), number)
    while True:
        pass

DuckDBEngine.totals = stopped
program()
"""


@pytest.mark.parametrize(
    ("name", "state"),
    [("SIGTERM", "cancelled"), ("SIGHUP", "cancelled"), ("SIGINT", "cancelled"), ("SIGKILL", "reserved")],
)
def test_a_query_that_is_told_to_stop_is_cancelled_and_one_that_is_killed_is_not(name, state):
    book = Ledger.create("ledger.db", Budget(Fraction(3), Fraction(0)))
    sql = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1) COUNT(DISTINCT uid) AS n FROM visits"
    words = ["query", sql, "--db", "data/", "--ledger", "ledger.db", "--user", "ada"]
    done = subprocess.run([sys.executable, "-c", STOPPED, name, *words], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert [entry.state for entry in book.entries()] == [state], done.stderr
    assert "Traceback" not in done.stderr
    if state == "cancelled":
        book.reserve(Loss(Fraction(1), Fraction(0)), user="ada")
