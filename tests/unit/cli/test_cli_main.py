from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from shoal.cli import main
from shoal.cli.verbs import app
from shoal.errors import InternalError, ShoalError

VERBS = ("demo", "query", "explain", "budget", "init", "audit")
GROUPS = {
    "risk": ("scan", "join", "check"),
    "attack": ("differencing", "reconstruction", "averaging"),
    "local": ("question", "estimate", "client"),
}


def test_without_a_verb_the_help_is_shown_and_nothing_else(shoal):
    done = shoal()
    for verb in (*VERBS, *GROUPS):
        assert verb in done.out
    assert done.err == ""
    assert shoal("risk").err == ""


def every_verb(command, path: tuple[str, ...] = ()):
    """(words, command) of every verb, those of groups too."""
    if not hasattr(command, "commands"):
        yield path, command
        return
    for name, inner in command.commands.items():
        yield from every_verb(inner, (*path, name))


def test_every_verb_without_exception_has_json_and_a_help():
    verbs = list(every_verb(typer.main.get_command(app)))
    assert {("query",), ("risk", "key"), ("attack", "floating-point")} <= {path for path, _ in verbs}
    for path, command in verbs:
        assert "--json" in {option for parameter in command.params for option in parameter.opts}, path
        assert command.help, path


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
def test_wrong_usage_is_one_paragraph_with_a_code_on_stderr_and_status_2(shoal, words):
    done = shoal(*words)
    assert done.status == 2
    assert done.out == ""
    assert done.err.startswith("E_USAGE: ")
    assert "--help" in done.err
    assert "Traceback" not in done.err
    assert len(done.err.splitlines()) <= 4


@pytest.mark.parametrize(
    "words",
    [("query", "SELECT 1"), ("query", "SELECT 1", "--db", "x", "--format", "xml"), ("init",), ("no-such-verb",)],
)
def test_wrong_usage_is_an_object_for_machines(shoal, words):
    done = shoal(*words, "--json")
    assert done.status == 2
    assert json.loads(done.out)["error"]["code"] == "E_USAGE"


def test_a_key_for_sketches_can_be_made_by_machines(shoal, tmp_path):
    path = tmp_path / "owner.key"
    assert json.loads(shoal("risk", "key", str(path), "--json").out) == {"key": str(path)}
    assert path.stat().st_size > 0
    again = shoal("risk", "key", str(path), "--json")
    assert again.status == 2
    assert "code" in json.loads(again.out)["error"]


@pytest.mark.parametrize("words", [("--help",), ("attack", "differencing", "--people", "10")])
def test_a_full_disk_is_no_bug_of_ours(words):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "shoal", *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 2
    assert done.stderr == "E_USAGE: The system refused: No space left on device.\n"


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
