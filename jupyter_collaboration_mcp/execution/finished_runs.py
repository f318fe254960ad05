"""Finished runs whose threads, tasks and callbacks may still produce output.

Such output goes to the log of the run, and to its cell for as long as the cell shows this run. The
state of the run does not change.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from ..backends.protocols.kernels import KernelMessage
from .kernel_messages import log_output, update_display
from .output_writer import OutputWriter
from .run import Run

#: Finished runs of one kernel that are followed, and the characters and bytes of their output. Runs
#: whose cell was run again are dropped first, then those that have been silent the longest.
_FOLLOWED = 500
_FOLLOWED_SIZE = 50_000_000


class FinishedRuns:
    """Follows the runs of one kernel process after their end.

    Args:
        writer: Writes their output.
        forget: Called with a request whose messages are no longer needed.
    """

    def __init__(self, writer: OutputWriter, forget: Callable[[str], None]) -> None:
        self._writer = writer
        self._forget = forget
        self._runs: OrderedDict[str, Run] = OrderedDict()  # the last one heard from is last
        self._last = ""

    def __contains__(self, request: str) -> bool:
        return request in self._runs

    def add(self, request: str, run: Run) -> None:
        """Follow a run that has just ended."""
        if run.cell_id is not None:
            for other, before in list(self._runs.items()):
                if (before.room_id, before.cell_id) == (run.room_id, run.cell_id):
                    self._runs.move_to_end(other, last=False)
        self._runs[request] = run
        self._last = request
        size = sum(each.log.size for each in self._runs.values())
        while len(self._runs) > 1 and (len(self._runs) > _FOLLOWED or size > _FOLLOWED_SIZE):
            forgotten, silent = self._runs.popitem(last=False)
            size -= silent.log.size
            self._forget(forgotten)

    def receive(self, message: KernelMessage) -> None:
        """Handle a message about one of these runs, or about one of our own questions.

        Questions have no output. It comes from a thread: Python kernels name the latest request as
        the cause of what threads print, whatever it was.
        """
        request = message.parent if message.parent in self._runs else self._last
        run = self._runs.get(request)
        if run is not None and message.channel == "iopub":
            self._runs.move_to_end(request)
            log_output(run, message)
            self._writer.write_soon(run)

    def update_display(self, message: KernelMessage) -> None:
        """Update a display wherever these runs show it."""
        for run in self._runs.values():
            if update_display(run.log, message):
                self._writer.write_soon(run)

    def clear(self) -> None:
        """Stop following all of them: their kernel is gone."""
        self._runs.clear()
