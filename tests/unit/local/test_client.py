from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from shoal import local
from shoal.local import client
from shoal.local.client import Client
from shoal.mechanisms.entropy import seeded_entropy

SOURCE = Path(client.__file__)


def test_the_client_is_one_short_file_of_the_standard_library():
    text = SOURCE.read_text(encoding="utf-8")
    imported = {
        (node.module if isinstance(node, ast.ImportFrom) else alias.name).split(".")[0]
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert len(text.splitlines()) < 250
    assert imported <= {*sys.stdlib_module_names}


def test_the_client_runs_alone_in_an_empty_interpreter(tmp_path, questions, values):
    """-I: no packages, no environment, no current folder; a copy of the file and the question are all it has."""
    (tmp_path / "device.py").write_text(SOURCE.read_text(encoding="utf-8"), encoding="utf-8")
    for name, question in questions.items():
        code = (
            f"import sys; sys.path[:] = [p for p in sys.path if 'site-packages' not in p] + [{str(tmp_path)!r}]\n"
            f"import json, device; client = device.Client({question.to_json()!r})\n"
            f"print(json.dumps(client.randomize({values[name]!r}))); assert 'numpy' not in sys.modules"
        )
        done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        report = json.loads(done.stdout)
        tally = question.tally([report], candidates=["x"] if name == "text" else None)
        assert (tally.n, tally.rejected) == (1, 0)


def test_the_client_of_the_package_loads_no_numpy():
    code = "import sys, shoal.local.client; print([m for m in ('numpy', 'pyarrow', 'opendp') if m in sys.modules])"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )


@pytest.mark.parametrize(
    "name", ["subset", "projective", "unary", "hashing", "longitudinal", "text", "sign", "number", "count"]
)
def test_the_same_question_and_round_give_the_same_report_again(tmp_path, questions, values, name):
    memory = tmp_path / "memory.json"
    first = Client(questions[name].to_json(), memory).randomize(values[name])
    again = Client(questions[name].to_json(), memory)
    other = {"subset": "never", "projective": 1, "text": "b", "sign": 3, "number": -1, "count": 9}.get(name, "never")
    assert again.randomize(other) == first
    assert Client(questions[name].to_json(), memory).randomize(values[name]) == first
    assert memory.stat().st_mode & 0o777 == 0o600


def test_a_new_round_draws_a_new_report_from_the_same_permanent_bits(tmp_path):
    question = local.choice(range(64), longitudinal=(1, 4))
    device = Client(question.to_json(), tmp_path / "memory.json")
    reports = [int(device.randomize(3, round=str(turn))["r"], 16) for turn in range(400)]
    kept = json.loads((tmp_path / "memory.json").read_text(encoding="utf-8"))[question.sha256]
    permanent = int(kept["permanent"], 16)
    # 400 rounds, keep = 0.74: the majority of a bit is wrong with chance below 1e-20 (Hoeffding); 64 bits.
    majority = sum(1 << i for i in range(64) if sum(report >> i & 1 for report in reports) > 200)
    assert len(set(reports)) == 400
    assert majority == permanent


def test_later_values_change_nothing_about_permanent_bits(tmp_path):
    """No refusal and no new bits: either would tell that, and when, the value changed."""
    question = local.choice(range(8), longitudinal=(1, 4))
    device = Client(question.to_json(), tmp_path / "memory.json")
    device.randomize(1, round="a")
    before = json.loads((tmp_path / "memory.json").read_text(encoding="utf-8"))[question.sha256]["permanent"]
    device.randomize(2, round="b")
    after = json.loads((tmp_path / "memory.json").read_text(encoding="utf-8"))[question.sha256]["permanent"]
    assert before == after


def test_without_memory_a_client_still_repeats_itself():
    device = Client(local.text(epsilon=1).to_json())
    assert device.randomize("a") == device.randomize("b")


def test_a_damaged_memory_is_refused_and_never_forgotten(tmp_path):
    (tmp_path / "memory.json").write_text("{", encoding="utf-8")
    with pytest.raises(ValueError, match="Expecting"):
        Client(local.yes_no(epsilon=1).to_json(), tmp_path / "memory.json")
    assert (tmp_path / "memory.json").read_text(encoding="utf-8") == "{"


def test_a_copy_for_one_question_refuses_another(monkeypatch):
    one, other = local.yes_no(epsilon=1), local.yes_no(epsilon=2)
    monkeypatch.setattr(client, "QUESTION_SHA256", one.sha256)
    assert Client(one.to_json()).randomize("yes")
    with pytest.raises(ValueError, match="another question"):
        Client(other.to_json())


def changed(question, **parts):
    return json.loads(question.to_json()) | parts


@pytest.mark.parametrize(
    ("kind", "parts"),
    [
        ("subset", {"weights": [1 << 41, 1 << 40]}),
        ("subset", {"epsilon": "0.49"}),
        ("subset", {"size": 0}),
        ("subset", {"size": 5}),
        ("subset", {"size": 2.0}),
        ("subset", {"size": True}),
        ("subset", {"epsilon": "41"}),
        ("subset", {"epsilon": "nan"}),
        ("subset", {"values": ["a"]}),
        ("subset", {"values": ["a", "a", "b"]}),
        ("subset", {"values": ["a", 1.5]}),
        ("subset", {"weights": [1, 2]}),
        ("subset", {"weights": [0, 0]}),
        ("subset", {"weights": [1.5, 1.0]}),
        ("subset", {"oracle": "else"}),
        ("subset", {"kind": "else"}),
        ("projective", {"field": 4}),  # no field: points would have different numbers of supporters
        ("projective", {"field": 1}),
        ("projective", {"field": 2, "coordinates": 3}),  # 7 points for 10 values
        ("projective", {"coordinates": 1 << 40}),
        ("unary", {"weights": [3 << 40, 1 << 40]}),
        ("hashing", {"buckets": 1}),
        ("hashing", {"buckets": 1 << 60}),
        ("longitudinal", {"first": "0.99"}),
        ("longitudinal", {"epsilon": "3.99"}),
        ("longitudinal", {"keep": [1, 1]}),
        ("longitudinal", {"keep": [1, 4]}),
        ("longitudinal", {"oracle": "subset", "size": 1}),
        ("text", {"weights": [1 << 90, 1 << 40]}),
        ("number", {"lower": "2"}),
        ("number", {"reach": 1 << 30}),
        ("number", {"mix": [2, 1]}),
        ("number", {"mix": [0, 0]}),
        ("number", {"weights": [8 << 40, 1 << 40]}),
        # Checked as one kind and drawn as another: what is checked is what is drawn.
        (
            "count",
            {"oracle": "hashing", "ratio": [1, 1 << 40], "weights": [1 << 90, 1], "values": ["a", "b"], "buckets": 2},
        ),
        ("subset", {"oracle": "number", "lower": "0", "upper": "1", "mix": [1, 1], "reach": 1}),
        ("subset", {"oracle": "count", "upper": 5, "ratio": [1099511627775, 1 << 40]}),
        ("text", {"kind": "survey"}),
        ("count", {"keep": [1, 2]}),
        ("subset", {"epsilon": "1e999999999"}),
        ("subset", {"epsilon": "9" * 20_000}),
        ("number", {"upper": "1e999999999"}),
        ("subset", {"weights": [10**4000, 10**4000]}),
        ("count", {"ratio": [1, 1 << 40]}),
        ("count", {"ratio": [1, 1]}),
        ("count", {"ratio": [0, 1]}),
        ("count", {"upper": 0}),
        ("count", {"upper": 10**9}),
    ],
)
def test_a_question_that_does_not_keep_what_it_claims_is_refused_by_the_client(questions, kind, parts):
    with pytest.raises(ValueError, match="do not keep"):
        Client(json.dumps(changed(questions[kind], **parts)))
    with pytest.raises(local_error()):
        local.question(changed(questions[kind], **parts))


def local_error():
    from shoal.errors import ShoalError

    return ShoalError


def test_what_is_checked_is_what_is_drawn(questions):
    """A count that also names an oracle is a count: the oracle's unchecked weights are never looked at."""
    spec = changed(questions["count"], oracle="hashing", weights=[1 << 120, 1], values=["a", "b"], buckets=2)
    assert isinstance(Client(spec).randomize(3)["r"], int)
    spec = changed(questions["text"], oracle="number")
    assert isinstance(Client(spec).randomize("tea")["r"], list)


