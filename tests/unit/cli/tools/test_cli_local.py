from __future__ import annotations

import json
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal import local
from shoal.accounting.ledger import Ledger
from shoal.params import Budget


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def asked(shoal, *words):
    done = shoal("local", "question", "How often?", *words, "-o", "q.json")
    assert done.status == 0, done.err
    return local.question("q.json")


def test_a_survey_from_question_to_estimate(shoal, tmp_path):
    question = asked(shoal, "--values", "never,once,often", "--epsilon", "1")
    assert question.title == "How often?"
    (tmp_path / "answers.csv").write_text("who,a\n" + "1,never\n2,often\n" * 500, encoding="utf-8")
    assert shoal("local", "randomize", "q.json", "answers.csv", "--column", "a", "-o", "r.jsonl").status == 0
    done = shoal("local", "estimate", "q.json", "r.jsonl")
    assert done.status == 0, done.err
    assert "often" in done.out
    assert "1,000 reports" in done.out
    data = json.loads(shoal("local", "estimate", "q.json", "r.jsonl", "--raw", "--population", "--json").out)
    assert {"n", "rejected", "epsilon", "promise", "rows"} <= set(data)
    assert (data["n"], data["epsilon"], data["promise"]) == (1000, 1.0, "local")
    assert [set(row) for row in data["rows"]] == [{"value", "share", "low", "high", "raw"}] * 3


@pytest.mark.parametrize(
    ("words", "values", "rows"),
    [
        (("--yes-no", "--epsilon", "1"), ["no", "yes"], 2),
        (("--count", "4", "--epsilon", "2"), [0, 9], 5),
        (("--number", "0,120", "--epsilon", "1"), [3.5, 99.0], 0),
        (("--values", "a,b", "--longitudinal", "1,4"), ["a", "b"], 2),
        (("--text", "--epsilon", "1"), ["ab", "cd"], 1),
    ],
)
def test_every_kind_of_question(shoal, tmp_path, words, values, rows):
    asked(shoal, *words)
    pq.write_table(pa.table({"a": values * 100}), tmp_path / "answers.parquet")
    (tmp_path / "candidates.txt").write_text("ab\n", encoding="utf-8")
    done = shoal("local", "randomize", "q.json", "answers.parquet", "--column", "a", "-o", "r.jsonl", "--json")
    assert json.loads(done.out)["reports"] == 200
    more = ("--candidates", "candidates.txt") if "--text" in words else ()
    data = json.loads(shoal("local", "estimate", "q.json", "r.jsonl", *more, "--json").out)
    assert len(data["rows"]) == rows
    assert ("mean" in data) == (words[0] in {"--count", "--number"})


