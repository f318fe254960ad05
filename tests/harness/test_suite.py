"""How the suite is run: what it repeats, and in which order."""

from __future__ import annotations

import pytest

from tests.conftest import LONGEST, Times
from tests.harness.jupyter import REPOSITORY


@pytest.mark.parametrize("name", LONGEST)
def test_files_that_run_first_exist(name: str) -> None:
    assert (REPOSITORY / name).is_file()


def test_slow_repetitions_are_reduced_unless_all_is_given(
    times: Times, pytestconfig: pytest.Config
) -> None:
    assert times(5, 30) == (30 if pytestconfig.getoption("--all") else 5)
