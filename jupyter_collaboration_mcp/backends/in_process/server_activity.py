"""Runs of agents as activity of the Jupyter server, which is stopped where nothing happens.

Jupyter counts requests, and what kernels publish. A run that prints nothing for hours would count
as nothing, and JupyterHub, or `shutdown_no_activity_timeout`, would end the server under it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from jupyter_server._tz import utcnow

from ...owned_tasks import OwnedTasks

#: Seconds between two looks; hubs look every few minutes.
_LOOK_AGAIN = 20.0

_KEY = "jupyter_collaboration_mcp_runs"


class ServerActivity:
    """Reports runs to Jupyter while they work.

    Args:
        settings: Those of Jupyter's web application, which has the times of activity.
        working: Whether a run of an agent works or waits.
    """

    def __init__(
        self,
        settings: dict[str, Any],
        working: Callable[[], bool],
        look_again: float = _LOOK_AGAIN,
    ) -> None:
        self._settings = settings
        self._working = working
        self._look_again = look_again
        self._tasks = OwnedTasks()

    def start(self) -> None:
        """Report from now on."""
        self._tasks.start(self._watch())

    async def close(self) -> None:
        await self._tasks.close()

    async def _watch(self) -> None:
        while True:
            if self._working():
                self._settings["last_activity_times"][_KEY] = utcnow()
            await asyncio.sleep(self._look_again)
