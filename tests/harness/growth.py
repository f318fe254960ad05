"""How the work for an input grows with its size, which needs no clock that all machines share."""

from __future__ import annotations

import cProfile
import math
import time
from collections.abc import Callable

#: Seconds below which a clock says little.
_SHORT = 0.005


def growth(work: Callable[[int], object], size: int) -> float:
    """How many times as long something takes for four times the size: 4 if it is linear."""
    small, large = math.inf, math.inf
    for turn in range(12):  # in turn, so that a machine that is slow for a while is so for both
        small, large = min(small, _time(work, size)), min(large, _time(work, 4 * size))
        if turn >= 3 and large < 6 * max(small, _SHORT):
            break  # else it may still be slow
    return large / max(small, _SHORT)


def calls(work: Callable[[], object]) -> int:
    """How many calls something makes, in Python and out of it; a million take a tenth of a second.

    Unlike a time, this is the same on every machine.
    """
    profile = cProfile.Profile()
    profile.runcall(work)
    return sum(entry.callcount for entry in profile.getstats())


def _time(work: Callable[[int], object], size: int) -> float:
    began = time.process_time()
    work(size)
    return time.process_time() - began
