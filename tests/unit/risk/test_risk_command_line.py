"""`shoal risk …` as people and cron jobs run it."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass

import pytest

from shoal.cli.main import run as program
from shoal.datasets import shop, write_shop
from shoal.risk import read_datasets

SHOAL = [sys.executable, "-m", "shoal"]


@dataclass(frozen=True)
class Done:
    stdout: str
    stderr: str


def run(*words: str, folder, status: int = 0) -> Done:
    """The program in this process: starting one takes longer than most of what is asked of it here."""
    out, err = io.StringIO(), io.StringIO()
    with chdir(folder), redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as left:
        program(["risk", *words])
    assert left.value.code == status, err.getvalue()
    assert "Traceback" not in err.getvalue()
    return Done(out.getvalue(), err.getvalue())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("shop")
    write_shop(place, shop(1_500))
    run("key", "secret.key", folder=place)
    words = "scan data/ --owner uid --combine 2 --key secret.key -o sketches --html report.html --json"
    scanned = run(*words.split(), folder=place)
    (place / "scan.json").write_text(scanned.stdout)
    return place


def test_a_scan_prints_json_and_writes_sketches_and_a_page(folder):
    told = json.loads((folder / "scan.json").read_text())
    assert {dataset["name"] for dataset in told["datasets"]} == {"customers", "visits", "regions"}
    columns = {c["name"]: c for d in told["datasets"] if d["name"] == "visits" for c in d["columns"]}
    assert set(columns["site"]["below"]) == {"2", "5", "10", "50", "100"}
    assert "day+site" in columns
    assert {file.name for file in (folder / "sketches").iterdir()} == {"customers.khll", "visits.khll", "regions.khll"}
    assert all(file.stat().st_mode & 0o077 == 0 for file in (folder / "sketches").iterdir())
    assert (folder / "report.html").read_text().startswith("<!doctype html>")
    assert (folder / "secret.key").stat().st_mode & 0o777 == 0o600


def test_a_scan_prints_a_table_with_the_caveat(folder):
    done = run("scan", "data/visits.parquet", "--owner", "uid", "--columns", "site,day+site", folder=folder)
    assert "day+site" in done.stdout
    assert "not a" in done.stdout
    assert "spend" not in done.stdout
    assert done.stderr == ""


def test_a_scan_without_a_key_says_that_its_sketches_are_alone(folder, tmp_path):
    done = run("scan", "data", "--owner", "uid", "-o", str(tmp_path / "s"), "--json", folder=folder)
    assert "not with a later scan" in done.stderr
    json.loads(done.stdout)


def test_no_key_warns_once(folder, tmp_path):
    done = run("scan", "data", "--owner", "uid", "--no-key", "--json", folder=folder)
    assert done.stderr.count("warning: ") == 1


def test_a_key_that_others_can_read_or_guess_is_mentioned(folder, tmp_path):
    (tmp_path / "weak.key").write_bytes(b"short")
    (tmp_path / "weak.key").chmod(0o644)
    done = run("scan", "data", "--owner", "uid", "--json", "--key", str(tmp_path / "weak.key"), folder=folder)
    assert "chmod 600" in done.stderr
    assert "can be guessed" in done.stderr


def test_join_finds_the_shared_owner(folder):
    told = json.loads(run("join", "sketches", "--json", "--html", "join.html", folder=folder).stdout)
    shared = [("customers.uid", "visits.uid"), ("customers.region", "regions.region")]
    assert [(pair["a"], pair["b"]) for pair in told["pairs"]] == shared
    assert "customers.uid" in run("join", "sketches", folder=folder).stdout
    assert "customers → visits" in run("join", "sketches", "--path", "customers,visits", folder=folder).stdout
    assert json.loads(run("join", "sketches", "--path", "visits,regions", "--json", folder=folder).stdout) == {
        "path": None
    }
    assert (folder / "join.html").exists()


def test_a_broken_policy_is_exit_status_1_and_a_kept_one_0(folder):
    (folder / "strict.toml").write_text('[[uniqueness]]\ncolumns = ["customers.*"]\nbelow = 2\nmax_share = 0.5\n')
    (folder / "mild.toml").write_text('[[k_anonymity]]\ntable = "customers"\ncolumns = ["region"]\nmin_owners = 5\n')
    done = run("check", "sketches", "--policy", "strict.toml", folder=folder, status=1)
    assert "BROKEN" in done.stdout
    assert "customers.income" in done.stdout
    told = json.loads(run("check", "sketches", "--policy", "strict.toml", "--json", folder=folder, status=1).stdout)
    assert told["passed"] is False
    assert "The policy holds." in run("check", "sketches", "--policy", "mild.toml", folder=folder).stdout


def test_a_check_shows_what_moved_since_the_baseline(folder, tmp_path):
    write_shop(tmp_path, shop(300))
    run(
        "scan",
        str(tmp_path / "data"),
        "--owner",
        "uid",
        "--key",
        "secret.key",
        "-o",
        str(tmp_path / "s"),
        folder=folder,
    )
    words = ["check", "sketches", "--policy", "mild.toml", "--baseline", str(tmp_path / "s")]
    (folder / "mild.toml").write_text('[[k_anonymity]]\ntable = "customers"\ncolumns = ["region"]\nmin_owners = 5\n')
    done = run(*words, folder=folder)
    assert "Moved beyond the error" in done.stdout
    assert json.loads(run(*words, "--json", folder=folder).stdout)["baseline"]["movements"]


def test_a_report_is_shown_again_from_its_sketches(folder):
    again = json.loads(run("report", "sketches", "--json", folder=folder).stdout)
    assert again == json.loads((folder / "scan.json").read_text())


def test_the_loss_calculator_answers(folder):
    told = json.loads(run("loss", "--owners", "1000", "--m", "512", "--json", folder=folder).stdout)
    assert told["average_epsilon"] == pytest.approx(1.0196, abs=1e-3)


@pytest.mark.parametrize(
    "words",
    [
        "scan nowhere",
        "scan data --owner nobody",
        "scan data --owner uid --key missing.key",
        "scan data --owner uid --key secret.key --no-key",
        "scan data --owner uid --owner visits=uid",
        "scan data --owner uid --k 3",
        "scan data --owner uid --combine 9",
        "scan data --owner uid --html nowhere/at/all.html",
        "scan",
        "join data",
        "join sketches --path one",
        "join sketches --path customers,nobody",
        "check sketches --policy missing.toml",
        "check sketches",
        "check sketches/visits.khll --policy sketches/visits.khll",
        "key secret.key",
        "loss --owners 5 --m 7",
    ],
)
def test_wrong_usage_is_exit_status_2_and_one_paragraph(words, folder):
    done = run(*words.split(), folder=folder, status=2)
    assert done.stdout == ""
    assert 0 < len(done.stderr.strip().splitlines()) <= 4


def test_a_damaged_sketch_file_is_a_clear_error(folder, tmp_path):
    data = bytearray((folder / "sketches" / "visits.khll").read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "visits.khll").write_bytes(data)
    done = run("join", str(tmp_path), folder=folder, status=2)
    assert "visits.khll" in done.stderr
    assert "E_SKETCH" in done.stderr


def test_sketches_of_two_scans_under_one_key_are_equal(folder, tmp_path):
    run(
        "scan",
        "data",
        "--owner",
        "uid",
        "--combine",
        "2",
        "--key",
        "secret.key",
        "-o",
        str(tmp_path / "s"),
        folder=folder,
    )
    for name in ("visits.khll", "customers.khll"):
        assert (tmp_path / "s" / name).read_bytes() == (folder / "sketches" / name).read_bytes()
    assert len(read_datasets(tmp_path / "s")) == 3


def test_progress_shows_on_a_terminal_only(folder):
    ours, theirs = pty.openpty()
    done = subprocess.Popen(
        [*SHOAL, "risk", "scan", "data", "--owner", "uid", "--json"],
        cwd=folder, stdout=subprocess.PIPE, stderr=theirs, env={**os.environ, "TERM": "xterm", "COLUMNS": "120"},
    )  # fmt: skip
    os.close(theirs)
    json.loads(done.stdout.read())
    shown = b""
    try:
        while part := os.read(ours, 65536):
            shown += part
    except OSError:  # the other end of a terminal closes with an error
        pass
    os.close(ours)
    done.stdout.close()
    assert done.wait() == 0
    assert b"rows" in shown
    assert b"/s" in shown
