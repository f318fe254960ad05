"""A WebSocket whose messages have to arrive within a time and a size, and how it ended.

The library bounds the size of a message, and closes a connection on which no pong comes while a
single frame is trickling in. A message in many small frames has room for pongs between them, and
could go on forever.
"""

from __future__ import annotations

import asyncio
from typing import Any

from websockets.asyncio.client import ClientConnection
from websockets.frames import DATA_OPCODES, CloseCode, Frame

from ...documents.foreign_text import quoted
from .answer_limits import AnswerLimits

TOO_LARGE = int(CloseCode.MESSAGE_TOO_BIG)


class BoundedConnection(ClientConnection):
    """Ends itself when a message takes too long; the library ends it when one is too large."""

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
        """The code with which it was closed, and why, as it can be shown."""
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


def bounded_by(limits: AnswerLimits) -> type[BoundedConnection]:
    """The kind of connection that has these limits."""
    return type("BoundedConnection", (BoundedConnection,), {"limits": limits})
