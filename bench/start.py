"""What the extension adds to the start of Jupyter: from the spawn to the first answer."""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import replace
from pathlib import Path
from time import perf_counter

from tests.conftest import EXTENSIONS
from tests.harness.jupyter import JupyterProcess

from .measuring import Goal, Row, Sizes
from .timed_start import EXTENSION, MARK

GOAL = Goal(0.3)


async def run(sizes: Sizes) -> list[Row]:
    without: list[float] = []
    with_ours: list[float] = []
    own: list[float] = []
    for number in range(1 + sizes.starts):
        seconds, _ = await _start(enabled=False)
        seconds_with_ours, log = await _start(enabled=True)
        if number:  # the first fills the disk's cache
            without.append(seconds)
            with_ours.append(seconds_with_ours)
            own.append(float(log.partition(MARK)[2].split()[0]))
    answer = Row.compare("start", "first answer: added", without, with_ours, GOAL, "s")
    assert answer.floor is not None
    return [
        replace(answer, figure=answer.subject - answer.floor),
        Row.absolute("start", "our import, link and load", own, GOAL, "s"),
    ]


async def _start(enabled: bool) -> tuple[float, str]:
    """Start a server and stop it; the seconds until it answered, and its log."""
    with tempfile.TemporaryDirectory(prefix="bench-") as root:
        extensions = {**EXTENSIONS, EXTENSION: enabled}
        async with _TimedJupyter(Path(root), extensions=extensions) as server:
            return server.seconds, server.log


class _TimedJupyter(JupyterProcess):
    """A Jupyter server that is asked so often that its first answer can be timed."""

    seconds = 0.0

    async def start(self) -> None:
        self._module = "bench.timed_start"
        start = perf_counter()
        self._process = self._spawn()
        while not await asyncio.to_thread(self._answers):
            if not self.running:
                raise RuntimeError(f"Jupyter ended at start:\n{self.log}")
            await asyncio.sleep(0.005)
        self.seconds = perf_counter() - start
