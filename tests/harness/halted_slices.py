"""A contents manager with which something happens to edits in slices: right before the first one,
when what is pending is committed and the room has nothing of it; in a fork, right after the last
one, which is not committed yet."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager
from jupyter_ydoc import YNotebook
from pycrdt import Doc

from jupyter_collaboration_mcp.backends.in_process.fork_link import ForkLink
from jupyter_collaboration_mcp.backends.in_process.link import InProcessLink

MANAGER = "--ServerApp.contents_manager_class=tests.harness.halted_slices.HaltedSlices"

#: Files in the root directory that say what happens.
KILL, DELETE = "kill-the-server", "delete-in-the-last-cell"


class HaltedSlices(AsyncLargeFileManager):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        as_one, as_one_in_fork = InProcessLink.as_one, ForkLink.as_one
        root = Path(self.root_dir)

        @asynccontextmanager
        async def halted(link: InProcessLink, updates: Sequence[bytes]) -> AsyncIterator[None]:
            async with as_one(link, updates):
                if (root / KILL).exists():
                    os.kill(os.getpid(), signal.SIGKILL)
                if (root / DELETE).exists():
                    delete(link._room.ydoc, int((root / DELETE).read_text()))
                yield

        @asynccontextmanager
        async def halted_in_fork(link: ForkLink, updates: Sequence[bytes]) -> AsyncIterator[None]:
            async with as_one_in_fork(link, updates):
                yield
                if (root / KILL).exists():
                    await asyncio.sleep(0.1)  # the journal has what it was given
                    os.kill(os.getpid(), signal.SIGKILL)

        InProcessLink.as_one = halted  # type: ignore[assignment,method-assign]
        ForkLink.as_one = halted_in_fork  # type: ignore[assignment,method-assign]


def delete(room: Doc[Any], start: int) -> None:
    """Delete the end of the last cell as a person does, whose tab has a document of its own."""
    doc: Doc[Any] = Doc()
    notebook = YNotebook(doc)
    doc.apply_update(room.get_update())
    before = doc.get_state()
    with doc.transaction():
        source = notebook.ycells[len(notebook.ycells) - 1]["source"]
        del source[start:]
    room.apply_update(doc.get_update(before))
