from __future__ import annotations

import subprocess
import sys

import pytest

from shoal.cli import main
from shoal.errors import InternalError, ShoalError

VERBS = ("demo", "query", "explain", "budget", "init", "audit")
GROUPS = {"risk": ("scan", "join", "check"), "attack": ("differencing", "reconstruction", "averaging")}


def test_without_a_verb_the_help_is_shown(shoal):
    done = shoal()
    for verb in (*VERBS, *GROUPS):
        assert verb in done.out + done.err


@pytest.mark.parametrize(("group", "verb"), [(group, verb) for group, verbs in GROUPS.items() for verb in verbs])
def test_every_verb_of_a_group_has_help_with_an_example_and_json(shoal, group, verb):
    done = shoal(group, verb, "--help")
    assert done.status == 0
    assert f"shoal {group} {verb}" in done.out
    assert "--json" in done.out


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_with_an_example_and_json(shoal, verb):
    done = shoal(verb, "--help")
    assert done.status == 0
    assert "Example" in done.out
    assert f"shoal {verb}" in done.out
    assert "--json" in done.out


@pytest.mark.parametrize(
    "words", [("no-such-verb",), ("query",), ("query", "SELECT 1", "--no-such-option"), ("budget",), ("init",)]
)
def test_wrong_usage_is_one_paragraph_on_stderr_and_status_2(shoal, words):
    done = shoal(*words)
    assert done.status == 2
    assert done.out == ""
    assert "--help" in done.err
    assert "Traceback" not in done.err
    assert len(done.err.splitlines()) <= 4


def test_a_refusal_is_a_paragraph_and_for_machines_an_object(capsys):
    refusal = ShoalError("E_PARSE", "This is not SQL.", hint="Begin with SELECT.")
    assert main.refuse(refusal, ["query", "--json"]) == 2
    said = capsys.readouterr()
    assert said.err == "E_PARSE: This is not SQL.\nHint: Begin with SELECT.\n"
    assert '"code": "E_PARSE"' in said.out


@pytest.mark.parametrize(
    "bug", [InternalError("a plan was built twice"), ZeroDivisionError("secret 4711"), KeyError(7)]
)
def test_a_bug_is_said_in_one_sentence_without_data(capsys, bug):
    assert main.report(bug) == 2
    said = capsys.readouterr().err
    assert "This is a bug" in said
    assert "4711" not in said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shell_completion_can_be_had(shoal, shell, monkeypatch):
    monkeypatch.setenv("_SHOAL_COMPLETE", f"source_{shell}")
    done = shoal()
    assert done.status == 0
    assert "shoal" in done.out


def test_a_reader_that_goes_away_is_no_error():
    program = f"{sys.executable} -m shoal query --help | head -c 1"
    done = subprocess.run(["sh", "-c", program], capture_output=True, text=True, check=True)
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr
