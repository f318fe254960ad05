"""The sessions of one agent at notebooks, also after it has left."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from .workspace import Workspace


@dataclass(frozen=True, slots=True)
class NotebookSession:
    """One agent at one notebook, or where it was before it left."""

    id: str
    """Empty if it has left."""
    file_id: str
    path: str
    cell_count: int | None
    """None if the notebook is not open."""
    last_activity: str

    @property
    def active(self) -> bool:
        """Whether the agent is there."""
        return bool(self.id)


def notebook_sessions(workspace: Workspace, agent: str) -> Iterator[NotebookSession]:
    """The sessions of one agent at notebooks, also those that have ended and are remembered."""
    for room_id, seat in workspace.rooms.seats_of(agent):
        peer = workspace.peer_of(room_id)
        path = workspace.path_of(room_id.file_id) if peer is None else peer.link.path
        if room_id.kind == "notebook" and not room_id.is_fork and path is not None:
            last = time.time() - (time.monotonic() - seat.used)
            yield NotebookSession(
                "" if seat.presence is None else seat.session,
                room_id.file_id,
                path,
                None if peer is None else len(peer.notebook),
                datetime.fromtimestamp(last, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            )
