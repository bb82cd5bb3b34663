"""The verbs that calculate: tables, JSON, exit status, refusals."""

from __future__ import annotations

import json

import pytest

from shoal.cli.main import run


def call(capsys, *words):
    with pytest.raises(SystemExit) as left:
        run(list(words))
    told = capsys.readouterr()
    return left.value.code, told.out, told.err


def test_compose_shows_every_rule_and_says_what_is_assumed(capsys):
    status, out, _ = call(capsys, "compose", "dp(0.1)*50", "--delta", "1e-6")
    assert status == 0
    assert all(rule in out for rule in ("basic", "advanced", "optimal", "zcdp", "renyi", "gdp", "numerical"))
    assert "fixed beforehand" in out


def test_compose_in_json_has_these_keys(capsys):
    status, out, _ = call(capsys, "compose", "gaussian(20)*50", "--delta", "1e-6", "--rule", "gdp", "--json")
    answer = json.loads(out)
    assert (status, list(answer)) == (0, ["epsilon", "delta", "rule", "by_rule"])
    assert answer["epsilon"] == pytest.approx(1.543630, rel=1e-6)


@pytest.mark.parametrize(("budget", "expected"), [("4,1e-6", 0), ("3,1e-6", 1)])
def test_compose_tells_by_its_exit_status_whether_a_budget_is_kept(capsys, budget, expected):
    assert call(capsys, "compose", "dp(0.1)*50", "--fits", budget)[0] == expected


@pytest.mark.parametrize(
    "words",
    [
        ("compose", "dp(0.1)*50"),
        ("compose", "dp(0.1)*50", "--delta", "1e-6", "--epsilon", "1"),
        ("compose", "dp(0.1", "--delta", "1e-6"),
        ("compose", "dp(0.1)", "--delta", "1e-6", "--rule", "magic"),
        ("compose", "dp(0.1)", "--fits", "one"),
        ("convert", "renyi(8, 0.5)", "--to", "magic"),
        ("convert", "dp(1) + dp(1)", "--to", "zcdp"),
        ("group", "dp(1)"),
    ],
)
def test_wrong_usage_is_told_in_a_sentence(capsys, words):
    status, _, err = call(capsys, *words)
    assert (status, err[:7]) == (2, "E_USAGE")


def test_convert_group_and_subsample(capsys):
    _, out, _ = call(capsys, "convert", "renyi(8, 0.5)", "--to", "dp", "--delta", "1e-6", "--json")
    assert json.loads(out)["epsilon"] == pytest.approx(2.043050, rel=1e-6)
    _, out, _ = call(capsys, "group", "dp(0.5,1e-8)", "--size", "4", "--json")
    assert json.loads(out)["delta"] == pytest.approx(9.848692e-8, rel=1e-6)
    _, out, _ = call(capsys, "subsample", "dp(1,1e-6)", "--rate", "0.01")
    assert out.startswith("dp(0.0170368")
    _, out, _ = call(capsys, "convert", "--json")
    assert {"from", "to", "formula", "needs"} == set(json.loads(out)[0])


def test_meaning_for_people_and_machines(capsys, tmp_path):
    page = tmp_path / "meaning.html"
    status, out, _ = call(capsys, "meaning", "12", "--people", "1000", "--deployments", "--html", str(page))
    assert (status, "Warning: ε = 12 protects nobody" in out, "LinkedIn" in out) == (0, True, True)
    assert "default-src 'none'" in page.read_text(encoding="utf-8")
    status, out, _ = call(capsys, "meaning", "1.1", "--delta", "1e-6", "--prior", "0.1", "--json")
    assert {"epsilon", "delta", "posterior", "power", "guess_accuracy", "sentences", "warning"} <= set(json.loads(out))


def test_meaning_refuses_what_is_no_epsilon(capsys):
    status, _, err = call(capsys, "meaning", "--", "-1")
    assert (status, err[:16]) == (2, "E_OPTION_INVALID")


def test_the_catalogue_on_the_command_line(capsys, tmp_path):
    status, out, _ = call(capsys, "definitions", "list", "--dimension", "Q", "--composes", "--search", "concentrated")
    assert (status, out.splitlines()[0].split()[0]) == (0, "mean-concentrated-dp")
    assert json.loads(call(capsys, "definitions", "show", "dp", "--json")[1])["id"] == "dp"
    assert (
        json.loads(call(capsys, "definitions", "relation", "dp", "approximate-dp", "--json")[1])["kind"] == "stronger"
    )
    assert call(capsys, "definitions", "relation", "pixel-dp", "dp")[0] == 1
    assert json.loads(call(capsys, "definitions", "path", "dp", "kl-privacy", "--json")[1])[0]["target"] == "kl-privacy"
    assert call(capsys, "definitions", "path", "kl-privacy", "dp")[0] == 1
    guided = call(capsys, "definitions", "guide", "--protects", "some values", "--needs", "constraints", "--json")
    assert json.loads(guided[1])["definition"] == "blowfish"
    assert call(capsys, "definitions", "page", str(tmp_path / "page.html"))[0] == 0


@pytest.mark.parametrize(
    "words",
    [("show", "nothing"), ("relation", "dp", "nothing"), ("list", "--dimension", "Z"), ("guide", "--protects", "cats")],
)
def test_the_catalogue_refuses_unknown_names(capsys, words):
    status, _, err = call(capsys, "definitions", *words)
    assert (status, err[:7]) == (2, "E_USAGE")