def test_the_client_for_devices_carries_its_question(shoal, tmp_path):
    question = asked(shoal, "--yes-no", "--epsilon", "1")
    assert shoal("local", "client", "q.json", "-o", "client.py").status == 0
    assert question.sha256 in (tmp_path / "client.py").read_text(encoding="utf-8")
    code = "import client, json; print(json.dumps(client.Client(open('q.json').read()).randomize('yes')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert question.tally([done.stdout]).n == 1
    other = local.yes_no(epsilon=2).to_json()
    words = [sys.executable, "-c", f"import client; client.Client({other!r})"]
    refused = subprocess.run(words, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert "another question" in refused.stderr
    assert shoal("local", "client", "-o", "any.py").status == 0
    assert json.loads(shoal("local", "client", "q.json", "--json").out) == {"version": "1", "question": question.sha256}


def test_asking_is_charged_once_and_a_refusal_is_free(shoal, tmp_path):
    Ledger.create("ledger.db", Budget(3, 0))
    for _ in range(2):
        asked(shoal, "--yes-no", "--epsilon", "1", "--ledger", "ledger.db", "--user", "ada")
    assert Ledger.open("ledger.db").spent == (1, 0)
    wrong = [
        ("--values", "a", "--epsilon", "1"),
        ("--values", "a,a", "--epsilon", "1"),
        ("--yes-no", "--epsilon", "41"),
        ("--number", "5,5", "--epsilon", "1"),
        ("--values", "a,b", "--longitudinal", "4,1"),
        ("--yes-no", "--epsilon", "2.5"),
    ]
    for words in wrong:
        done = shoal("local", "question", "x", *words, "--ledger", "ledger.db", "-o", "no.json")
        assert done.status == 2, words
        assert not (tmp_path / "no.json").exists()
    assert (
        shoal("local", "question", "x", "--yes-no", "--epsilon", "1", "--ledger", "ledger.db", "-o", "no/where").status
        == 2
    )
    assert Ledger.open("ledger.db").spent == (1, 0)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("question", "x"), "E_USAGE"),
        (("question", "x", "--yes-no", "--text", "--epsilon", "1"), "E_USAGE"),
        (("question", "x", "--yes-no"), "E_USAGE"),
        (("question", "x", "--yes-no", "--epsilon", "much"), "E_USAGE"),
        (("question", "x", "--yes-no", "--epsilon", "1", "--user", "ada"), "E_USAGE"),
        (("question", "x", "--text", "--epsilon", "1", "--oracle", "unary"), "E_USAGE"),
        (("question", "x", "--count", "10", "--longitudinal", "1,4"), "E_USAGE"),
        (("question", "x", "--number", "1", "--epsilon", "1"), "E_USAGE"),
        (("question", "x", "--yes-no", "--epsilon", "1000"), "E_OPTION_INVALID"),
        (("estimate", "none.json", "none.jsonl"), "E_SOURCE"),
        (("randomize", "none.json", "none.csv", "--column", "a", "-o", "r"), "E_SOURCE"),
        (("compare", "--values", "1"), "E_OPTION_INVALID"),
        (("shuffled", "--epsilon", "50", "-n", "10", "--delta", "1e-6"), "E_OPTION_INVALID"),
        (("shuffled", "--epsilon", "1", "-n", "10", "--delta", "2"), "E_OPTION_INVALID"),
        (("shuffled", "--epsilon", "1", "-n", "10", "--delta", "1e-6", "--honest", "0"), "E_USAGE"),
    ],
)
def test_wrong_words_are_refused_with_a_hint(shoal, words, code):
    done = shoal("local", *words)
    assert done.status == 2
    assert done.err.startswith(code), done.err
    assert "Hint: " in done.err


def test_answers_that_cannot_be_read_are_refused(shoal, tmp_path):
    asked(shoal, "--values", "a,b", "--epsilon", "1")
    (tmp_path / "answers.csv").write_text("a\nb\nc\n", encoding="utf-8")
    for words, code in ((("answers.csv", "--column", "x"), "E_SOURCE"), (("answers.csv", "--column", "a"), "E_USAGE")):
        done = shoal("local", "randomize", "q.json", *words, "-o", "r.jsonl")
        assert done.err.startswith(code)
        assert "'c'" not in done.err
        assert not (tmp_path / "r.jsonl").exists()


def test_the_calculators_speak_to_people_and_machines(shoal):
    assert "central" in shoal("local", "compare").out
    data = json.loads(shoal("local", "compare", "--values", "16", "--epsilon", "0.5", "-n", "1000", "--json").out)
    assert {row["oracle"] for row in data["rows"]} == {"subset", "projective", "unary", "hashing"}
    assert data["central_standard_error"] < min(row["standard_error"] for row in data["rows"])
    data = json.loads(shoal("local", "shuffled", "--epsilon", "1", "-n", "10000", "--delta", "1e-6", "--json").out)
    assert data == {"epsilon": pytest.approx(0.0530, abs=5e-5), "local_epsilon": 1.0, "n": 10_000, "delta": 1e-6}
    assert "0.0432" in shoal("local", "shuffled", "--epsilon", "1", "-n", "10000", "--delta", "1e-6", "--yes-no").out
