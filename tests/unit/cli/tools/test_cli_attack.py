"""`shoal attack …` from the command line."""

import json

import pytest
from typer.testing import CliRunner

from shoal.cli.tools.attack import app
from shoal.errors import ShoalError

VERBS = (
    ("differencing", "--people", "20"),
    ("averaging", "--people", "50"),
    ("reconstruction", "--people", "60"),
    ("reconstruction", "--exhaustive", "--people", "6"),
    ("membership", "--people", "20", "--attributes", "200"),
    ("floating-point", "--people", "100"),
    ("linkage", "--people", "300"),
    ("homogeneity", "--people", "300"),
    ("composition", "--people", "300"),
)


@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_every_attack_shows_what_shoal_gives_away(words):
    shown = CliRunner().invoke(app, list(words))
    assert shown.exit_code == 0, shown.output
    assert "shoal" in shown.output
    assert "guessing gets" in shown.output


@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_every_attack_speaks_json(words):
    shown = CliRunner().invoke(app, [*words, "--json"])
    result = json.loads(shown.output)
    assert {"attack", "secret", "guessing", "curves"} <= set(result)
    assert all(len(curve["queries"]) == len(curve["recovered"]) for curve in result["curves"])


def test_an_attack_is_drawn(tmp_path):
    path = tmp_path / "curves.png"
    shown = CliRunner().invoke(app, ["differencing", "--people", "20", "--plot", str(path)])
    assert shown.exit_code == 0
    assert path.stat().st_size > 5000


def test_an_attack_on_sql_is_asked_for_by_a_flag():
    shown = CliRunner().invoke(app, ["floating-point", "--people", "30", "--sql", "--json"])
    assert json.loads(shown.output)["curves"][-1]["defence"].startswith("shoal")


def test_too_many_people_for_the_exhaustive_attack_are_refused():
    shown = CliRunner().invoke(app, ["reconstruction", "--exhaustive", "--people", "40"])
    assert isinstance(shown.exception, ShoalError)


def test_every_attack_has_defaults_of_its_own_and_an_example():
    for verb, people in (("differencing", 100), ("averaging", 400), ("floating-point", 2000)):
        shown = CliRunner().invoke(app, [verb, "--help"]).output
        assert f"[default: {people}]" in shown
        assert f"shoal attack {verb}" in shown


def test_the_exhaustive_attack_takes_the_runs_it_is_given_and_no_sql():
    words = ["reconstruction", "--exhaustive", "--people", "5", "--json"]
    one = CliRunner().invoke(app, [*words, "--runs", "1"]).output
    assert one != CliRunner().invoke(app, words).output
    refused = CliRunner().invoke(app, [*words, "--sql"])
    assert isinstance(refused.exception, ShoalError)


def test_sketches_are_attacked_from_the_command_line(tmp_path):
    words = ["sketches", "--owners", "100", "--registers", "256", "--known-sketches", "2"]
    shown = CliRunner().invoke(app, words)
    assert shown.exit_code == 0, shown.output
    assert [name in shown.output for name in ("public hash", "2 sketches known", "private sketch", "guessing")] == [
        True
    ] * 4
    told = json.loads(CliRunner().invoke(app, [*words, "--json", "--plot", str(tmp_path / "bars.png")]).output)
    assert [set(one) for one in told["curators"]] == [{"curator", "accuracy", "median_posterior", "decided"}] * 4
    assert (tmp_path / "bars.png").stat().st_size > 1000
