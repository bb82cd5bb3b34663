"""`shoal anonymity`, word by word."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest

from shoal.cli.main import run

PEOPLE = pa.table(
    {
        "uid": [1, 2, 3, 4, 5, 6],
        "zip": [4217, 4217, 4219, 1742, 1742, 1691],
        "age": [34, 34, 39, 75, 75, 77],
        "dx": ["flu", "cold", "flu", "flu", "cold", "secret"],
    }
)


@pytest.fixture
def people(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pa_csv.write_csv(PEOPLE, tmp_path / "people.csv")
    return tmp_path


def shoal(capsys, *words):
    """Exit status, standard output, standard error."""
    with pytest.raises(SystemExit) as left:
        run(["anonymity", *words])
    told = capsys.readouterr()
    return left.value.code, told.out, told.err


def test_measure_prints_numbers_json_and_a_page(people, capsys):
    words = ["measure", "people.csv", "--quasi", "zip,age", "--sensitive", "dx", "--owner", "uid"]
    status, out, _ = shoal(capsys, *words, "--distance", "dx=ordered", "--html", "page.html")
    assert status == 0
    assert "prosecutor risk" in out
    assert "secret" not in (people / "page.html").read_text(encoding="utf-8")
    status, out, _ = shoal(capsys, *words, "--sampling", "0.1", "--json")
    found = json.loads(out)
    assert (status, found["k"], found["sensitive"]["dx"]["recursive"]["4"]) == (0, 1, None)


def test_enforce_writes_the_table_the_transformation_and_the_page(people, capsys):
    words = ["enforce", "people.csv", "--quasi", "zip,age", "--sensitive", "dx", "--weights", "zip=2"]
    status, out, _ = shoal(
        capsys,
        *words,
        "--k",
        "2",
        "--suppress",
        "0.2",
        "-o",
        "out.csv",
        "--save",
        "t.toml",
        "--html",
        "page.html",
        "--json",
    )
    assert status == 0
    assert list(json.loads(out)) == [
        "recoding", "levels", "lattice", "checked", "optimal", "bound", "loss", "quality", "suppressed", "owners_lost",
        "finer", "published", "left_out", "before", "after", "transformation",
    ]  # fmt: skip
    assert (people / "out.csv").read_text(encoding="utf-8").startswith('"zip","age","dx"\n')
    status, out, _ = shoal(capsys, "apply", "people.csv", "t.toml", "-o", "again.csv", "--suppress", "0.2")
    assert status == 0
    assert (people / "again.csv").read_bytes() == (people / "out.csv").read_bytes()
    status, out, _ = shoal(capsys, "compose", "people.csv", "t.toml", "t.toml", "--sensitive", "dx", "--json")
    assert (status, json.loads(out)["k"]) == (0, 3)


def test_all_demands_can_be_written(people, capsys):
    status, out, err = shoal(
        capsys, "enforce", "people.csv", "--quasi", "zip,age", "--sensitive", "dx", "--owner", "uid", "--k", "2", "--l", "2",
        "--entropy-l", "1.5", "--recursive", "4,2", "--t", "0.9", "--k-map", "2", "--presence", "0,1", "--population",
        "people.csv", "--recoding", "local", "--keep-owner", "-o", "out.parquet", "--json",
    )  # fmt: skip
    assert (status, err) == (0, "")
    assert json.loads(out)["published"] == ["zip", "age", "dx", "uid"]


def test_no_recoding_is_exit_status_1_and_leaves_no_file(people, capsys):
    status, _, err = shoal(capsys, "enforce", "people.csv", "--quasi", "zip", "--k", "7", "-o", "out.csv")
    assert status == 1
    assert "E_DEMANDS" in err
    assert not (people / "out.csv").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["enforce", "people.csv", "--quasi", "zip", "-o", "out.csv"],
        ["enforce", "people.csv", "--quasi", "zip", "--k", "2", "-o", "out.xlsx"],
        ["enforce", "people.csv", "--quasi", "zip", "--k", "2", "-o", "no/such/folder/out.csv"],
        ["enforce", "people.csv", "--quasi", "zip", "--recursive", "4", "-o", "out.csv"],
        ["enforce", "people.csv", "--quasi", "zip", "--k", "2", "--weights", "zip", "-o", "out.csv"],
        ["enforce", "nothing.csv", "--quasi", "zip", "--k", "2", "-o", "out.csv"],
        ["apply", "people.csv", "nothing.toml", "-o", "out.csv"],
        ["compose", "people.csv", "nothing.toml"],
        ["measure", "people.csv", "--quasi", "nothing"],
        ["check", "people.csv", "--policy", "nothing.toml"],
        ["hierarchy", "people.csv", "--column", "age", "-o", "h.csv"],
    ],
)
def test_wrong_words_are_exit_status_2_and_open_nothing(people, capsys, words):
    status, _, err = shoal(capsys, *words)
    assert status == 2
    assert "E_" in err
    assert [path.name for path in people.iterdir()] == ["people.csv"]


def test_hierarchies_are_written_and_completed(people, capsys):
    assert shoal(capsys, "hierarchy", "people.csv", "--column", "age", "--intervals", "5,10", "-o", "age.csv")[0] == 0
    assert (people / "age.csv").read_text(encoding="utf-8").splitlines()[0] == "34;[30, 34];[30, 39];*"
    for rule in (["--auto"], ["--mask", "right"]):
        assert shoal(capsys, "hierarchy", "people.csv", "--column", "zip", *rule, "-o", "zip.csv")[0] == 0
    (people / "dx.csv").write_text("flu;common;*\ncold;common;*\n", encoding="utf-8")
    status, _, err = shoal(capsys, "hierarchy", "people.csv", "--column", "dx", "--complete", "dx.csv", "-o", "dx.csv")
    assert status == 0
    assert "3 values" in err
    assert (people / "dx.csv").read_text(encoding="utf-8").splitlines()[-1] == "secret;*;*"


def test_check_is_exit_status_1_when_a_limit_is_broken(people, capsys):
    (people / "p.toml").write_text('[[anonymity]]\nquasi = ["zip"]\nk = 2\n', encoding="utf-8")
    status, out, _ = shoal(capsys, "check", "people.csv", "--policy", "p.toml")
    assert status == 1
    assert "broken" in out
    (people / "p.toml").write_text('[[anonymity]]\nquasi = ["zip"]\nk = 2\nmax_share_below_k = 0.5\n', encoding="utf-8")
    status, out, _ = shoal(capsys, "check", "people.csv", "--policy", "p.toml", "--json")
    assert (status, json.loads(out)["passed"]) == (0, True)
