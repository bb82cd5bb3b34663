"""The catalogue: complete, consistent, and searched."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from shoal import definitions as d
from shoal.definitions.reference import reference_page
from shoal.errors import ShoalError

ROOT = Path(__file__).parents[3]


def test_there_are_186_entries_of_four_kinds():
    kinds = Counter(one.kind for one in d.all())
    assert kinds == {"definition": 152, "deployment model": 11, "sensitivity notion": 13, "out of scope": 10}
    assert sum(len(one.relations) for one in d.all()) == 198
    assert sum(len(one.also_known_as) for one in d.all()) == 35


def test_ids_are_unique_and_every_relation_leads_somewhere():
    ids = [one.id for one in d.all()]
    assert len(set(ids)) == len(ids) == 186
    assert {other for one in d.all() for _, other in one.relations} <= set(ids)


def test_dimensions_are_letters_of_the_taxonomy():
    assert list(d.dimensions()) == list("QNVBFRC")
    assert {letter for one in d.all() for letter in one.dimensions} == set("QNVBFRC")


def test_what_composes_and_keeps_the_axioms_in_dimension_q():
    found = {one.id for one in d.find(composes=True, axioms=True, dimension="Q")}
    assert {"renyi-dp", "zero-concentrated-dp", "approximate-dp", "kl-privacy"} <= found
    assert "probabilistic-dp" not in found


def test_search_reads_names_ideas_and_other_names():
    assert [one.id for one in d.find("owner-level")] == ["participant-dp"]
    assert "zero-concentrated-dp" in [one.id for one in d.find("ZCDP")]
    assert d.find("no such words at all") == []
    assert len(d.find(kind="out of scope")) == 10


@pytest.mark.parametrize(
    ("name", "near"), [("reny-dp", "renyi-dp"), ("GDP", "gaussian-dp"), ("zcdp", "zero-concentrated-dp")]
)
def test_an_unknown_id_is_refused_with_the_three_nearest(name, near):
    with pytest.raises(ShoalError) as caught:
        d.get(name)
    named = caught.value.hint.removeprefix("The nearest: ").removesuffix(".").split(", ")
    assert (caught.value.code, len(named)) == ("E_USAGE", 3)
    assert near in named


@pytest.mark.parametrize("name", ["", "x" * 100_000, "\x00", None, 3])
def test_nonsense_is_refused_like_an_unknown_id(name):
    with pytest.raises(ShoalError, match="E_USAGE"):
        d.get(name)


@pytest.mark.parametrize("search", [{"dimension": "Z"}, {"kind": "theorem"}])
def test_filters_that_do_not_exist_are_refused(search):
    with pytest.raises(ShoalError, match="E_USAGE"):
        d.find(**search)


def test_corrections_of_the_source_are_kept():
    assert ("stronger extension of", "dp") in d.get("group-dp").relations
    assert d.get("approximate-concentrated-dp").post_processing == "yes"


def test_the_reference_page_is_written_from_the_catalogue():
    stored = (ROOT / "docs" / "reference" / "definitions.md").read_text(encoding="utf-8")
    assert stored == reference_page(), "python -m shoal.definitions.reference > docs/reference/definitions.md"
