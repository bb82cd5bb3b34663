from __future__ import annotations

import ast
import json
import math
import subprocess
import sys
from pathlib import Path

import duckdb
import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.figures import curves, drawing  # noqa: E402 - same
from benchmarks.tpch import measuring, repeat, rows, tables  # noqa: E402 - same

from benchmarks import figures, peers, records, tpch, visits  # noqa: E402 - benchmarks live beside the package, not in it
from shoal.mechanisms.group_selection import keep_probability  # noqa: E402 - same
from shoal.release.execute import fresh_sampling_key, measure  # noqa: E402 - same

SCALE = 0.01


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return tmp_path_factory.mktemp("tpch")


@pytest.fixture(scope="module")
def customers(data):
    opened = tables.open_tables(tables.generate(SCALE, data), "customer")
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def suppliers(data):
    opened = tables.open_tables(tables.generate(SCALE, data), "supplier")
    yield opened
    opened.close()


def planned(opened, row):
    return opened.session.plan(row.private(tables.delta_at(row.owners, SCALE))).selects[0]


@pytest.mark.parametrize("row", rows.ROWS, ids=lambda row: f"{row.name}, {row.way}")
def test_every_row_of_the_table_is_measured(row, customers, suppliers):
    opened = customers if row.owners == "customer" else suppliers
    found = measuring.outcome(row, opened, SCALE, runs=20)
    assert found.runs == 20
    assert (found.closed_error is None) or found.closed_error > 0
    assert (found.withheld is None) == (not row.keys)
    assert tpch.line(found).count("|") == tpch.HEADER[0].count("|")


def test_the_command_writes_a_record_with_machine_versions_and_date(data, tmp_path, capsys):
    options = ["--scale", str(SCALE), "--runs", "5", "--only", "Q13"]
    assert tpch.main([*options, "--data", str(data), "--results", str(tmp_path)]) == 0
    (written,) = tmp_path.glob("tpch-*.json")
    record = json.loads(written.read_text(encoding="utf-8"))
    assert {"machine", "versions", "date", "rows"} <= set(record)
    assert len(record["rows"]) == sum(row.name == "Q13" for row in rows.ROWS)
    assert capsys.readouterr().out.count("| Q13") == len(record["rows"])


def test_repeated_runs_come_to_the_closed_form(customers):
    # 4000 runs of about 40 groups: a share has a standard deviation below 0.0013, a median one of about 2%.
    # Ten standard deviations are a false alarm rate far below 1e-6.
    found = measuring.outcome(rows.Q13, customers, SCALE, runs=4000)
    assert found.withheld == pytest.approx(found.expected_withheld, abs=0.013)
    assert found.error == pytest.approx(found.closed_error, rel=0.2)


def test_copies_repeat_every_group_with_its_exact_numbers(customers):
    select = planned(customers, rows.Q13)
    measured = measure(select, customers.engine, fresh_sampling_key())
    once, thrice = measured.measurement, repeat.copies(measured, 3).measurement
    assert thrice.keys.num_rows == 3 * len(once.owners)
    assert thrice.owners.reshape(3, -1).tolist() == [once.owners.tolist()] * 3
    assert np.asarray(thrice.totals[0]).reshape(3, -1).tolist() == [list(once.totals[0])] * 3


def test_copies_of_trees_do_not_mix(customers):
    select = planned(customers, rows.Q1_MEDIAN_OF_MEDIANS)
    measured = measure(select, customers.engine, fresh_sampling_key())
    leaves = repeat.copies(measured, 2).measurement.totals[0]
    assert leaves.counts[leaves.groups == 1].tolist() == measured.measurement.totals[0].counts.tolist()


def test_answers_without_noise_are_the_truth_where_nothing_is_cut(customers):
    select = planned(customers, rows.Q13)
    measured = measure(select, customers.engine, fresh_sampling_key())
    exact = repeat.exact_answers(select, measured)
    found = dict(zip(exact.column(0).to_pylist(), exact["answer"].to_pylist(), strict=True))
    assert found == dict(customers.plain.execute(rows.Q13.plain()).fetchall())


def test_groups_of_one_owner_are_withheld_with_one_minus_delta(suppliers):
    found = measuring.outcome(rows.Q21, suppliers, SCALE, runs=1)
    delta = tables.delta_at("supplier", SCALE)
    assert 1 - delta <= found.expected_withheld < 1


