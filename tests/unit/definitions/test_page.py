"""The page: one file, no network, small, and complete without scripts."""

from __future__ import annotations

import json
import re
from dataclasses import asdict

from shoal import definitions as d
from shoal.definitions.advice import DEFINITIONS

PAGE = d.to_html()


def test_the_page_is_small_and_asks_nobody():
    assert len(PAGE.encode()) < 400_000
    assert "default-src 'none'" in PAGE
    assert re.findall(r'(?:src|href)="(?!#)[^"]*"', PAGE) == []
    assert "@import" not in PAGE
    assert "fetch(" not in PAGE


def test_every_entry_is_written_out_with_its_relations():
    ids = re.findall(r'<details id="([^"]+)"', PAGE)
    assert ids == [one.id for one in d.all()]
    links = set(re.findall(r'href="#([^"]+)"', PAGE))
    assert links - {"${id}"} <= set(ids)


def test_no_entry_can_end_the_data_block():
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', PAGE, re.DOTALL)[1]
    assert "<" not in data
    stored = json.loads(data)
    assert len(stored["entries"]) == 186
    wanted = json.loads(json.dumps([{k: v for k, v in asdict(rule).items() if v} for rule in DEFINITIONS]))
    assert stored["guide"]["definitions"] == wanted


def test_the_page_goes_to_a_file(tmp_path):
    path = tmp_path / "page.html"
    assert d.to_html(path) == PAGE == path.read_text(encoding="utf-8")
