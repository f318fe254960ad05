"""The undo steps of a process that has no journal of its own: the command, for each server.

They are in a journal like that of the extension, of which only the steps are used. Several commands
may have joined a server: each writes a journal of its own, and takes over those of commands that
have ended.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from ..protocols.steps import Steps
from .journal import Journal
from .journals import open_journals


class StepsFolder:
    """The journals in a directory, which are opened when they are needed first."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._journal: Journal | None = None
        self._opening = asyncio.Lock()

    async def opened(self) -> Steps:
        """The steps in them."""
        async with self._opening:
            if self._journal is None:
                self._journal = await asyncio.to_thread(self._open)
        return self._journal.steps

    async def close(self) -> None:
        """Write what is left, and release the journal."""
        async with self._opening:
            if self._journal is not None:
                await self._journal.close()

    def _open(self) -> Journal:
        journal, held = open_journals(self._directory)
        for left in held:
            if left is not journal:
                journal.steps.adopt(left.steps)
                left.discard()
        return journal
