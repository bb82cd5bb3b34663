from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys

import pytest

from shoal import datasets


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """The demo as a newcomer sees it through a pipe."""
    place = tmp_path_factory.mktemp("newcomer")
    plain = {name: value for name, value in os.environ.items() if name != "SHOAL_PROGRAM"}
    done = subprocess.run(
        [sys.executable, "-m", "shoal", "demo"], cwd=place, env=plain, capture_output=True, text=True, check=True
    )
    return place, done.stdout


def test_the_demo_withholds_the_singled_out_site(told):
    (line,) = [line for line in told[1].splitlines() if line.strip().startswith(datasets.SINGLED_OUT_SITE)]
    assert "withheld" in line


def test_the_demo_is_plain_text_through_a_pipe(told):
    assert "\x1b" not in told[1]


def test_the_demo_refuses_to_overspend(told):
    assert "E_BUDGET" in told[1]


def test_the_three_commands_at_the_end_work(told):
    place, story = told
    commands = [line.strip() for line in story.splitlines() if line.strip().startswith("shoal ")][-3:]
    assert len(commands) == 3
    for command in commands:
        words = [sys.executable, "-m", *shlex.split(command)]
        assert subprocess.run(words, cwd=place, capture_output=True, text=True, check=True).stdout


def test_the_demo_can_be_told_twice_and_to_machines(told):
    words = [sys.executable, "-m", "shoal", "demo", "--json"]
    story = json.loads(subprocess.run(words, cwd=told[0], capture_output=True, text=True, check=True).stdout)
    assert story["exact"][datasets.SINGLED_OUT_SITE] == 1
    assert datasets.SINGLED_OUT_SITE in story["withheld"]
    assert story["spent"][0] == pytest.approx(1.5)
    visits = datasets.shop()["visits"].num_rows
    assert story["honest"]["visits_noise_high"] < visits
    assert story["honest"]["visits_low"] < visits < 4 * story["honest"]["visits_high"]


def test_a_folder_with_other_things_is_left_alone(shoal, tmp_path):
    (tmp_path / "thesis.txt").write_text("mine", encoding="utf-8")
    done = shoal("demo", str(tmp_path))
    assert done.status == 2
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize("place", ["thesis.txt", "thesis.txt/shop", "/proc/shop"])
def test_a_place_for_no_folder_is_refused_in_a_sentence(shoal, tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "thesis.txt").write_text("mine", encoding="utf-8")
    done = shoal("demo", place)
    assert done.status == 2
    assert done.err.startswith("E_USAGE: The sample shop cannot be put into")
    assert (tmp_path / "thesis.txt").read_text() == "mine"


@pytest.mark.skipif(os.geteuid() == 0, reason="the administrator may write everywhere")
def test_a_folder_that_may_not_be_written_is_refused_in_a_sentence(shoal, tmp_path):
    (tmp_path / "closed").mkdir(mode=0o500)
    assert shoal("demo", str(tmp_path / "closed" / "shop")).err.startswith("E_USAGE")
