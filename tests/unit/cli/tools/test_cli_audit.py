"""`shoal audit` from the command line."""

import json
from fractions import Fraction

import pytest

from shoal.mechanisms import noise

EXACT = ("--only", "calibration at δ = 10⁻⁶", "--processes", "1")


def test_the_table_names_checks_verdicts_and_what_was_computed(shoal):
    done = shoal("audit", *EXACT)
    assert done.status == 0, done.err
    assert "Gaussian threshold, 3 groups" in done.out
    assert "computed, at most 1e-06 claimed" in done.out
    assert "All 24 checks passed." in done.out


def test_each_verdict_is_told_as_it_is_reached(shoal):
    told = shoal("audit", *EXACT).err.splitlines()
    assert [line.split("  ")[-2] for line in told] == ["passed"] * 24
    assert told[0].startswith("  1 of 24")
    assert "Gaussian count, ε = 0.1, exact; δ = " in told[0]
    assert told[-1].startswith(" 24 of 24")


def test_a_run_that_was_stopped_goes_on_from_its_file(shoal, tmp_path):
    kept = tmp_path / "rows.jsonl"
    whole = json.loads(shoal("audit", *EXACT, "--resume", str(kept), "--json").out)
    lines = kept.read_text(encoding="utf-8").splitlines(keepends=True)
    # Stopped in the middle of its seventh line.
    kept.write_text("".join(lines[:7]) + lines[7][:40], encoding="utf-8")
    done = shoal("audit", *EXACT, "--resume", str(kept), "--json")
    assert done.err.splitlines()[0].startswith("  7 of 24")
    again = json.loads(done.out)["checks"]
    timeless = [[{**row, "seconds": 0, "processor_seconds": 0} for row in rows] for rows in (again, whole["checks"])]
    assert timeless[0] == timeless[1]
    assert shoal("audit", *EXACT, "--resume", str(kept)).err == ""


@pytest.mark.parametrize(
    ("change", "named"),
    [('"samples": 100000', "samples"), ('"version": "', "version"), ('"code": "', "code"), ('"seed": 0', "seed")],
)
def test_verdicts_about_something_else_are_not_taken_over(shoal, tmp_path, change, named):
    kept = tmp_path / "rows.jsonl"
    shoal("audit", *EXACT, "--resume", str(kept))
    text = kept.read_text(encoding="utf-8")
    kept.write_text(
        text.replace(change, change[:-1] + "2" if change[-1].isdigit() else change + "x", 1), encoding="utf-8"
    )
    done = shoal("audit", *EXACT, "--resume", str(kept))
    assert done.status == 2
    assert f"belong to another run: {named}." in done.err


def test_a_file_of_another_kind_is_refused_and_left_alone(shoal, tmp_path):
    kept = tmp_path / "rows.jsonl"
    kept.write_text("dear diary", encoding="utf-8")
    assert shoal("audit", *EXACT, "--resume", str(kept)).err.startswith("E_USAGE: The audit cannot go on from ")
    assert kept.read_text(encoding="utf-8") == "dear diary"


def test_machines_and_browsers_get_the_same_table(shoal, tmp_path):
    done = shoal("audit", *EXACT, "--json", "--html", str(tmp_path / "audit.html"))
    report = json.loads(done.out)
    assert report["passed"]
    assert len(report["checks"]) == 24
    assert "Gaussian threshold, 3 groups" in (tmp_path / "audit.html").read_text(encoding="utf-8")


def test_a_failed_check_is_exit_status_1(shoal, monkeypatch):
    honest = noise.wide_discrete_laplace
    monkeypatch.setattr(noise, "wide_discrete_laplace", lambda b, size, e: honest(b * Fraction(1, 2), size, e))
    done = shoal("audit", "--only", "samplers", "--samples", "10000", "--processes", "1")
    assert done.status == 1
    assert "FAILED" in done.out


def test_an_unknown_family_is_refused_with_the_known_ones(shoal):
    done = shoal("audit", "--only", "everything")
    assert done.status == 2
    assert "selection" in done.err


def test_two_numbers_of_samples_contradict_each_other(shoal):
    done = shoal("audit", "--deep", "--samples", "2000")
    assert done.status == 2
    assert done.err.startswith("E_USAGE: --deep and --samples")
