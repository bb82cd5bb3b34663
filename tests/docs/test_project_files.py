"""The files that a release and its visitors rely on: citation, workflows, templates, and what the wheel is made of."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CARRIED = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]


def test_the_citation_names_the_version_and_licence_of_the_project():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == PROJECT["project"]["version"]
    assert citation["license"] == PROJECT["project"]["license"]
    assert {"cff-version", "message", "title", "authors"} <= set(citation)


@pytest.mark.parametrize("name", ["test.yml", "release.yml"])
def test_a_workflow_runs_what_everybody_runs(name):
    text = (ROOT / ".github" / "workflows" / name).read_text(encoding="utf-8")
    steps = [step for job in yaml.safe_load(text)["jobs"].values() for step in job["steps"]]
    assert "sh .ci/run" in [step.get("run") for step in steps]
    assert (ROOT / ".ci" / "run").is_file()


def test_ci_builds_the_site_and_tries_the_wheel():
    assert "&& ./run docs && ./run wheel" in (ROOT / "run").read_text(encoding="utf-8")


def test_what_fails_beside_the_tests_fails_them_too(tmp_path):
    """A function in a list of `&&` goes on after a command that failed: so the site could not fail CI once."""
    text = (ROOT / "run").read_text(encoding="utf-8")
    beside = text[text.index("tests_beside() {") : text.index("command=${1:-help}")]
    (tmp_path / ".venv").mkdir()
    for command, tests, status in (("true", "true", 0), ("false", "true", 1), ("true", "false", 1)):
        script = f"set -eu\ntests() {{ {tests}; }}\n{beside}\ntests_beside '{command} && echo well'\necho left"
        found = subprocess.run(["sh", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (found.returncode, "left" in found.stdout) == (status, status == 0)


@pytest.mark.parametrize("template", ["bug.md", "question.md"])
def test_a_template_of_an_issue_has_a_name_and_a_purpose(template):
    head = (ROOT / ".github" / "ISSUE_TEMPLATE" / template).read_text(encoding="utf-8").split("---")[1]
    assert set(yaml.safe_load(head)) == {"name", "about"}


def test_the_wheel_carries_every_folder_of_pages():
    folders = {page.relative_to(ROOT / "docs").parts[0] for page in ROOT.glob("docs/*/**/*.md")}
    assert {f"docs/{folder}" for folder in folders} | {"docs/README.md"} == set(CARRIED)
    assert all(target == f"shoal/{source}" for source, target in CARRIED.items())
