"""Runs that agents can still ask about."""

from __future__ import annotations

from ..errors import RunNotFound
from ..execution.run import Run

#: Finished runs that are remembered.
KEPT = 100

#: Characters and bytes of the output of all of them.
_KEPT_SIZE = 50_000_000


class RememberedRuns(dict[str, Run]):
    """By id, the oldest first."""

    def find(self, run_id: str) -> Run:
        """A run by its id.

        Raises:
            RunNotFound: There is none, or it is no longer remembered.
        """
        run = self.get(run_id)
        if run is None:
            raise RunNotFound.among_last(KEPT, run_id)
        return run

    def add(self, run: Run) -> None:
        self[run.id] = run

    def limit(self) -> None:
        """Limit how many finished runs are remembered, and how much of their output."""
        size = 0
        for newer, run in enumerate(reversed(list(self.values()))):
            size += run.log.size
            if run.over and (newer >= KEPT or size > _KEPT_SIZE):
                del self[run.id]
