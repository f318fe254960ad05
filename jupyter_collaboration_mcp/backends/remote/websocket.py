"""A WebSocket to a Jupyter server with limits on the time and size of messages.

The library limits the size of a message, and closes a connection without pongs while a single frame
is trickling in. A message in many small frames has room for pongs between them, and could go on
forever.
"""

from __future__ import annotations

import asyncio
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.frames import DATA_OPCODES, CloseCode, Frame
from websockets.typing import Subprotocol

from ...documents.foreign_text import quoted
from .answer_limits import AnswerLimits
from .http_client import CONNECT
from .server_address import ServerAddress

TOO_LARGE = int(CloseCode.MESSAGE_TOO_BIG)

#: Seconds between two pings, to wait for a pong, and then for the other side to close: a silent
#: network is noticed when all are over.
_PING, _PONG, _FAREWELL = 10.0, 10.0, 2.0


async def open_websocket(
    url: str,
    address: ServerAddress,
    proxy: str | None,
    limits: AnswerLimits,
    subprotocol: Subprotocol | None,
) -> BoundedConnection:
    """Open a WebSocket with the credentials of a server, through its proxy if it has one.

    Raises:
        InvalidHandshake, InvalidURI, ImportError, OSError, TimeoutError: It could not be opened.
    """
    connection = await connect(
        url,
        additional_headers=address.credentials,
        ssl=address.ssl_context() if url.startswith("wss") else None,
        max_size=limits.size,
        open_timeout=CONNECT,
        ping_interval=_PING,
        ping_timeout=_PONG,
        close_timeout=_FAREWELL,
        compression=None,  # so that nothing unpacks to more than was sent
        create_connection=_bounded_by(limits),
        proxy=proxy,
        subprotocols=None if subprotocol is None else [subprotocol],
    )
    assert isinstance(connection, BoundedConnection)
    return connection


class BoundedConnection(ClientConnection):
    """Closes itself when a message takes too long; the library closes it when one is too large."""

    limits = AnswerLimits()

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._too_slow = False
        self._unfinished: asyncio.TimerHandle | None = None

    def process_event(self, event: Any) -> None:
        if isinstance(event, Frame) and event.opcode in DATA_OPCODES:
            if event.fin:
                self._stop_waiting()
            elif self._unfinished is None:
                self._unfinished = self.loop.call_later(self.limits.seconds, self._give_up)
        super().process_event(event)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    @property
    def end(self) -> tuple[int | None, str]:
        """The code with which it was closed, and a printable reason."""
        if self._too_slow:
            return None, f"a message did not arrive within {self.limits.seconds:g} s"
        sent = self.protocol.close_sent
        if sent is not None and sent.code == TOO_LARGE and not self.protocol.close_rcvd_then_sent:
            size = f"a message has more than {self.limits.size:,} bytes"
            return TOO_LARGE, f"{size}, which --max-answer-size can raise"
        said = self.close_reason
        return self.close_code, quoted(said) if said else ""

    def _stop_waiting(self) -> None:
        if self._unfinished is not None:
            self._unfinished.cancel()
            self._unfinished = None

    def _give_up(self) -> None:
        self._too_slow = True
        self.transport.abort()


def _bounded_by(limits: AnswerLimits) -> type[BoundedConnection]:
    """A class of connections with these limits."""
    return type("BoundedConnection", (BoundedConnection,), {"limits": limits})
