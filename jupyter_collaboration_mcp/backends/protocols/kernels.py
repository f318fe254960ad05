"""The kernel operations of a backend: find, start, interrupt and replace kernels, and links to run
code in them."""

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
    """The name of its kernelspec."""
    state: str
    """idle, busy, starting, restarting, dead, ..."""
    last_activity: str | None = None
    path: str | None = None
    """The document of its Jupyter session, if it has one."""


Channel = Literal["shell", "iopub", "stdin", "control"]
"""The sockets through which a kernel exchanges messages."""


class KernelMessage(NamedTuple):
    """A message from a kernel, read only as far as necessary."""

    channel: Channel
    type: str
    parent: str
    """The id of the request that caused it."""
    date: str
    content: Mapping[str, Any]
    metadata: Mapping[str, Any]
    size: int
    """Size of its content on the wire, in bytes."""


OUTPUT_MISSING = "output_missing"
"""The type of a message that a link itself creates where output of a request was lost. It has a
`reason` for the agent and a `text` for the cell."""

Fate = Literal["alive", "died", "restarted", "gone", "unreachable"]
"""What became of a kernel since a link to it was made; "gone" means culled or shut down."""


class KernelLink(Protocol):
    """A connection to one kernel, shared by all agents of this process."""

    @property
    def kernel_id(self) -> str:
        """The id of the kernel."""

    @property
    def language(self) -> str | None:
        """The language that the kernel reports."""

    @property
    def busy_with(self) -> str | None:
        """The id of the execute request that the kernel works on, whoever sent it."""

    def listen(self, receiver: Callable[[KernelMessage], None]) -> None:
        """Call a function with each message that belongs to a request of this link.

        That includes requests of the link itself: kernels attribute a thread's output to the latest
        request. Updates of displays are included whoever caused them, because a display may be
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
        """Note that a request is over and nothing of it is missing. Later output of its threads and
        tasks is still passed on."""

    def forget(self, request: str) -> None:
        """Stop passing on messages of a request."""

    def reply_to_input(self, text: str) -> None:
        """Answer the kernel's input request."""

    async def fate(self) -> Fate:
        """What became of the kernel; called often while something runs."""

    async def close(self) -> None:
        """End the connection; the kernel keeps running."""


class Kernels(Protocol):
    """The kernels of a server. A notebook's kernel is always that of its Jupyter session."""

    async def find(self, path: str) -> KernelInfo | None:
        """The kernel of the document's session; None if it has none."""

    async def start(self, path: str, name: str) -> KernelInfo:
        """Return the kernel of the document's session; start one if there is none, never a second.

        Raises:
            KernelUnavailable: It could not be started.
        """

    async def follow(self, path: str, new_path: str) -> None:
        """Rename the session of a document that was renamed while its kernel was starting, unless
        it already has the new name."""

    async def connect(self, kernel_id: str) -> KernelLink:
        """Return a listening link to a kernel, the same one for all callers.

        Raises:
            KernelUnavailable: It does not answer, or is gone.
        """

    async def interrupt(self, kernel_id: str) -> None:
        """Interrupt what is running."""

    async def restart(self, kernel_id: str) -> None:
        """Restart a kernel and wait until it is back.

        Raises:
            KernelUnavailable: It did not come back.
        """

    async def change(self, path: str, name: str) -> KernelInfo:
        """Give the document's session another kernel; the old one is shut down.

        Raises:
            KernelUnavailable: The new one could not be started; the old one still runs.
        """

    async def end(self, path: str) -> None:
        """Shut down the kernel of the document's session, if it has one, and end the session."""

    async def specs(self) -> tuple[Mapping[str, KernelSpec], str]:
        """The kernels that can be started, by name, and the name of the default one."""

    async def running(self) -> Sequence[KernelInfo]:
        """All kernels of the server."""

    async def close(self) -> None:
        """End all connections."""
