"""`shoal audit` from the command line."""

import json
from fractions import Fraction

from shoal.mechanisms import noise

EXACT = ("--only", "calibration at δ = 10⁻⁶", "--processes", "1")


def test_the_table_names_checks_verdicts_and_what_was_computed(shoal):
    done = shoal("audit", *EXACT)
    assert done.status == 0, done.err
    assert "Gaussian threshold, 3 groups" in done.out
    assert "computed, at most 1e-06 claimed" in done.out
    assert "All 18 checks passed." in done.out
    assert done.err == ""


def test_machines_and_browsers_get_the_same_table(shoal, tmp_path):
    done = shoal("audit", *EXACT, "--json", "--html", str(tmp_path / "audit.html"))
    report = json.loads(done.out)
    assert report["passed"]
    assert len(report["checks"]) == 18
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
