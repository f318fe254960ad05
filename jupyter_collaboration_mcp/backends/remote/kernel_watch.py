"""What a Jupyter server reports about one of its kernels, and how long it has been silent."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from logging import Logger

from ...errors import ServerError, TokenRefused
from ...owned_tasks import OwnedTasks
from .jupyter_api import JupyterApi
from .server_errors import Refused

#: Seconds between two queries about the kernel, and the time limit of one.
_LOOK_AGAIN, _LOOK_LIMIT = 1.0, 5.0

#: Every so many queries, all kernels are listed: a server whose kernels are behind a gateway asks
#: that gateway only then, and until then reports what it knew last.
_LIST_EVERY = 3


class KernelWatch:
    """Queries the server about a kernel, and records when it does not answer.

    Args:
        api: The server.
        kernel_id: The kernel's id.
        log: For what goes wrong unexpectedly.
        found: Called with the state of the kernel; None if the server no longer has it.
    """

    def __init__(
        self,
        api: JupyterApi,
        kernel_id: str,
        log: Logger,
        found: Callable[[str | None], None],
    ) -> None:
        self._api = api
        self._kernel_id = kernel_id
        self._log = log
        self._found = found
        self._silent_since: float | None = None
        self._looked = 0.0
        self._until_list = _LIST_EVERY
        self._may_look = True
        self._looking: asyncio.Task[None] | None = None
        self._tasks = OwnedTasks()

    @property
    def silence(self) -> float:
        """Seconds since the server was found to be unreachable; 0 if it is reachable."""
        return 0.0 if self._silent_since is None else time.monotonic() - self._silent_since

    def note_contact(self) -> None:
        """Record that the server has answered."""
        self._silent_since = None

    def note_silence(self, since: float | None = None) -> None:
        """Record that the server is unreachable, since now if no other time is given."""
        if self._silent_since is None:
            self._silent_since = time.monotonic() if since is None else since

    def look_soon(self) -> None:
        """Ask the server about the kernel, but not often: the socket usually knows sooner."""
        now = time.monotonic()
        if not self._may_look or now - self._looked < _LOOK_AGAIN:
            return
        if self._looking is None or self._looking.done():
            self._looked = now
            self._looking = self._tasks.start(self._look())

    async def _list(self) -> None:
        self._until_list = _LIST_EVERY
        try:
            await self._api.get("api", "kernels")
        except TokenRefused:
            self._until_list = sys.maxsize  # a gateway tells nobody, unless it is configured to

    async def close(self) -> None:
        await self._tasks.close()

    async def _look(self) -> None:
        began = time.monotonic()
        try:
            async with asyncio.timeout(_LOOK_LIMIT):
                model = dict(await self._api.get("api", "kernels", self._kernel_id))
                self._until_list -= 1
                if self._until_list <= 0:
                    await self._list()
        except Refused as error:
            if error.status == 404:
                self._found(None)
            elif error.status >= 500:
                self.note_silence(began)
        except TokenRefused:
            self._may_look = False  # the socket is open nevertheless
        except (ServerError, TimeoutError):
            self.note_silence(began)
        except Exception:
            self._log.exception("Cannot query the server about kernel %s", self._kernel_id)
        else:
            self.note_contact()
            self._found(str(model.get("execution_state")))
