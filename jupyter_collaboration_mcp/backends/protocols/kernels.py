"""What a backend must offer about kernels: to find, start, interrupt and replace them, and a link
through which code runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol


@dataclass(frozen=True, slots=True)
class KernelSpec:
    """A kind of kernel that could be started."""

    name: str
    display_name: str
    language: str


@dataclass(frozen=True, slots=True)
class KernelInfo:
    """A running kernel, as its Jupyter server sees it now."""

    id: str
    name: str
    """Of its kernelspec."""
    state: str
    """idle, busy, starting, restarting, dead, ..."""
    last_activity: str | None = None
    path: str | None = None
    """The document of its Jupyter session, if it has one."""


Channel = Literal["shell", "iopub", "stdin", "control"]
"""The sockets of a kernel that messages come and go through."""


class KernelMessage(NamedTuple):
    """A message from a kernel, of which only what is needed has been read."""

    channel: Channel
    type: str
    parent: str
    """The id of the request that caused it."""
    date: str
    content: Mapping[str, Any]
    metadata: Mapping[str, Any]
    size: int
    """Bytes of its content on the wire."""


OUTPUT_MISSING = "output_missing"
"""The type of a message that a link makes by itself where output of a request was lost. It has a
`reason` for the agent and a `text` for the cell."""

Fate = Literal["alive", "died", "restarted", "gone", "unreachable"]
"""What became of a kernel since a link to it was made; "gone" is culled or shut down."""


class KernelLink(Protocol):
    """A connection to one kernel, shared by all agents of this process."""

    @property
    def kernel_id(self) -> str:
        """Of the kernel."""

    @property
    def language(self) -> str | None:
        """The language that the kernel says it speaks."""

    @property
    def busy_with(self) -> str | None:
        """The id of the execute request that the kernel works on, whoever sent it."""

    def listen(self, receiver: Callable[[KernelMessage], None]) -> None:
        """Call a function with each message that belongs to a request of this link.

        That includes requests that the link made by itself: kernels assign a thread's output to
        the latest request. Updates of displays come whoever caused them, because a display may be
        updated from anywhere.
        """

    def execute(
        self,
        code: str,
        *,
        silent: bool = False,
        store_history: bool = True,
        allow_stdin: bool = True,
        user_expressions: Mapping[str, str] | None = None,
    ) -> str:
        """Ask the kernel to run code; returns the id of the request."""

    def finish(self, request: str) -> None:
        """Note that a request is over and nothing of it is missing. Output that its threads and
        tasks produce later is still passed on."""

    def forget(self, request: str) -> None:
        """Pass on no more messages of a request."""

    def reply_to_input(self, text: str) -> None:
        """Answer the kernel's question."""

    async def fate(self) -> Fate:
        """What became of the kernel; asked often while something runs."""

    async def close(self) -> None:
        """End the connection; the kernel goes on."""


class Kernels(Protocol):
    """Where kernels live. A notebook's kernel is the one of its Jupyter session, always."""

    async def find(self, path: str) -> KernelInfo | None:
        """The kernel of the document's session; None if it has none."""

    async def start(self, path: str, name: str) -> KernelInfo:
        """The kernel of the document's session, started if there is none; never a second one.

        Raises:
            KernelUnavailable: It could not be started.
        """

    async def follow(self, path: str, new_path: str) -> None:
        """Rename the session of a document that was renamed while its kernel was started, unless
        it has the new name already."""

    async def connect(self, kernel_id: str) -> KernelLink:
        """A link to a kernel that listens, the same one for all who ask.

        Raises:
            KernelUnavailable: It does not answer, or is gone.
        """

    async def interrupt(self, kernel_id: str) -> None:
        """Interrupt what runs."""

    async def restart(self, kernel_id: str) -> None:
        """Restart a kernel and wait until it is back.

        Raises:
            KernelUnavailable: It did not come back.
        """

    async def change(self, path: str, name: str) -> KernelInfo:
        """Give the document's session another kernel; the old one ends.

        Raises:
            KernelUnavailable: The new one could not be started; the old one is still there.
        """

    async def specs(self) -> tuple[Mapping[str, KernelSpec], str]:
        """The kernels that could be started, by name, and the name of the default one."""

    async def running(self) -> Sequence[KernelInfo]:
        """All kernels of the server."""

    async def close(self) -> None:
        """End all connections."""
