"""Making another server save a room, and finding out whether it did.

A server reports a save as done even if typing has cancelled it, or if it has failed. Only the mark
that it writes into the document after each save is reliable (`RoomState`).
"""

from __future__ import annotations

import asyncio
from typing import Any

from pycrdt import Doc, Text

from ...documents import line_ends
from ...errors import CorruptDocument, FileFailed, NotText
from ..protocols.room_ids import Kind
from .connection_sync import ConnectionSync
from .freshness import Freshness
from .jupyter_api import JupyterApi
from .room_file import RoomFile
from .room_reconnector import RoomReconnector
from .room_state import RoomState
from .server_errors import Refused

#: Seconds to save.
_FLUSH = 10.0

#: Consecutive saves without effect after which the server counts as unable to save.
_FAILURES = 5


class RoomSaves:
    """The saves of one room."""

    def __init__(
        self,
        api: JupyterApi,
        kind: Kind,
        file: RoomFile,
        sync: ConnectionSync,
        line: RoomReconnector,
        freshness: Freshness,
    ) -> None:
        self._api = api
        self._kind = kind
        self._file = file
        self._sync = sync
        self._line = line
        self._freshness = freshness
        self._saving = asyncio.Lock()

    async def save(self, always: bool = False) -> None:
        """Make the server save what is unsaved.

        Args:
            always: Save even if nothing is known to be unsaved; others may have edited earlier.

        Raises:
            CollaborationError: It was not saved.
        """
        state = self._sync.state
        if state is None:
            return
        try:
            async with self._saving, asyncio.timeout(_FLUSH):
                await self._line.wait_connected()
                await self._freshness.require_loadable(self._file.path, state, now=True)
                await self._line.round_trip()
                if always and state.saved and not await self._is_in_file(state.doc):
                    await (await self._line.wait_connected()).save()
                await self._save(state)
        except TimeoutError as error:
            raise FileFailed.to("save", self._file.path, f"not within {_FLUSH:g} s") from error
        except (NotText, CorruptDocument):
            if not (always and state.saved):  # otherwise there is only the file
                raise

    async def _save(self, state: RoomState) -> None:
        """Save until it is saved: a save that typing cancels is reported as done."""
        with self._sync.ahead(state) as ahead:
            pause, failures = 0.05, 0
            while not ahead.saved:
                connection, known = await self._line.wait_connected(), ahead.updates
                await connection.save()
                await self._line.round_trip()  # then the mark of the save has arrived
                if ahead.overwrites:
                    why = "somebody else has just changed it on disk"
                    raise FileFailed.to("save", self._file.path, why)
                if not ahead.saved:
                    # The server reports a failure as a success; but nothing came in between.
                    failures = failures + 1 if ahead.updates == known else 0
                    if failures == _FAILURES:
                        why = "it tried and did not succeed; its log has the reason"
                        raise FileFailed.to("save", self._file.path, why)
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, 1.0)

    async def _is_in_file(self, doc: Doc[Any]) -> bool:
        """Whether the file of a text already matches the room: then a save would only change its
        line ends."""
        if self._kind != "file":
            return False
        query = {"type": "file", "format": "text", "content": "1"}
        try:
            model = await self._api.contents(self._file.path, **query)
        except Refused:
            return False
        return line_ends.plain(model["content"]) == str(doc.get("source", type=Text))
