"""`shoal risk membership`, and owners looked up in the sketches of a scan."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from shoal import risk
from shoal.cli.tools.risk import app
from shoal.errors import ShoalError

KEY = b"a secret of the operator"


@pytest.fixture
def folder(tmp_path):
    sketch = risk.Sketch(key=KEY)
    sketch.update(["Oslo", "Riga", "Rome"], [1, 2, 3])
    names = risk.Sketch(key=KEY)
    names.update(["a", "b", "c"], [1, 2, 3])
    dataset = risk.SketchedDataset("visits", "uid", 3, {("city",): sketch, ("name",): names})
    risk.write_datasets(tmp_path / "sketches", [dataset])
    (tmp_path / "secret.key").write_bytes(KEY)
    (tmp_path / "secret.key").chmod(0o600)
    return tmp_path


def run(folder, *words):
    return CliRunner().invoke(app, ["membership", str(folder / "sketches"), *words])


def test_an_owner_is_looked_up_with_the_key(folder):
    key = ("--key", str(folder / "secret.key"), "--json")
    (there,) = json.loads(run(folder, "--owner", "1", *key).output)
    assert there["posterior"] > 0.999
    assert there["column"] is None
    (gone,) = json.loads(run(folder, "--owner", "9", "--prior", "0.9", *key).output)
    assert (gone["prior"], gone["posterior"]) == (0.9, 0.0)
    (as_text,) = json.loads(run(folder, "--owner", "1", "--text", *key).output)
    assert as_text["posterior"] == 0.0


def test_a_value_is_looked_up_in_every_column_or_in_one(folder):
    key = ("--key", str(folder / "secret.key"), "--json")
    both = json.loads(run(folder, "--owner", "1", "--value", "Oslo", *key).output)
    assert [(one["column"], one["posterior"] > 0.5) for one in both] == [("city", True), ("name", False)]
    one = run(folder, "--owner", "1", "--value", "Oslo", "--column", "city", "--key", str(folder / "secret.key"))
    assert "visits.city: 0.5 → 1" in one.output


@pytest.mark.parametrize(
    "words", [("--owner", "1"), ("--owner", "1", "--prior", "2"), ("--owner", "1", "--column", "x")]
)
def test_without_a_key_or_a_belief_or_a_column_nothing_is_told(folder, words):
    extra = () if len(words) == 2 else ("--key", str(folder / "secret.key"))
    refused = run(folder, *words, *extra).exception
    assert isinstance(refused, ShoalError)
    assert refused.code == "E_USAGE"
