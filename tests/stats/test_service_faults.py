"""A service to which everything happens, in a few seeds: nobody is charged twice, or for nothing, or unseen; every job ends.

The program beside it does the same with as many seeds as one has time for: docs/results/service.md has its figures.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).with_name("service_faults.py")


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("first", [116, 241])
def test_whatever_happens_to_a_service_its_charges_answers_and_log_agree(first, tmp_path):
    complaints = tmp_path / "complaints.txt"
    with complaints.open("w") as heard:
        words = [sys.executable, str(PROGRAM), "--first", str(first), "--seeds", "2"]
        said = subprocess.run(words, stdout=subprocess.PIPE, stderr=heard, text=True, check=False)
    found = [json.loads(line) for line in said.stdout.splitlines()]
    assert [(each["seed"], each["wrong"]) for each in found] == [(first, []), (first + 1, [])], complaints.read_text()
    assert sum(each["found"].get("charge answered", 0) for each in found)
