"""What `conftest.py` says about tests that share a process reaches the one who deals them out."""

from __future__ import annotations

import os


def test_the_group_of_a_test_is_in_its_identifier_where_processes_share_the_tests(request):
    """It was not with pytest 9.2 and xdist 3.8: every process then started a Java machine, and opened what a file shares."""
    assert request.node.nodeid.endswith("@test_shared_processes") == ("PYTEST_XDIST_WORKER" in os.environ)
