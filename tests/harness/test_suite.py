"""How the suite is run: what it repeats, in which order, and what it measures."""

from __future__ import annotations

import os

import pytest

from tests.conftest import LONGEST, Times
from tests.harness import measuring
from tests.harness.jupyter import REPOSITORY


@pytest.mark.parametrize("name", LONGEST)
def test_files_that_run_first_exist(name: str) -> None:
    assert (REPOSITORY / name).is_file()


def test_slow_repetitions_are_reduced_unless_all_is_given(
    times: Times, pytestconfig: pytest.Config
) -> None:
    assert times(5, 30) == (30 if pytestconfig.getoption("--all") else 5)


def test_a_pause_of_measuring_does_not_change_what_is_measured_afterwards() -> None:
    environment, leave = dict(os.environ), os._exit
    with measuring.paused():
        pass
    assert dict(os.environ) == environment
    assert os._exit is leave
