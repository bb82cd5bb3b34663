"""`shoal knowledge …` from the command line."""

import json

import pytest
from typer.testing import CliRunner

from shoal.cli.tools.knowledge import app
from shoal.errors import ShoalError

VERBS = (
    ("count", "--people", "200", "--uncertainty", "0.2"),
    ("count", "--people", "200", "--uncertainty", "0.2", "--known", "50", "--noise-scale", "1", "--related", "2"),
    ("histogram", "--people", "200", "--uncertainty", "0.2"),
    ("threshold", "--people", "200", "--threshold", "5", "--at-most", "0.01", "--attacker", "active", "--both-sides"),
    ("k-anonymity", "--people", "300", "--threshold", "5", "--boundary", "0.1"),
    ("repeated", "--people", "200", "--times", "2", "--uncertainty", "0.3", "--answers", "new people"),
)


def run(*words):
    return CliRunner().invoke(app, list(words))


@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_every_release_shows_assumptions_then_the_number_then_what_is_left(words):
    shown = run(*words, "--delta", "1e-3")
    assert shown.exit_code == 0, shown.output
    places = [shown.output.index(text) for text in ("only if", "independent", "ε", "knows all other answers")]
    assert places == sorted(places)


@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_every_release_speaks_json(words):
    told = json.loads(run(*words, "--epsilon", "1", "--json").output)
    assert next(iter(told)) == "assumptions"
    assert told["epsilon"] == 1


def test_what_is_required_decides_the_exit_status():
    kept = ("count", "--people", "1000", "--uncertainty", "0.1", "--require")
    assert run(*kept, "1,1e-6").exit_code == 0
    assert run(*kept, "0.1,1e-6").exit_code == 1


def test_sizes_are_told():
    assert "346" in run("people", "--epsilon", "1", "--delta", "1e-6", "--uncertainty", "0.1").output
    words = ("noise", "--people", "500", "--epsilon", "0.5", "--delta", "1e-6", "--uncertainty", "0.1", "--json")
    assert 1.9 < json.loads(run(*words).output)["noise_scale"] <= 2


def test_a_table_of_counts_marks_the_rows_that_reveal(tmp_path):
    table = tmp_path / "table.csv"
    table.write_text("name,count,people\nnorth,40,100\nsouth,0,100\nwest,50,50\n", encoding="utf-8")
    shown = run("count", "--counts", str(table), "--uncertainty", "0.1", "--delta", "1e-3")
    assert shown.output.count("REVEALS") == 2
    assert shown.output.index("only if") < shown.output.index("north")
    told = json.loads(run("count", "--counts", str(table), "--uncertainty", "0.1", "--json").output)
    assert [row["reveals"] for row in told["rows"]] == [False, True, True]
    assert run("count", "--counts", str(table), "--uncertainty", "0.1", "--require", "1,1e-6").exit_code == 1


def test_a_table_is_checked_against_a_threshold_too(tmp_path):
    table = tmp_path / "table.csv"
    table.write_text("name,count,people\nnorth,40,500\nsouth,30,800\n", encoding="utf-8")
    words = ("threshold", "--threshold", "20", "--at-most", "0.005", "--counts", str(table), "--epsilon", "1")
    shown = run(*words)
    assert shown.exit_code == 0, shown.output
    assert shown.output.count("ε = 1, δ") == 2


def test_sizes_are_required_and_drawn_like_all_else(tmp_path):
    words = ("people", "--epsilon", "1", "--delta", "1e-3", "--uncertainty", "0.2")
    assert run(*words, "--require", "1,1e-3", "--html", str(tmp_path / "page.html")).exit_code == 0
    assert run(*words, "--require", "0.1,1e-9").exit_code == 1
    assert (tmp_path / "page.html").exists()


@pytest.mark.parametrize(
    "text", ["", "name,count\na,1\n", "name,count,people\n", "name,count,people\na,x,2\n", "name,count,people\na,3,2\n"]
)
def test_a_table_that_is_none_is_refused(tmp_path, text):
    table = tmp_path / "table.csv"
    table.write_text(text, encoding="utf-8")
    refused = run("count", "--counts", str(table), "--uncertainty", "0.1").exception
    assert isinstance(refused, ShoalError)
    assert refused.code == "E_USAGE"


@pytest.mark.parametrize(
    "words",
    [
        ("count", "--uncertainty", "0.1"),
        ("count", "--people", "10", "--uncertainty", "0.1", "--epsilon", "1", "--delta", "0.1"),
        ("count", "--people", "10", "--uncertainty", "0.1", "--require", "1"),
        ("count", "--people", "10", "--probabilities", "nowhere.txt"),
        ("repeated", "--people", "10", "--times", "2", "--uncertainty", "0.1"),
        ("k-anonymity", "--people", "300", "--threshold", "5", "--boundary", "0.1", "--depends-on-data"),
    ],
)
def test_wrong_words_are_refused(words):
    refused = run(*words).exception
    assert isinstance(refused, ShoalError)
    assert refused.code == "E_USAGE"


def test_probabilities_come_from_a_file_and_pages_go_to_one(tmp_path):
    chances, page = tmp_path / "chances.txt", tmp_path / "page.html"
    chances.write_text("0.2, 0.3\n0.5\n" + "0.4\n" * 37, encoding="utf-8")
    shown = run("count", "--people", "40", "--probabilities", str(chances), "--epsilon", "1", "--html", str(page))
    assert shown.exit_code == 0, shown.output
    assert "<svg" in page.read_text(encoding="utf-8")
