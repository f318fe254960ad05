"""What happened to requests while the wire to their kernel was cut.

The server of a WebSocket keeps what the kernel sends in the meantime, unless somebody else is also
connected, and except for what it sent before it noticed the cut. So after a cut we look for a gap
in the numbers of messages, and ask the kernel a question: once that is answered, everything that
was requested before it is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from .requests import Requests
from .wire import IncomingMessage

#: Seconds of silence after a cut before the kernel is asked for a sign of life.
_ASK_SOON = 0.25

#: Seconds by which messages of one channel may lag behind those of another.
_LATE = 1.0

_END_LOST = (
    "The connection to the kernel was cut while this ran, and what the kernel said of its end is "
    "lost. Whether it ran to its end is not known."
)


class Recovery:
    """Finds out what was missed during a cut, and ends requests whose end was missed.

    Args:
        requests: The requests that may be affected.
        ask: Asks the kernel for any message, on the channel that is served while code runs.
    """

    def __init__(self, requests: Requests, ask: Callable[[], object]) -> None:
        self._requests = requests
        self._ask = ask
        self._numbers = MessageNumbers()
        self._away: float | None = None  # seconds of a cut, until we know what was missed
        self._uncertain: list[str] = []
        self._suspicious = False
        self._asking: asyncio.TimerHandle | None = None
        self._settling: asyncio.TimerHandle | None = None

    def on_reconnected(self, seconds: float) -> None:
        """Start over after the wire works again. Nothing has been read from it yet."""
        self.stop()
        self._uncertain = self._requests.open()
        if self._uncertain:
            self._away = seconds
            self._asking = asyncio.get_running_loop().call_later(_ASK_SOON, self._ask_if_silent)

    def count(self, message: IncomingMessage) -> None:
        """Report missing output if the first message after a cut is not the next one."""
        missing = self._numbers.take(message.header)
        if self._away is None:
            return
        away, self._away = self._away, None
        if missing and self._ends_unanswered(message):
            missing -= 1  # a reply, which comes on another channel
        if missing != 0:
            self._requests.note(
                f"The connection to the kernel was cut for {away:.1f} s while this ran; "
                "what it put out in that time may be missing here."
            )

    def on_answer(self) -> None:
        """Settle everything: the kernel has answered a question asked after all requests."""
        if self._uncertain and self._settling is None:
            self._settling = asyncio.get_running_loop().call_later(_LATE, self._settle)

    def compare(self, state: str) -> None:
        """Ask the kernel for a message if the server twice reports that it is idle.

        It may be another process by now, which has not sent anything yet. Or the server has not
        noticed the request yet, and will report something else the next time.
        """
        suspicious = state != "busy" and bool(self._requests.open())
        if suspicious and self._suspicious:
            self._ask()
        self._suspicious = suspicious

    def stop(self) -> None:
        """Stop finding out."""
        for timer in (self._asking, self._settling):
            if timer is not None:
                timer.cancel()
        self._asking = self._settling = None

    def _ask_if_silent(self) -> None:
        if self._away is not None:
            self._ask()

    def _ends_unanswered(self, message: IncomingMessage) -> bool:
        request = self._requests.by_id.get(message.request)
        return (
            request is not None
            and not request.replied
            and message.kind == "status"
            and message.content().get("execution_state") == "idle"
        )

    def _settle(self) -> None:
        """End the requests that must be over by now, but whose end we missed."""
        self._settling = None
        deliver = self._requests.deliver_own
        for key in self._uncertain:
            request = self._requests.by_id.get(key)
            if request is None or not request.open:
                continue
            if not request.replied:
                name = "ConnectionCut"
                error = {"ename": name, "evalue": _END_LOST, "traceback": [f"{name}: {_END_LOST}"]}
                deliver("iopub", "error", key, error)
                deliver("shell", "execute_reply", key, {"status": "error", **error})
            if not request.idle:
                deliver("iopub", "status", key, {"execution_state": "idle"})
        self._uncertain = []


class MessageNumbers:
    """The numbers of the messages of one kernel process, in the order of arrival.

    Kernels based on ipykernel number their messages, on all channels together, so a gap shows that
    a message was lost.
    """

    def __init__(self) -> None:
        self._process = ""
        self._last = -1

    def take(self, header: Mapping[str, Any]) -> int | None:
        """Record a message; returns how many are missing before it, None if unknown.

        Messages of different channels may overtake each other, so some that count as missing may
        arrive a moment later. Answers to others are numbered too, and never arrive here.
        """
        process, _, number = str(header.get("msg_id") or "").rpartition("_")
        if not process or not number.isdecimal():
            return None
        before = self._last if process == self._process else None
        self._last = max(int(number), before or 0)
        self._process = process
        return None if before is None else max(int(number) - before - 1, 0)
