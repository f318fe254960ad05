"""Clients that are notified of changes, in either era of the protocol."""

from __future__ import annotations

import asyncio
import time
import warnings
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Any, Protocol

import httpx
from mcp import Client
from mcp.client.subscriptions import ResourcesListChanged, ResourceUpdated
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from mcp_types import ResourceListChangedNotification, ResourceUpdatedNotification

from jupyter_collaboration_mcp.documents.addresses import Cell, Document

from .agents import LEGACY, AgentClient
from .jupyter import JupyterProcess
from .waiting import until

LIST = "(list)"
"""What is heard when the list of resources has changed."""


class Heard:
    """What a client was notified of, and when."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.uris: list[str] = []
        self.times: list[float] = []
        self.ended = False
        """Whether the server has ended the stream in good order."""

    def note(self, uri: str) -> None:
        self.uris.append(uri)
        self.times.append(time.monotonic())

    def count(self, uri: str) -> int:
        return self.uris.count(uri)

    async def hears(self, uri: str, timeout: float = 20) -> float:
        """Wait for a notification that comes after this was called; returns when it came."""
        before = len(self.uris)
        await until(lambda: uri in self.uris[before:], timeout)
        return self.times[self.uris.index(uri, before)]

    @asynccontextmanager
    async def hearing(self, uri: str) -> AsyncIterator[None]:
        """Something that has to cause a notification."""
        before = len(self.uris)
        yield
        await until(lambda: uri in self.uris[before:], 20)


class Connect(Protocol):
    """A way to connect a client in an era."""

    def __call__(self, mode: str, on_message: Any) -> AbstractAsyncContextManager[AgentClient]: ...


@asynccontextmanager
async def subscribed(
    connect: Connect, mode: str, uris: Sequence[str], lists: bool = False
) -> AsyncIterator[Heard]:
    """A client that has subscribed to some URIs, and perhaps to the list of resources.

    Raises:
        MCPError: The server refused one.
    """
    heard: Heard | None = None

    async def on_message(message: Any) -> None:
        assert heard is not None
        if isinstance(message, ResourceUpdatedNotification):
            heard.note(str(message.params.uri))
        elif isinstance(message, ResourceListChangedNotification):
            heard.note(LIST)

    async with connect(mode, on_message if mode == LEGACY else None) as agent:
        heard = Heard(agent.client)
        if mode == LEGACY:
            with legacy():
                for uri in uris:
                    await agent.client.subscribe_resource(uri)
            if lists:
                await agent.client.list_resources()
            yield heard
            return
        async with agent.client.listen(
            resource_subscriptions=list(uris), resources_list_changed=lists
        ) as stream:
            listening = asyncio.ensure_future(_note_all(stream, heard))
            try:
                yield heard
            finally:
                listening.cancel()
                await asyncio.wait({listening})


async def _note_all(stream: Any, heard: Heard) -> None:
    async for event in stream:
        if isinstance(event, ResourceUpdated):
            heard.note(event.uri)
        elif isinstance(event, ResourcesListChanged):
            heard.note(LIST)
    heard.ended = True


def only(error: BaseException) -> MCPError:
    """The error of the protocol in what a client raises."""
    while isinstance(error, BaseExceptionGroup):
        (error,) = error.exceptions
    assert isinstance(error, MCPError)
    return error


@contextmanager
def legacy() -> Iterator[None]:
    """Requests that only the older era has, of which the SDK warns."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MCPDeprecationWarning)
        yield


async def address(server: JupyterProcess, path: str, cell: str | None = None) -> str:
    """The URI of a document, or of a cell in it."""
    kind = "notebook" if path.endswith(".ipynb") else "file"
    body = {"format": "json" if kind == "notebook" else "text", "type": kind}
    async with httpx.AsyncClient(headers=server.headers, verify=False) as http:
        answer = await http.put(f"{server.url}api/collaboration/session/{path}", json=body)
        found = answer.raise_for_status().json()
    session, file_id = found["sessionId"], found["fileId"]
    if cell is None:
        return Document(session, file_id).format()
    return Cell(session, file_id, cell).format()
