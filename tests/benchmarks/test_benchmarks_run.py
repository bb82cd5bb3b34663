"""Every benchmark runs to its end on a tiny table, prints its table and writes its record. No time is asserted."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

ROOT = Path(__file__).parent.parent.parent


def started(*words):
    command = [sys.executable, "-m", "benchmarks", *map(str, words)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def run(*words):
    done = started(*words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def record(folder):
    (path,) = folder.glob("*.json")
    found = json.loads(path.read_text(encoding="utf-8"))
    assert {"benchmark", "date", "machine", "versions"} <= set(found)
    return found


def test_jobs_put_three_sides_and_the_even_split_beside_each_other(tmp_path):
    shown = run("jobs", "--rows", 40_000, "--runs", 1, "--data", tmp_path, "--results", tmp_path / "results")
    found = record(tmp_path / "results")
    assert [job["job"] for job in found["jobs"]] == ["J1", "J2", "J3", "J4"]
    assert all(min(job["plain"], job["by_hand"], job["shoal"], job["planning_ms"]) > 0 for job in found["jobs"])
    assert [job["job"] for job in found["utility"]] == ["J1", "J2"]
    assert all(job["sites"] >= 0 and job["even_sites"] >= 0 for job in found["utility"])
    assert found["peak_memory_gb"] > 0
    assert "shoal / hand-written" in shown


def test_the_table_of_visits_is_as_uneven_as_it_should_be(tmp_path):
    run("jobs", "--rows", 40_000, "--runs", 1, "--jobs", "J2", "--data", tmp_path, "--results", tmp_path / "results")
    (path,) = tmp_path.glob("*.duckdb")
    with duckdb.connect(str(path), read_only=True) as connection:
        counts = "SELECT count(*), count(DISTINCT uid), count(DISTINCT day), min(spend) > 0 FROM visits"
        rows, owners, days, positive = connection.sql(counts).fetchall()[0]
        heaviest = connection.sql("SELECT max(n) FROM (SELECT count(*) AS n FROM visits GROUP BY uid)").fetchall()[0][0]
    assert (rows, days, positive) == (40_000, 30, True)
    assert 3_000 < owners <= 4_000
    assert heaviest > 20 * rows / owners


def test_scale_compares_sizes(tmp_path):
    shown = run("scale", "--rows", 10_000, 20_000, "--runs", 1, "--data", tmp_path, "--results", tmp_path / "results")
    found = record(tmp_path / "results")
    assert [cost["rows"] for cost in found["costs"]] == [10_000] * 4 + [20_000] * 4
    assert all(len(steps) == 1 for steps in found["growth_per_row"].values())
    assert "| J4" in shown


def test_noise_compares_samplers(tmp_path):
    run("noise", "--draws", 2_000, "--results", tmp_path)
    assert all(row["ours"] > 0 and row["opendp"] > 0 for row in record(tmp_path)["rates"])


@pytest.mark.slow
def test_latency_plans_and_starts(tmp_path):
    shown = run("latency", "--runs", 1, "--starts", 1, "--results", tmp_path)
    found = record(tmp_path)
    assert all(min(one["plan"], one["explain"], one["fresh"]) > 0 for one in found["planning_ms"])
    assert all(0 < one["best"] <= one["median"] and one["processor"] > 0 for one in found["start_seconds"])
    assert "10 aggregates" in shown


def test_utility_compares_the_planner_with_the_even_split_as_its_page_does(tmp_path):
    shown = run("utility", "--results", tmp_path)
    found = record(tmp_path)
    assert [(row["aggregates"], row["groups"]) for row in found["rows"]] == [
        (n, k) for n in (1, 3, 10) for k in (1, 5, 50)
    ]
    for row in found["rows"]:
        assert row["planned"]["width"] <= 1.0001 * row["even"]["width"]
        assert row["planned"]["median"] <= 1.0001 * row["even"]["median"]
        assert row["planned"]["owners"] <= row["even"]["owners"]
    page = (ROOT / "docs" / "results" / "utility.md").read_text(encoding="utf-8")
    table = [line for line in shown.splitlines() if line.startswith("|")]
    assert "median error" in table[0]
    assert "\n".join(table) in page, "python -m benchmarks utility --write makes the page new"


def test_auto_counts_intervals_that_hold(tmp_path):
    shown = run("auto", "--rows", 600, "--runs", 1, "--only", "one row each: averages", "--results", tmp_path)
    found = record(tmp_path)["outcomes"]
    assert [row["name"] for row in found] == ["one row each: averages"]
    assert 0 <= found[0]["held_by_noise"] <= found[0]["held"] <= found[0]["intervals"] <= 1
    assert "| 600 | one row each: averages | 600 | 1 |" in shown


def test_quantiles_compares_both_ways_to_them(tmp_path):
    shown = run("quantiles", "--runs", 3, "--results", tmp_path)
    found = record(tmp_path)["rows"]
    assert all(min(row["choice"]["median"], row["tree"]["median"]) >= 0 for row in found)
    assert shown.count("| lognormal") == sum(row["values"].startswith("lognormal") for row in found) > 0


@pytest.mark.parametrize(("words", "known"), [(("jobs", "--jobs", "J9"), "J4"), (("tpch", "--only", "Q99"), "Q13")])
def test_a_query_that_does_not_exist_is_refused_with_those_that_do(words, known):
    done = started(*words)
    assert done.returncode == 2
    assert repr(words[-1]) in done.stderr
    assert known in done.stderr


def test_every_benchmark_is_listed_on_the_page():
    page = (ROOT / "docs" / "results" / "benchmarks.md").read_text(encoding="utf-8")
    names = [line.split()[0] for line in run("--help").splitlines()[2:]]
    assert len(names) >= 13
    assert [name for name in names if f"\n| `{name}` |" not in page] == []


@pytest.mark.parametrize(("words", "status"), [(("--help",), 0), ((), 0), (("nothing",), 2)])
def test_an_unknown_benchmark_is_answered_with_the_list(words, status):
    done = started(*words)
    assert done.returncode == status
    assert "jobs" in done.stdout


def test_knowledge_tells_every_speed_beside_its_goal(tmp_path):
    shown = run("knowledge", "--share", 20, "--write", "--results", tmp_path)
    lines = record(tmp_path)["lines"]
    assert len(lines) == 7
    assert all(line["measured"] > 0 and name in shown for name, line in lines.items())


@pytest.mark.slow
def test_anonymity_times_its_jobs_on_a_made_up_census(tmp_path):
    sys.path.insert(0, str(ROOT / "tests" / "unit" / "anonymity"))
    import look_alike

    look_alike.write(tmp_path, look_alike.census(400))
    words = [
        "anonymity",
        "--data",
        tmp_path,
        "--no-peers",
        "--only",
        "speed",
        "--times",
        2,
        "--results",
        tmp_path / "results",
    ]
    shown = run(*words)
    assert "| recode seven columns" in shown
    found = record(tmp_path / "results")
    assert all(line["seconds"] > 0 for line in found["speed"])


@pytest.mark.slow
def test_the_local_model_is_measured_and_drawn(tmp_path):
    words = ("--no-peers", "--reports", 300, "--values", 16, "--pictures", "--folder", tmp_path / "figures")
    shown = run("local", *words, "--results", tmp_path / "results")
    found = record(tmp_path / "results")
    assert set(found["ours"]) == {"k-ary", "unary", "hashing", "subset", "projective"}
    assert all(name in shown for name in found["ours"])
    for name in ("local-survey", "local-error-by-respondents", "local-shuffled"):
        assert (tmp_path / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert len((tmp_path / "figures" / f"{name}.csv").read_text(encoding="utf-8").splitlines()) > 3


def test_the_faster_peer_is_what_the_local_model_is_held_against():
    from benchmarks.local import speed

    peers = {
        "one": speed.Peer({"unary": 50.0}),
        "other": speed.Peer({"unary": 20.0}),
        "gone": speed.Peer(failure="no wheel"),
    }
    lines = speed.table({"unary": 2.0, "subset": 5.0}, peers, {"seconds": 1.0})
    assert "| unary | 2.00 | 50.0 | 20.0 | – | 10 × | 10 × |" in lines
    assert "gone could not be run: no wheel" in lines
    for _, script in speed.PEERS.values():
        assert "shoal" not in (speed.SCRIPTS / script).read_text(encoding="utf-8")


def test_policies_stand_beside_owner_level_privacy_and_a_tree(tmp_path):
    shown = run("policies", "--share", 100, "--results", tmp_path)
    found = record(tmp_path)
    assert all(each["measured"] > 0 for each in found["lines"].values())
    assert "OpenDP's tree" in shown


def test_engines_are_put_beside_their_own_plain_queries(tmp_path):
    shown = run("engines", "--rows", 20_000, "--results", tmp_path)
    (cost,) = record(tmp_path)["costs"]
    assert (cost["engine"], cost["rows"]) == ("DuckDB", 20_000)
    assert min(cost["private"], cost["clock"]) > 0
    assert "of plain" in shown
