"""tests/unit/ has the rooms of src/shoal/: who knows the module knows where its tests are."""

from __future__ import annotations

from pathlib import Path

import pytest

UNIT = Path(__file__).parent / "unit"
SOURCE = Path(__file__).parent.parent / "src" / "shoal"
FOLDERS = sorted({path.parent.relative_to(UNIT) for path in UNIT.rglob("test_*.py")})


@pytest.mark.parametrize("folder", FOLDERS, ids=str)
def test_a_folder_of_unit_tests_is_a_room(folder: Path):
    assert (SOURCE / folder / "__init__.py").exists()


def test_what_is_beside_the_rooms_is_about_a_module_beside_the_rooms():
    modules = {path.stem for path in SOURCE.glob("*.py")}
    strangers = [path.name for path in UNIT.glob("test_*.py") if path.stem.removeprefix("test_") not in modules]
    assert strangers == []


def test_no_two_files_of_tests_have_one_name():
    """Folders of tests are no packages, so pytest cannot tell two modules of one name apart."""
    names = [path.name for path in Path(__file__).parent.rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))
