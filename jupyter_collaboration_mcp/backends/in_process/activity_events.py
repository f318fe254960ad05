"""Activities as events of Jupyter: an administrator collects them, and front ends follow them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jupyter_server.serverapp import ServerApp

SCHEMA_ID = "https://schema.jupyter.org/jupyter_collaboration_mcp/activity/v1"

_SCHEMA = Path(__file__).with_name("activity.yaml")


class ActivityEvents:
    """Emits activities under our own schema."""

    def __init__(self, serverapp: ServerApp) -> None:
        self._events = serverapp.event_logger
        if self._events is not None and SCHEMA_ID not in self._events.schemas:
            self._events.register_event_schema(_SCHEMA)

    def emit(self, event: Mapping[str, Any]) -> None:
        """Emit one activity, to nobody if nobody follows."""
        if self._events is not None:
            self._events.emit(schema_id=SCHEMA_ID, data=dict(event))
