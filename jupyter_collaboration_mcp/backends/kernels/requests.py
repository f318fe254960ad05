"""Requests to run code: their content, their progress, and the receiver of their messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from logging import Logger
from typing import Any

from ..protocols.kernels import OUTPUT_MISSING, Channel, KernelMessage


@dataclass(slots=True)
class Request:
    """The progress of a request to run code."""

    sent: bool = False
    replied: bool = False
    idle: bool = False

    @property
    def open(self) -> bool:
        return self.sent and not (self.replied and self.idle)


class Requests:
    """The requests of one link that have not been forgotten, and the receiver of their messages."""

    def __init__(self, kernel_id: str, log: Logger) -> None:
        self._kernel_id = kernel_id
        self._log = log
        self.by_id: dict[str, Request] = {}
        self._receiver: Callable[[KernelMessage], None] | None = None

    def open(self) -> list[str]:
        """The ids of requests that may have reached the kernel and are not over."""
        return [key for key, request in self.by_id.items() if request.open]

    def add(self, request: str) -> None:
        self.by_id[request] = Request()

    def on_sent(self, request: str) -> None:
        """Note that a request may arrive from now on."""
        if (asked := self.by_id.get(request)) is not None:
            asked.sent = True

    def finish(self, request: str) -> None:
        """Note that a request is over, or that its end is no longer awaited."""
        if (asked := self.by_id.get(request)) is not None:
            asked.replied = asked.idle = True

    def forget(self, request: str) -> None:
        self.by_id.pop(request, None)

    def listen(self, receiver: Callable[[KernelMessage], None]) -> None:
        self._receiver = receiver

    def deliver(self, message: KernelMessage) -> None:
        """Pass a message to the receiver. A receiver that fails does not stop the next message."""
        if (request := self.by_id.get(message.parent)) is not None:
            if message.type == "execute_reply":
                request.replied = True
            elif message.type == "status" and message.content.get("execution_state") == "idle":
                request.idle = True
        if self._receiver is None:
            return
        try:
            self._receiver(message)
        except Exception:
            self._log.exception("Lost a %s message of kernel %s", message.type, self._kernel_id)

    def deliver_own(
        self, channel: Channel, kind: str, request: str, content: Mapping[str, Any]
    ) -> None:
        """Pass the receiver a message that did not come from the kernel."""
        self.deliver(KernelMessage(channel, kind, request, utc_now(), content, {}, 0))

    def note(self, text: str) -> None:
        """Add to the output of all open requests why some of it is missing."""
        content = {"reason": text, "text": f"\n[{text}]\n"}
        for request in self.open():
            self.deliver_own("iopub", OUTPUT_MISSING, request, content)


def execute_request(
    code: str,
    *,
    silent: bool,
    store_history: bool,
    allow_stdin: bool,
    user_expressions: Mapping[str, str] | None,
) -> dict[str, Any]:
    """The content of an `execute_request`."""
    return {
        "code": code,
        "silent": silent,
        "store_history": store_history,
        "user_expressions": dict(user_expressions or {}),
        "allow_stdin": allow_stdin,
        # An error of ours must not discard what people have queued.
        "stop_on_error": False,
    }


def utc_now() -> str:
    """The current time, as the date of a message."""
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")
