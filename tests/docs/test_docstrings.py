"""Every example in a docstring runs."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import shoal

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(shoal.__path__, prefix="shoal.")
    if not module.name.endswith("__main__")
)


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_the_module_run(name, workplace):
    failed, _ = doctest.testmod(importlib.import_module(name), optionflags=doctest.IGNORE_EXCEPTION_DETAIL)
    assert failed == 0
