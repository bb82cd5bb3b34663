from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal import local
from shoal.errors import ShoalError
from shoal.mechanisms.entropy import seeded_entropy

KINDS = ["subset", "projective", "unary", "hashing", "longitudinal", "text", "sign", "number", "count"]


def many(questions, values, name, count=500, seed=1):
    return questions[name].randomize_many([values[name]] * count, seeded_entropy(seed))


def totals_of(question, reports):
    return question.tally(reports, candidates=["a", "anything at all"] if question.spec["kind"] == "text" else None)


@pytest.mark.parametrize("name", KINDS)
def test_reports_survive_lines_bytes_and_lists(tmp_path, questions, values, name):
    question, reports = questions[name], many(questions, values, name)
    wanted = totals_of(question, reports)
    reports.to_jsonl(tmp_path / "reports.jsonl")
    (tmp_path / "reports.bin").write_bytes(reports.to_bytes())
    assert (wanted.n, wanted.rejected) == (500, 0)
    for path in (tmp_path / "reports.jsonl", tmp_path / "reports.bin"):
        assert totals_of(question, local.read_reports(path)) == wanted
        assert totals_of(question, path) == wanted
        assert totals_of(question, str(path)) == wanted
    assert totals_of(question, list(reports)) == wanted
    assert totals_of(question, iter(reports.lines())) == wanted


@pytest.mark.parametrize("name", KINDS)
def test_tallies_merge_to_one_pass_over_everything(questions, values, name):
    question = questions[name]
    parts = [many(questions, values, name, seed=seed) for seed in range(3)]
    tallies = [totals_of(question, part) for part in parts]
    assert tallies[0] + tallies[1] + tallies[2] == totals_of(question, parts[0] + parts[1] + parts[2])
    assert totals_of(question, parts) == totals_of(question, (part for part in parts))
    assert question.tally(tallies) == tallies[0] + tallies[1] + tallies[2]
    again = local.Tally.from_bytes(tallies[0].to_bytes())
    assert again == tallies[0]
    candidates = ["a", "anything at all"] if name == "text" else None
    assert repr(question.estimate(again)) == repr(question.estimate(parts[0], candidates=candidates))


def test_estimates_come_from_tallies_alone(questions, values):
    tally = totals_of(questions["unary"], many(questions, values, "unary"))
    assert questions["unary"].estimate(local.Tally.from_bytes(tally.to_bytes())).n == 500


ANSWERS = [
    "[]", "null", "-1", "1e300", "true", "9" * 400, '"zz"', "[0,1,2]", "[[0]]", '{"a":1}', "[1.5,0]", "99999999999999999999",
    "[99999999999999999999,0]", "[1,1]", '0,"s":1', '"FFF"', "[2,0]", '"+7"', '"1_"',
]  # fmt: skip
JUNK = [
    b"", b"{", b"null", b"[]", b"1", b'"x"', b"\xff\xfe", b"{}", b'{"q": 1, "r": 1}', b'{"q":"00000000","r":1}', b"[" * 5000,
    b'{"a":' * 3000, b"9" * 5000, b"NaN", b"-Infinity", b'{"q":NaN,"r":NaN}', b"\x00" * 100,
]  # fmt: skip


def hostile_lines(question, count):
    """Lines that a bored or angry respondent might send, over and over."""
    lines = JUNK + [f'{{"q":"{question.fingerprint}","r":{answer}}}'.encode() for answer in ANSWERS]
    return [lines[i % len(lines)] for i in range(count)]


@pytest.mark.parametrize("name", KINDS)
def test_hostile_lines_are_counted_and_never_raise(questions, values, name):
    question = questions[name]
    lines = [line for line in hostile_lines(question, len(JUNK) + len(ANSWERS)) if not is_answer(question, line)]
    assert len(lines) >= 30
    tally = totals_of(question, lines + list(many(questions, values, name, count=10).lines()))
    assert (tally.n, tally.rejected) == (10, len(lines))


