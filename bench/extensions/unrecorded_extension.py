"""A Jupyter extension for the benchmarks: nobody records who wrote what, or indexes it."""

from __future__ import annotations

from typing import Any


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    return [{"module": __name__}]


def _load_jupyter_server_extension(serverapp: Any) -> None:
    from jupyter_collaboration_mcp.backends.in_process.history.background import BackgroundIndexing
    from jupyter_collaboration_mcp.backends.in_process.link import InProcessLink
    from jupyter_collaboration_mcp.backends.in_process.room_authors import RoomAuthors

    def nothing(*_: Any) -> None:
        pass

    for owner, methods in (
        (RoomAuthors, ("on_deletion", "_on_awareness")),
        (InProcessLink, ("record",)),
        (BackgroundIndexing, ("on_row", "on_closed")),
    ):
        for method in methods:
            setattr(owner, method, nothing)
