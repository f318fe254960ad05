"""The WebSocket of a kernel on another machine, which is reopened when it is cut.

A cut network does not mean a dead kernel. The wire comes back under its own name, and the server
has kept what the kernel sent in the meantime, as far as it could. We wait for an unreachable server
during the grace time; then the kernel counts as unreachable.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from logging import Logger
from typing import Any

from ...errors import KernelUnavailable, TokenRefused
from ...owned_tasks import OwnedTasks
from ..kernels.wire import Listener, OutgoingMessage
from ..protocols.kernels import Fate
from .jupyter_api import JupyterApi
from .kernel_connection import KernelConnection, Outbox
from .kernel_dialer import KernelDialer
from .kernel_frames import Frame, mark_dropped_output
from .kernel_watch import KernelWatch

#: Seconds without the server after which its kernels count as unreachable.
GRACE = 30.0


class WebSocketWire:
    """All channels of one kernel process in one WebSocket after another.

    Args:
        api: The server.
        kernel_id: The kernel's id.
        log: For what nobody waits for.
        grace: Seconds without the server after which the kernel counts as unreachable.
    """

    lossy = True

    def __init__(
        self, api: JupyterApi, kernel_id: str, log: Logger, *, grace: float = GRACE
    ) -> None:
        self._kernel_id = kernel_id
        self._log = log
        self._grace = grace
        self._dialer = KernelDialer(api, kernel_id, log)
        self._watch = KernelWatch(api, kernel_id, log, self._on_state)
        self._outbox = Outbox(self._on_sent)
        self._listener: Listener | None = None
        self._connection: KernelConnection | None = None
        self._connected = False
        self._process = ""  # the kernel's name in its messages, another one after a restart
        self._ended: Fate | None = None
        self._closed = False
        self._tasks = OwnedTasks()
        self._serving: asyncio.Task[None] | None = None

    @property
    def session(self) -> str:
        return self._dialer.session

    @property
    def over(self) -> bool:
        return self._closed or self._ended is not None

    async def open(self, listener: Listener, deadline: float) -> None:
        connection = await self._dialer.connect(deadline)
        self._listener = listener
        self._connection = connection
        self._connected = True
        self._serving = self._tasks.start(self._serve(connection))

    async def says_busy(self) -> bool:
        return bool((await self._dialer.model())["execution_state"] == "busy")

    def send(self, message: OutgoingMessage, *, first: bool = False) -> None:
        self._outbox.put(message, first=first)

    async def fate(self) -> Fate:
        if not self.over and self._connected:
            self._watch.look_soon()
            if self._watch.silence > self._grace:
                self.end("unreachable")
        return self._ended or ("gone" if self._closed else "alive")

    def end(self, fate: Fate) -> None:
        if self._ended is None:
            self._ended = fate
            if self._listener is not None:
                self._listener.on_ended()
        if self._connection is not None:
            self._connection.stop()
        if self._serving is not None and self._serving is not asyncio.current_task():
            self._serving.cancel()

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        await self._watch.close()
        await self._tasks.close()
        if self._connection is not None:
            await self._connection.close()

    # -- one connection after another --------------------------------------------------------

    async def _serve(self, connection: KernelConnection) -> None:
        assert self._listener is not None
        try:
            while True:
                await connection.serve(self._outbox, self._receive)
                if self._ended is not None:
                    return
                self._connected = False
                self._watch.note_silence()
                again = await self._reconnect()
                if again is None:
                    return
                connection = self._connection = again
                self._connected = True
                away = self._watch.silence
                self._watch.note_contact()
                self._listener.on_reconnected(away)
        except Exception:
            self._log.exception("The connection to kernel %s broke", self._kernel_id)
            self.end("gone")
        finally:
            self._connected = False
            await connection.close()

    async def _reconnect(self) -> KernelConnection | None:
        """Connect again; None if there is no longer a reason to."""
        assert self._listener is not None
        try:
            connection = await self._dialer.reconnect(lambda: self._grace - self._watch.silence)
        except KernelUnavailable:
            self.end("gone")
        except TokenRefused as error:
            self._listener.note(f"The Jupyter server no longer lets us in: {error.happened}")
            self.end("unreachable")
        else:
            if connection is None:
                self.end("unreachable")
            return connection
        return None

    # -- what comes --------------------------------------------------------------------------

    def _receive(self, frame: Frame) -> Coroutine[Any, Any, None] | None:
        assert self._listener is not None
        self._watch.note_contact()
        if frame.channel == "iopub":
            if frame.kind in ("status", "iopub_welcome"):
                self._recognize(frame)
            frame = mark_dropped_output(frame, self.session)
        return self._listener.receive(frame)

    def _recognize(self, frame: Frame) -> None:
        """Notice another process: one that was killed for a restart does not report it."""
        name = frame.header.get("session")
        # Not all kernels have names: some use the requester's, and the server uses ours.
        if not name or name in (frame.parent.get("session"), self.session):
            return
        if self._process not in ("", name):
            self.end("restarted")
        self._process = str(name)

    def _on_state(self, state: str | None) -> None:
        if state is None:
            self.end("gone")
        elif state == "dead":
            self.end("died")
        elif self._listener is not None:
            self._listener.on_server_state(state)

    def _on_sent(self, message_id: str) -> None:
        if self._listener is not None:
            self._listener.on_sent(message_id)
