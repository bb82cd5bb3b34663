"""Plans that travel from the process that made them to the one that runs them."""

from __future__ import annotations

import pickle
import subprocess
from dataclasses import replace
from fractions import Fraction

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from service_shop import counting, write_folder

import shoal
from shoal import datasets
from shoal.errors import InternalError
from shoal.service.runners.carried import LARGEST, basis_of, packed, unpacked
from shoal.service.runners.errand import Place

PLACE = Place("visits", 1, "data", "catalog", 300.0)
CLAUSE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6)"


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    folder = tmp_path_factory.mktemp("visits") / "data"
    write_folder(folder)
    with shoal.connect(folder, catalog=folder.parent / "shoal.toml", budget=(10, 1e-3)) as opened:
        yield opened


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shop")
    datasets.write_shop(folder)
    with shoal.connect(folder / "data", catalog=folder / "shoal.toml", budget=(10, 1e-3)) as opened:
        yield opened


@pytest.mark.parametrize(
    "sql",
    [
        "site, COUNT(*) AS n, SUM(spend) AS s FROM visits GROUP BY site",
        "site, AVG(spend) AS a, MEDIAN(spend) AS m, MIN(spend) AS l FROM visits GROUP BY site HAVING a > 5 ORDER BY a",
        "region, COUNT(DISTINCT site) FROM visits JOIN customers USING (uid) WHERE spend > 3.5 GROUP BY ALL",
        "MONTH(day) AS m, STDDEV(spend), COUNT(*) * 100.0 / SUM(COUNT(*)) OVER () FROM visits GROUP BY ROLLUP (m)",
        "COUNT(*) FROM visits WHERE day >= DATE '2024-01-01' AND site IN ('market', 'station')",
    ],
)
def test_a_plan_arrives_as_it_was_made(shop, sql):
    basis = basis_of(shop, PLACE)
    plan, _ = shop.asked(f"{CLAUSE} {sql}")
    data = packed(plan, basis)
    assert 0 < len(data) <= LARGEST
    assert unpacked(data, basis, shop) == plan


def test_a_plan_that_arrived_gives_the_same_charge_and_columns(session):
    basis = basis_of(session, PLACE)
    plan, _ = session.asked(counting(0.1, "arrived"))
    before = session.spent[0]
    found = session.run(unpacked(packed(plan, basis), basis, session))
    assert found.columns == ["arrived"]
    assert session.spent[0] - before == pytest.approx(0.1)


def test_two_sessions_over_the_same_have_one_basis(session, tmp_path):
    folder = write_folder(tmp_path / "data")
    with shoal.connect(folder, catalog=folder.parent / "shoal.toml", budget=(10, 1e-3)) as other:
        assert basis_of(other, PLACE) == basis_of(session, PLACE)
        assert basis_of(other, replace(PLACE, version=2)) != basis_of(session, PLACE)
        assert basis_of(other, replace(PLACE, seconds=1.0)) != basis_of(session, PLACE)


def test_a_plan_is_not_used_where_a_public_table_repeats_its_key_more_often(session, tmp_path):
    """How far a join repeats an owner's rows is part of the plan: over other public rows it would promise too much."""
    folder = write_folder(tmp_path / "data")
    pq.write_table(pa.table({"site": ["s0"] * 9, "town": ["here"] * 9}), folder / "sites.parquet")
    plan, _ = session.asked(f"{CLAUSE} COUNT(*) AS n FROM visits JOIN sites USING (site)")
    data = packed(plan, basis_of(session, PLACE))
    with shoal.connect(folder, catalog=folder.parent / "shoal.toml", budget=(10, 1e-3)) as other:
        basis = basis_of(other, PLACE)
        assert basis != basis_of(session, PLACE)
        assert unpacked(data, basis, other) is None


def test_a_plan_that_was_changed_on_its_way_is_refused_before_anything_is_charged(session):
    basis = basis_of(session, PLACE)
    plan, _ = session.asked(counting(0.1, "changed"))
    cheaper = replace(plan, epsilon=Fraction(1, 10**6))
    with pytest.raises(InternalError):
        unpacked(packed(cheaper, basis), basis, session)


class Runs:
    def __init__(self, made):
        self.made = made

    def __reduce__(self):
        return self.made


@pytest.mark.parametrize(
    "value",
    [
        Runs((subprocess.check_call, (["false"],))),
        Runs((eval, ("1/0",))),
        Runs((exec, ("raise SystemExit",))),
        Runs((getattr, ("", "join"))),
        Runs((shoal.connect, ("nowhere",))),
        Runs((shoal.session.Session, (None, None, None))),
        [1, 2, 3],
        None,
    ],
)
def test_nothing_but_a_plan_is_made_of_the_bytes(session, value):
    basis = basis_of(session, PLACE)
    assert unpacked(basis.encode() + pickle.dumps(value, 5), basis, session) is None


@pytest.mark.parametrize("rest", [b"", b"\x80", b"\x80\x05.", b"cos\nsystem\n(S'false'\ntR.", b"\xff" * 100])
def test_bytes_that_are_nothing_are_no_plan(session, rest):
    basis = basis_of(session, PLACE)
    assert unpacked(basis.encode() + rest, basis, session) is None
    assert unpacked(rest, basis, session) is None


def test_plans_that_are_not_for_one_statement_stay_where_they_are(session):
    assert packed("a plan under a policy", basis_of(session, PLACE)) == b""


def test_a_large_plan_is_made_again(session):
    numbers = ", ".join(str(i) for i in range(8_000))
    plan, _ = session.asked(f"{CLAUSE} COUNT(*) AS n FROM visits WHERE uid IN ({numbers})")
    assert packed(plan, basis_of(session, PLACE)) == b""