def test_delta_is_the_published_choice_at_scale_one():
    assert tables.delta_at("customer", 1) == pytest.approx(150_000 ** (-0.1 * math.log(150_000)))
    assert 1 - tables.delta_at("supplier", 1) == pytest.approx(0.9998, abs=5e-5)


def test_a_page_keeps_everything_around_its_table(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- table: begin -->\nold\n<!-- table: end -->\nafter\n", encoding="utf-8")
    records.replace_between(page, "table", ["new", "lines"])
    assert page.read_text(encoding="utf-8") == "before\n<!-- table: begin -->\nnew\nlines\n<!-- table: end -->\nafter\n"


def test_no_rule_keeps_a_group_more_often_than_the_optimal_one():
    lines = list(curves.kept_by_owners())
    chances = {line[:4]: line[4] for line in lines}
    for epsilon, delta, owners, rule, chance in lines:
        if rule != "optimal":
            assert chance <= chances[epsilon, delta, owners, "optimal"] + 1e-12


def test_gaussian_noise_overtakes_the_optimal_rule_between_two_and_four_groups_per_owner():
    points = {line[:2]: line[2] for line in curves.half_points_by_groups()}
    assert points[2, "Gaussian threshold"] > points[2, "optimal"]
    assert points[4, "Gaussian threshold"] < points[4, "optimal"]


def test_the_published_share_of_q13_is_that_of_an_even_laplace_split():
    # Customers by number of orders at scale factor 1, as the generator gives them.
    large, small = 27, [593, 376, 226, 148, 134, 75, 50, 37, 17, 14, 5, 5, 4, 2, 1]
    rule = curves.laplace(0.05, tables.delta_at("customer", 1))
    kept = large + sum(keep_probability(rule, owners) for owners in small)
    assert 1 - kept / 42 == pytest.approx(0.309, rel=0.05)


def test_all_figures_are_written_with_their_data(data, tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks.figures.clamping.BOUNDS", (16, 64))
    options = ["--scale", str(SCALE), "--runs", "10", "--data", str(data), "--results", str(tmp_path)]
    assert figures.main([*options, "--folder", str(tmp_path)]) == 0
    for figure in figures.figures([1], 1):
        lines = (tmp_path / f"{figure.name}.csv").read_text(encoding="utf-8").splitlines()
        assert lines[0] == ",".join(figure.columns)
        assert len(lines) > 3
        assert (tmp_path / f"{figure.name}.png").read_bytes().startswith(b"\x89PNG")


def test_every_drawn_rule_has_a_style_of_its_own():
    drawn = {line[1] for line in [*curves.withheld_by_delta([1, 2], per_decade=1), *curves.half_points_by_groups()]}
    assert drawn <= set(drawing.STYLES)


def test_peers_are_judged_by_released_sites_and_the_error_of_the_largest():
    truth = {site: 1000.0 - site for site in range(300)}
    found = peers.judged("a library", "", 1.0, {0: 1100.0, 1: 999.0, 250: 1.0}, truth)
    assert (found.sites, found.top_released) == (3, 2)
    assert found.error == pytest.approx((0.1 + 0.0) / 2)


def test_a_peer_that_cannot_run_is_named_with_its_reason():
    problem = subprocess.CalledProcessError(
        1, ["pip"], stderr="long story\nImportError: no such name (/somewhere/x.so)\n"
    )
    found = peers.Result("a library", "", failure=peers.reason(problem))
    assert peers.line(found) == "| a library | – | – | – | – | could not be run: ImportError: no such name |"


def test_shoal_answers_the_job_of_the_peers(tmp_path):
    database = visits.database(20_000, tmp_path)
    with duckdb.connect(str(database), read_only=True) as connection:
        connection.execute(f"COPY visits TO '{tmp_path / 'visits.parquet'}'")
    found = peers.run_shoal(tmp_path / "visits.parquet", peers.bounded_truth(database))
    assert found.failure is None
    assert found.sites is not None


@pytest.mark.parametrize("peer", peers.PEERS, ids=lambda peer: peer.name)
def test_the_script_of_every_peer_is_there_and_parses(peer):
    source = (peers.SCRIPTS / peer.script).read_text(encoding="utf-8")
    imported = {alias.name for node in ast.walk(ast.parse(source)) for alias in getattr(node, "names", [])}
    assert "polars" in imported
    assert "shoal" not in imported
