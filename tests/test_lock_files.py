"""pyproject.toml, uv.lock and the files of hashed requirements agree; checked without a network."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LOCK_TEXT = (ROOT / "uv.lock").read_text(encoding="utf-8")
LOCK = tomllib.loads(LOCK_TEXT)
REQUIREMENTS = (ROOT / "requirements-lock.txt").read_text(encoding="utf-8")
SITE_REQUIREMENTS = (ROOT / "requirements-docs.txt").read_text(encoding="utf-8")
HEAVY_REQUIREMENTS = (ROOT / "requirements-heavy.txt").read_text(encoding="utf-8")
ALL_REQUIREMENTS = REQUIREMENTS + SITE_REQUIREMENTS + HEAVY_REQUIREMENTS

REFRESH = "run ./run lock"


def locked_requirements(file: str) -> dict[tuple[str, str], set[str]]:
    """(name, version) → hashes, as a file of requirements has them."""
    found = {}
    for block in file.replace("\\\n", " ").splitlines():
        if block.startswith(("#", " ")) or not block.strip():
            continue
        requirement = Requirement(block.split(" --hash", 1)[0])
        (specifier,) = requirement.specifier
        assert specifier.operator == "=="
        found[canonicalize_name(requirement.name), specifier.version] = set(re.findall(r"--hash=(\S+)", block))
    return found


def locked_packages() -> dict[tuple[str, str], set[str]]:
    """(name, version) → hashes, as uv.lock has them; the project itself left out."""
    return {
        (package["name"], package["version"]): {
            file["hash"] for file in [*package.get("wheels", []), *([package["sdist"]] if "sdist" in package else [])]
        }
        for package in LOCK["package"]
        if package["name"] != PROJECT["project"]["name"]
    }


def as_pairs(requirements: list[str]) -> set[tuple[str, str]]:
    parsed = [Requirement(text) for text in requirements]
    return {(canonicalize_name(one.name), str(one.specifier)) for one in parsed}


def test_the_hashed_requirements_hold_exactly_the_packages_of_uv_lock():
    assert locked_requirements(ALL_REQUIREMENTS) == locked_packages(), REFRESH


def test_what_builds_the_site_is_not_installed_with_the_demo():
    assert "mkdocs-material" not in {name for name, _ in locked_requirements(REQUIREMENTS)}
    assert "mkdocs-material" in {name for name, _ in locked_requirements(SITE_REQUIREMENTS)}


@pytest.mark.parametrize("heavy", ["pyspark", "grpcio", "ipykernel", "nbclient", "playwright", "adbc-driver-flightsql"])
def test_what_only_some_tests_need_is_not_installed_with_the_demo(heavy):
    assert heavy not in {name for name, _ in locked_requirements(REQUIREMENTS)}
    assert heavy in {name for name, _ in locked_requirements(HEAVY_REQUIREMENTS)}


def test_uv_lock_was_made_from_this_project_file():
    (own,) = [package for package in LOCK["package"] if package["name"] == PROJECT["project"]["name"]]
    metadata = own["metadata"]
    extras = PROJECT["project"]["optional-dependencies"]
    declared = as_pairs([*PROJECT["project"]["dependencies"], *(one for extra in extras.values() for one in extra)])
    recorded = as_pairs([f"{one['name']}{one.get('specifier', '')}" for one in metadata["requires-dist"]])
    assert recorded == declared, REFRESH
    for group, requirements in PROJECT["dependency-groups"].items():
        in_lock = [f"{one['name']}{one.get('specifier', '')}" for one in metadata["requires-dev"][group]]
        assert as_pairs(in_lock) == as_pairs(requirements), REFRESH
    assert own["version"] == PROJECT["project"]["version"], REFRESH
    assert LOCK["requires-python"] == PROJECT["project"]["requires-python"], REFRESH


def test_every_locked_version_satisfies_what_the_project_asks():
    asked = [
        Requirement(text)
        for text in [
            *PROJECT["project"]["dependencies"],
            *(one for extra in PROJECT["project"]["optional-dependencies"].values() for one in extra),
            *(one for group in PROJECT["dependency-groups"].values() for one in group),
        ]
        if not text.startswith("shoal[")
    ]
    for requirement in asked:
        versions = [version for name, version in locked_packages() if name == canonicalize_name(requirement.name)]
        assert versions, f"{requirement.name} is not locked; {REFRESH}"
        assert all(Version(version) in requirement.specifier for version in versions), requirement


def test_the_lock_files_name_the_public_index_and_no_other_host():
    hosts = set(re.findall(r"https?://([^/\"\s]+)", LOCK_TEXT + ALL_REQUIREMENTS))
    assert hosts <= {"pypi.org", "files.pythonhosted.org"}
    assert "index-url" not in ALL_REQUIREMENTS
    assert "find-links" not in ALL_REQUIREMENTS


def test_a_locked_install_resolves_nothing():
    """pip 23 takes the newest release of what a package wants with an extra, and then misses its hash."""
    script = (ROOT / "run").read_text(encoding="utf-8").replace("\\\n", " ")
    installs = [line for line in script.splitlines() if "--require-hashes" in line]
    assert len(installs) == 3
    assert all("--no-deps" in line for line in installs)