def is_answer(question, line):
    """Some of the lines are answers to some of the questions."""
    try:
        report = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(report, dict) and set(report) == {"q", "r"} and question.design.parse(report["r"]) is not None


@pytest.mark.slow
def test_a_hundred_thousand_hostile_lines(tmp_path, questions):
    question = questions["projective"]
    path = tmp_path / "reports.jsonl"
    lines = [line.replace(b"\n", b"") for line in hostile_lines(question, 100_000)]
    path.write_bytes(b"\n".join(lines))
    empty = sum(not line.strip() for line in lines)
    tally = question.tally(path)
    assert (tally.n, tally.rejected) == (0, 100_000 - empty)
    with pytest.raises(ShoalError, match="E_SOURCE"):
        question.estimate(tally)


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_as_a_tally(data):
    for junk in (data, b"shoal local tally 1\n" + data, b'shoal local tally 1\n{"n":1}\n' + data):
        with pytest.raises(ShoalError, match="E_SOURCE"):
            local.Tally.from_bytes(junk)


def test_bytes_cut_or_changed_anywhere_are_refused_or_rejected(tmp_path, questions, values):
    whole = many(questions, values, "projective", count=50).to_bytes()
    path = tmp_path / "reports.bin"
    for end in range(25, len(whole), 7):
        path.write_bytes(whole[:end])
        with pytest.raises(ShoalError, match="E_"):
            questions["projective"].tally(local.read_reports(path))
    path.write_bytes(whole[:-4] + b"\xff\xff\xff\x7f")
    tally = questions["projective"].tally(path)
    assert (tally.n, tally.rejected) == (49, 1)


@pytest.mark.parametrize("name", KINDS)
def test_a_tally_that_cannot_be_is_refused(questions, values, name):
    question = questions[name]
    tally = totals_of(question, many(questions, values, name))
    for totals in (tally.totals[:-1], np.append(tally.totals, 0), tally.totals - 10_000):
        forged = local.Tally(tally.sha256, tally.n, 0, totals, tally.values)
        with pytest.raises(ShoalError, match="E_SOURCE"):
            question.estimate(forged)


def test_reports_and_tallies_of_other_questions_do_not_mix(questions, values):
    one, other = many(questions, values, "unary"), many(questions, values, "subset")
    with pytest.raises(ShoalError, match="E_SOURCE"):
        one + other
    with pytest.raises(ShoalError, match="E_SOURCE"):
        totals_of(questions["unary"], one) + totals_of(questions["subset"], other)
    with pytest.raises(ShoalError, match="another question"):
        questions["unary"].estimate(other)
    with pytest.raises(ShoalError, match="another question"):
        questions["unary"].estimate(list(other))
    with pytest.raises(ShoalError, match="E_SOURCE"):
        questions["unary"].estimate(totals_of(questions["subset"], other))


def test_too_many_rejected_reports_stop_an_estimate(questions, values):
    question = questions["unary"]
    reports = list(many(questions, values, "unary", count=99))
    assert question.estimate([*reports, {"q": "else", "r": 1}]).rejected == 1
    with pytest.raises(ShoalError, match="2 of 101"):
        question.estimate([*reports, {"q": "else", "r": 1}, 7])
    assert question.estimate([*reports, 7, 7], max_rejected=0.05).rejected == 2


def test_a_file_that_is_not_there_is_a_source_error(tmp_path, questions):
    with pytest.raises(ShoalError, match="E_SOURCE"):
        local.read_reports(tmp_path / "nothing")
    with pytest.raises(ShoalError, match="E_SOURCE"):
        local.question(tmp_path / "nothing.json")


def test_values_come_as_lists_arrow_and_numpy(questions):
    question = questions["projective"]
    for column in ([1, 2, 3], np.array([1, 2, 3]), pa.array([1, 2, 3]), pa.chunked_array([[1], [2, 3]]), range(1, 4)):
        assert len(question.randomize_many(column)) == 3
    texts = pa.array(["never", "once", "never"]).dictionary_encode()
    assert len(questions["unary"].randomize_many(texts)) == 3
    assert len(questions["unary"].randomize_many([])) == 0
