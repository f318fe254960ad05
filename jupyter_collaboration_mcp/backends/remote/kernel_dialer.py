"""Opening WebSockets to one kernel: for the first time, and again after a cut."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Mapping
from logging import Logger
from typing import Any

from websockets.asyncio.client import ClientConnection
from websockets.typing import Subprotocol

from ...errors import KernelUnavailable, ServerError, ServerUnreachable, TokenRefused
from ...remedies import Intent
from ..kernels import errors
from .jupyter_api import JupyterApi
from .kernel_connection import KernelConnection, hang_up
from .kernel_frames import PARTS_APART
from .server_errors import Refused

#: Seconds between two checks that the kernel still exists.
_LOOK_AGAIN = 1.0

#: Seconds before the first attempt to reconnect and, growing, before the last ones.
_RECONNECT, _RECONNECT_SLOWLY = 0.1, 2.0


class KernelDialer:
    """Connects to one kernel of a Jupyter server.

    Args:
        api: The server.
        kernel_id: The kernel's id.
        log: For failed attempts.
    """

    def __init__(self, api: JupyterApi, kernel_id: str, log: Logger) -> None:
        self._api = api
        self._kernel_id = kernel_id
        self._log = log
        # The server keeps missed messages for a client that comes back under the same name.
        self.session = uuid.uuid4().hex

    async def connect(self, deadline: float) -> KernelConnection:
        """Connect for the first time.

        The server accepts no connection before the kernel has answered it, which may take long. So
        we check in the meantime that the kernel still exists.

        Raises:
            KernelUnavailable: It is gone, or does not answer in time.
            ServerError: The server cannot be reached, or refuses.
        """
        await self.model()
        while True:
            # Use a new name: the server may still accept an attempt that was given up here.
            self.session = uuid.uuid4().hex
            opening = asyncio.get_running_loop().create_task(self._open())
            try:
                while not opening.done():
                    await asyncio.wait([opening], timeout=_LOOK_AGAIN)
                    if not opening.done():
                        await self.model(was_there=True)
                return self._connection(opening.result())
            except Refused as error:
                raise self._refused(error, was_there=True) from error
            except ServerUnreachable as error:
                await _give_up(opening)  # the check beside it may have failed instead
                await self.model(was_there=True)  # raises a better error if nothing can be reached
                if time.monotonic() > deadline:
                    raise errors.does_not_answer(self._kernel_id, self._kernel_id) from error
                await asyncio.sleep(_LOOK_AGAIN)
            except BaseException:
                await _give_up(opening)
                raise

    async def reconnect(self, seconds_left: Callable[[], float]) -> KernelConnection | None:
        """Connect again under the same name; None if the time was up first.

        Raises:
            KernelUnavailable: The kernel is gone.
            TokenRefused: The server no longer lets us in.
        """
        pause = _RECONNECT
        while (left := seconds_left()) > 0:
            await asyncio.sleep(min(pause, left))
            pause = min(2 * pause, _RECONNECT_SLOWLY)
            try:
                async with asyncio.timeout(max(0.0, seconds_left())):
                    return self._connection(await self._open())
            except Refused as error:
                if error.status == 404:
                    raise errors.gone(self._kernel_id) from error
            except TokenRefused:
                raise
            except (ServerError, TimeoutError) as error:
                self._log.debug("Cannot reach kernel %s: %s", self._kernel_id, error)
        return None

    async def model(self, was_there: bool = False) -> Mapping[str, Any]:
        """The server's model of the kernel, which may have existed a moment ago.

        Raises:
            KernelUnavailable: It is gone, or the server does not answer.
        """
        try:
            model = await self._api.get("api", "kernels", self._kernel_id)
        except Refused as error:
            raise self._refused(error, was_there) from error
        with self._api.expecting("a kernel"):
            return {"execution_state": "unknown", "connections": 0, **model}

    def _refused(self, error: Refused, was_there: bool) -> KernelUnavailable:
        if error.status == 404 and was_there:
            return errors.ended_early(self._kernel_id, self._kernel_id)
        if error.status == 404:
            return errors.gone(self._kernel_id)
        return KernelUnavailable(
            f"The Jupyter server does not give access to the kernel {self._kernel_id}: {error}.",
            Intent.RESTART_KERNEL,
            kernel_id=self._kernel_id,
        )

    async def _open(self) -> ClientConnection:
        return await self._api.websocket(
            "api",
            "kernels",
            self._kernel_id,
            "channels",
            subprotocol=Subprotocol(PARTS_APART),
            session_id=self.session,
        )

    def _connection(self, websocket: ClientConnection) -> KernelConnection:
        apart = websocket.subprotocol == PARTS_APART
        return KernelConnection(websocket, apart, self._kernel_id, self._log)


async def _give_up(opening: asyncio.Task[ClientConnection]) -> None:
    """Close a WebSocket that is no longer needed but is being opened, or has just been."""
    opening.cancel()
    await asyncio.wait([opening])
    if not opening.cancelled() and opening.exception() is None:
        await hang_up(opening.result())
