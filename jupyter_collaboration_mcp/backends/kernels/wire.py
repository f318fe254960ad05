"""Carries messages between us and one kernel: over ZeroMQ sockets, or a WebSocket of its server.

A `Wire` knows how messages travel, whether the kernel still exists, and whether messages may have
been lost on the way. The meaning of messages is up to its `Listener`, the conversation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Coroutine, Mapping
from typing import Any, NamedTuple, Protocol

from ..protocols.kernels import Channel, Fate


class OutgoingMessage(NamedTuple):
    """A message on its way to the kernel."""

    channel: Channel
    header: Mapping[str, Any]
    parent: Mapping[str, Any]
    content: Mapping[str, Any]

    @property
    def id(self) -> str:
        return str(self.header["msg_id"])


class IncomingMessage(ABC):
    """A message from the kernel, of which only the headers have been read."""

    __slots__ = ("_content", "channel", "header", "kind", "parent", "request", "size")

    def __init__(
        self, channel: Channel, header: Mapping[str, Any], parent: Mapping[str, Any], size: int
    ) -> None:
        self.channel = channel
        self.header = header
        self.parent = parent
        self.kind = str(header.get("msg_type"))
        """Its type, as in the header."""
        self.request = str(parent.get("msg_id") or "")
        """The id of the request that caused it; empty if nothing did."""
        self.size = size
        """Its size on the wire, in bytes."""
        self._content: Mapping[str, Any] | None = None

    def content(self) -> Mapping[str, Any]:
        """Read the content, once. Takes a while if it is large.

        Raises:
            ValueError: It is malformed, or does not come from the kernel.
        """
        if self._content is None:
            self._content = self._read_content()
        return self._content

    @abstractmethod
    def metadata(self) -> Mapping[str, Any]:
        """Read the metadata.

        Raises:
            ValueError: It is malformed.
        """

    @abstractmethod
    def _read_content(self) -> Mapping[str, Any]: ...


class Listener(Protocol):
    """Our end of a wire."""

    def receive(self, message: IncomingMessage) -> Coroutine[Any, Any, None] | None:
        """Handle a message, in the order of arrival.

        Returns what to await before the next message; None if there is nothing to await.

        Raises:
            Exception: Whatever is wrong with the message. The next one can be handled.
        """

    def on_sent(self, message_id: str) -> None:
        """Called when a queued message has been sent. It may arrive from now on."""

    def on_reconnected(self, seconds: float) -> None:
        """Called when the wire works again after some seconds; messages may have been lost."""

    def on_server_state(self, state: str) -> None:
        """Called with the state of the kernel that the server reports."""

    def note(self, text: str) -> None:
        """Add a text to the output of everything that is running."""

    def on_ended(self) -> None:
        """Called when the kernel no longer exists, or cannot be reached."""


class Wire(Protocol):
    """Carries messages to and from one kernel process, until it ends or is restarted."""

    @property
    def session(self) -> str:
        """Our name in the headers of messages; fixed once the wire is open."""

    @property
    def lossy(self) -> bool:
        """Whether it can be cut and come back, so that messages may be lost."""

    @property
    def over(self) -> bool:
        """Whether it is certain, without asking, that no more messages will come."""

    async def open(self, listener: Listener, deadline: float) -> None:
        """Connect, and pass on messages from then on.

        Args:
            deadline: In terms of `time.monotonic`.

        Raises:
            KernelUnavailable: The kernel is gone, or does not answer in time.
            ServerError: The server cannot be reached, or refuses.
        """

    async def says_busy(self) -> bool:
        """Whether the kernel is busy according to the server, which may be out of date."""

    def send(self, message: OutgoingMessage, *, first: bool = False) -> None:
        """Send a message, perhaps later: then `first` puts it in front of those that wait."""

    def end(self, fate: Fate) -> None:
        """Record that the kernel has reported how it ends."""

    async def fate(self) -> Fate:
        """What became of the kernel; called often while something runs."""

    async def close(self) -> None:
        """End the connection; the kernel keeps running."""
