"""How the work for an input grows with its size, which needs no clock that all machines share."""

from __future__ import annotations

import time
from collections.abc import Callable

#: Seconds below which a clock says little.
_SHORT = 0.005


def growth(work: Callable[[int], object], size: int) -> float:
    """How many times as long something takes for four times the size: 4 if it is linear."""
    small, large = _time(work, size), _time(work, 4 * size)
    return large / max(small, _SHORT)


def _time(work: Callable[[int], object], size: int) -> float:
    times = []
    for _ in range(3):
        began = time.process_time()
        work(size)
        times.append(time.process_time() - began)
    return min(times)
