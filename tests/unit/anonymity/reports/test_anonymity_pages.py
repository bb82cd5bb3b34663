"""The pages: one file, no network, names escaped, no value of the data unless asked for."""

from __future__ import annotations

import base64
import hashlib
import re

import pyarrow as pa
import pytest

from shoal import anonymity
from shoal.anonymity.reports.words import number, percent
from shoal.cli.lookup import pages

TABLE = pa.table(
    {
        "uid": [1, 1, 2, 3, 4, 5, 6],
        "<zip>": ["secret-1", "secret-2", "secret-1", "secret-2", "secret-2", "secret-1", "secret-2"],
        "dx": ["flu", "cold", "flu", "cold", "flu", "cold", "HIV"],
        "note": list("abcdefg"),
    }
)


def made(**options):
    return anonymity.enforce(
        TABLE, "<zip>", **({"k": 2} | options), sensitive="dx", owner="uid", keep="note", population=TABLE
    )


@pytest.fixture(
    params=[
        lambda: anonymity.measure(TABLE, "<zip>", "dx", owner="uid"),
        lambda: anonymity.measure(TABLE, "<zip>", sampling=0.5),
        lambda: anonymity.measure(TABLE.slice(0, 0), "<zip>"),
        made,
        lambda: made(recoding="local", presence=1),
        lambda: made(l=2, suppress=0.9),
        lambda: anonymity.apply(TABLE, made().transformation, owner="uid"),
    ],
    ids=["measured", "sampled", "empty", "global", "local", "suppressed", "applied"],
)
def found(request):
    return request.param()


def test_a_page_is_one_file_with_its_script_by_hash(found):
    page = found.to_html()
    script = re.search(r"<script>(.*?)</script>", page, re.DOTALL).group(1)
    assert base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() in page
    assert "default-src 'none'" in page
    assert not re.search(r"(?:src|href)=", page.split("<style>")[0] + page.split("</style>")[1])


def test_names_are_escaped_and_values_stay_away(found):
    page = found.to_html()
    assert "<zip>" not in page
    assert "&lt;zip&gt;" in page
    assert "secret" not in page
    assert "What this does not protect from" in page
    assert "shoal query" in page


def test_values_of_failing_classes_are_shown_on_request():
    found = anonymity.measure(TABLE, "<zip>", "dx")
    assert "secret" in found.to_html(show_values=True)
    assert found._repr_html_().startswith("<iframe sandbox")


def test_each_limit_has_a_number_of_the_table_and_a_page_that_exists(found):
    for limit in found.not_protected:
        assert pages.called(limit.see.removeprefix("shoal help "))
        assert limit.sentence.endswith(".")


def test_local_recoding_warns_of_refinement_and_a_fixed_one_of_thresholding_only():
    names = {limit.name for limit in made(recoding="local").not_protected}
    assert "minimality" in names
    fixed = anonymity.apply(TABLE, made().transformation, owner="uid")
    assert "thresholding" in {limit.name for limit in fixed.not_protected}


def test_owners_with_several_rows_are_told_that_profiles_are_rarer():
    found = anonymity.measure(TABLE, "<zip>", owner="uid")
    assert found.profile_k < found.k
    assert "profiles" in {limit.name for limit in found.not_protected}
    assert "profile k" in str(found)


def test_numbers_are_never_rounded_to_nothing_or_everything():
    assert [percent(share) for share in (0, 1e-9, 0.5, 1 - 1e-9, 1)] == ["0%", "<0.1%", "50%", ">99.9%", "100%"]
    assert [number(value) for value in (None, float("inf"), 3.0, 0.25)] == ["–", "∞", "3", "0.250"]
