"""A Jupyter extension for the benchmarks: nobody sees the agents."""

from __future__ import annotations

from typing import Any


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    return [{"module": __name__}]


def _load_jupyter_server_extension(serverapp: Any) -> None:
    from jupyter_collaboration_mcp.collaboration import presence

    def nothing(*_: Any) -> None:
        pass

    for method in ("show", "show_soon", "move_to"):
        if hasattr(presence.DocumentPresence, method):
            setattr(presence.DocumentPresence, method, nothing)
        if hasattr(presence.LobbyPresence, method):
            setattr(presence.LobbyPresence, method, nothing)
    presence.Profile.work = lambda self, doing: nothing  # type: ignore[method-assign]