@pytest.mark.parametrize("junk", ["[]", "1", "null", "{}", '{"kind": "choice"}', '{"kind": ["choice"]}'])
def test_junk_is_no_question(junk):
    with pytest.raises(ValueError, match="do not keep"):
        Client(junk)


def test_points_are_ordered_by_their_leading_place_and_then_by_their_digits():
    points = [client.point(i, 3, 3) for i in range(13)]
    assert points[:10] == [[1, a, b] for a in range(3) for b in range(3)] + [[0, 1, 0]]
    assert points[12] == [0, 0, 1]
    for number, vector in enumerate(points):
        assert [client.number_of([digit * scale % 3 for digit in vector], 3) for scale in (1, 2)] == [number, number]


def test_uniform_integers_have_no_modulo_bias():
    """Every value of 3 bits once: 5, 6 and 7 are drawn again, and the others come out once each."""
    drawn = iter([7, 0, 6, 1, 2, 5, 3, 4])
    assert [client.below(5, lambda _: next(drawn)) for _ in range(5)] == [0, 1, 2, 3, 4]


def test_biased_bits_have_their_chance():
    """65,536 coins of chance 5/16: mean within 8 standard deviations, false alarms below 1e-14."""
    ones = client.biased_bits(65_536, 5, 16, seeded_entropy(3).bits).bit_count()
    assert abs(ones - 65_536 * 5 / 16) < 8 * (65_536 * 5 / 16 * 11 / 16) ** 0.5


def test_a_uniform_subset_is_uniform():
    """20,000 pairs out of four: six sets, each within 8 standard deviations of 1/6."""
    entropy = seeded_entropy(4)
    counts = Counter(frozenset(client.some_of(4, 2, entropy.bits)) for _ in range(20_000))
    assert len(counts) == 6
    assert all(abs(seen - 20_000 / 6) < 8 * (20_000 * 5 / 36) ** 0.5 for seen in counts.values())


@pytest.mark.parametrize("wrong", [None, 1.5, "1", True, float("nan"), [], {}])
def test_a_value_of_the_wrong_kind_is_refused_without_naming_it(questions, wrong):
    for name in ("subset", "projective"):
        with pytest.raises(ValueError, match="not in the list"):
            Client(questions[name].to_json()).randomize(wrong)
    with pytest.raises(ValueError, match="number"):
        Client(questions["count"].to_json()).randomize(wrong)


def test_numbers_and_counts_are_clamped():
    encode = Client(local.number(0, 10, epsilon=1).to_json()).encode
    assert [encode(x) for x in (-5, float("-inf"), 0.1, 99, float("inf"))] == [0, 0, Fraction(1, 100), 1, 1]
    counts = Client(local.count(10, epsilon=1).to_json()).encode
    assert [counts(x) for x in (-1, 3, 3.0, 11, float("inf"))] == [0, 3, 3, 10, 10]
    with pytest.raises(ValueError, match="whole"):
        counts(2.7)


@pytest.mark.parametrize("lower", ["3", "-1000", 3, "1/2"])
def test_a_count_begins_at_zero_whatever_the_collector_adds(lower):
    """Clamped to a lower end that no weight allows for, a count of 4 alone could be reported as 0."""
    question = json.loads(local.count(1, epsilon=1).to_json())
    device = Client({**question, "lower": lower})
    assert [device.encode(value) for value in (-5, 0, 1, 2, 50)] == [0, 0, 1, 1, 1]


def test_hashing_in_columns_is_the_hashing_of_the_client(questions):
    from shoal.local.oracles import _coefficients, _hashed, _hashes

    seeds = np.array([int.from_bytes(os.urandom(8), "little") for _ in range(300)] + [0, 2**64 - 1], dtype=np.uint64)
    texts = ["", "never", "ä", 7, "x" * 1000]
    slopes, offsets = _coefficients(seeds)
    for buckets in (2, 3, 4, 55, 1 << 20):
        found = _hashed(slopes[:, None], offsets[:, None], _hashes(texts)[None, :], buckets)
        wanted = [[client.bucket_of(text, int(seed), buckets) for text in texts] for seed in seeds]
        assert found.tolist() == wanted
