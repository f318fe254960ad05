"""A cell that shows the outputs of a run, found by its id each time."""

from __future__ import annotations

from collections.abc import Mapping

from ..collaboration.peer import RoomPeer
from ..collaboration.seats import Seat
from ..documents.handles import brief_id
from ..documents.output_log import OutputLog
from ..errors import CellNotFound, PathError
from ..remedies import Intent
from .open_document import OpenDocument
from .workspace import Workspace


class CellTarget:
    """One code cell of a live notebook, even if people move it in the meantime."""

    def __init__(self, workspace: Workspace, here: OpenDocument, cell_id: str) -> None:
        self._workspace = workspace
        self._room_id = here.peer.link.room_id
        self._peer: RoomPeer = here.peer
        self._seat: Seat = here.seat
        self._cell_id = cell_id
        self._over = False
        self._count: int | None = None
        self._identity = b""

    async def ready(self) -> None:
        if await self._find() is None:
            raise CellNotFound(
                f"The cell {brief_id(self._cell_id)} was deleted, or is no code cell any more, "
                "before its turn came; it was not run.",
                Intent.SEE_CELLS,
                cell_id=self._cell_id,
            )

    def begin(self) -> None:
        with self._peer.output(self._seat):
            self._peer.notebook.begin_run(self._peer.notebook.find(self._cell_id))
        self._peer.point_at(self._seat, self._cell_id)

    async def write(self, log: OutputLog) -> bool:
        if self._over:
            return await self._write_late(log)
        await self._peer.between_saves()
        index = await self._find()
        log.changed = False
        if index is not None:
            with self._peer.output(self._seat):
                log.write(self._peer.notebook.outputs(index))
        return True

    async def _write_late(self, log: OutputLog) -> bool:
        try:
            index = await self._find()
        except PathError:
            return False  # the notebook was deleted
        notebook = self._peer.notebook
        # Running or clearing a cell, here and in JupyterLab, first removes its count, and no
        # other run of the same kernel gets this count.
        if index is None or not notebook.has_count(index, self._count):
            return False
        outputs = notebook.outputs(index)
        identity = notebook.identity(index)
        if not log.is_still_in(outputs, moved=identity != self._identity):
            return False
        self._identity = identity
        with self._peer.output(self._seat):
            log.write(outputs)
        await self._peer.wait_acknowledged()
        return True

    async def end(self, log: OutputLog, count: int | None, timings: Mapping[str, str]) -> None:
        index = await self._find()
        self._over, self._count = True, count
        log.changed = False
        if index is None:
            return
        notebook = self._peer.notebook
        self._identity = notebook.identity(index)
        with self._peer.output(self._seat):
            log.write(notebook.outputs(index))
            notebook.end_run(index, count, timings)
        await self._peer.wait_acknowledged()

    async def skip(self) -> None:
        index = await self._find()
        if index is not None:
            with self._peer.output(self._seat):
                self._peer.notebook.set_running(index, False)

    async def _find(self) -> int | None:
        """The cell's current index. Do not await anything between this and an edit."""
        self._peer = await self._workspace.peer(self._room_id)
        notebook = self._peer.notebook
        index = notebook.find(self._cell_id) if notebook.has(self._cell_id) else None
        if index is not None and notebook.cell_type(index) != "code":
            index = None
        return index
