"""Notebooks of a server without collaboration: read and written as files, and said to be so.

There is no room that anybody could be in. The file is loaded into a document of our own, and each
edit is saved at once, if nobody else has written the file meanwhile.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from jupyter_ydoc import YNotebook
from pycrdt import Doc, YMessageType, handle_sync_message

from ..errors import DocumentNotFound, NotANotebook, RoomUnavailable
from .base import Authorship
from .jupyter_api import JupyterApi, Refused

PREFIX = "file:notebook:"


class FileRooms:
    """The notebooks of one server that has no rooms."""

    def __init__(self, api: JupyterApi) -> None:
        self._api = api
        self._paths: dict[str, str] = {}

    def identify(self, path: str) -> str:
        """A name for a notebook, as a room would have one."""
        file_id = hashlib.sha256(path.encode()).hexdigest()[:32]
        self._paths[file_id] = path
        return f"{PREFIX}{file_id}"

    def path_of(self, file_id: str) -> str | None:
        return self._paths.get(file_id)

    async def join(self, room_id: str) -> FileRoom:
        """Load a notebook.

        Raises:
            PathError: There is none.
        """
        room = FileRoom(self._api, room_id, self._paths[room_id.removeprefix(PREFIX)])
        await room.load()
        return room


class FileRoom:
    """One notebook file, in the shape of a seat in a room."""

    durable = True
    mode: Literal["live", "file"] = "file"
    session_id = "file"

    def __init__(self, api: JupyterApi, room_id: str, path: str) -> None:
        self.room_id = room_id
        self.path = path
        self.alive = True
        self.saved = True
        self.states: Mapping[int, Mapping[str, Any]] = {}
        self.on_end: Callable[[], None] | None = None
        self._api = api
        self._doc: Doc[Any] = Doc()
        self._notebook = YNotebook(self._doc)
        self._received: list[bytes] = []
        self._sending = False
        self._modified: str | None = None
        self._doc.observe(self._on_update)

    async def load(self) -> None:
        """Have what the file has."""
        model = await self._ask("GET", {"type": "notebook", "content": "1"})
        self._modified = model["last_modified"]
        self._notebook.set(model["content"])

    def attach(self, doc: Doc[Any]) -> None:
        """Nobody asks what this room lacks: it is told everything."""

    def on_arrival(self, tell: Callable[[], None]) -> None:
        """Nobody comes."""

    def notices(self) -> Sequence[str]:
        return ()

    def send(self, message: bytes) -> None:
        if message[0] == YMessageType.SYNC:
            self._sending = True
            try:
                handle_sync_message(message[1:], self._doc)
            finally:
                self._sending = False
            self.saved = False

    def receive(self) -> Sequence[bytes]:
        received, self._received = self._received, []
        return received

    def record(self, authorship: Authorship) -> None:
        """A file remembers no authors."""

    async def current(self) -> None:
        if self.saved and await self._changed():
            await self.load()

    async def acknowledged(self) -> None:
        if self.saved:
            return
        if await self._changed():
            await self.load()
            self.saved = True
            raise RoomUnavailable(
                f"{self.path} was changed by somebody else in the same moment; nothing was saved.",
                "Read the notebook again and redo the edit.",
                path=self.path,
            )
        body = {"type": "notebook", "format": "json", "content": self._notebook.get()}
        model = await self._ask("PUT", {}, body)
        self._modified = model["last_modified"]
        self.saved = True

    async def flush(self) -> None:
        """All of it is saved already."""

    async def close(self) -> None:
        self.alive = False

    async def _changed(self) -> bool:
        model = await self._ask("GET", {"content": "0"})
        return bool(model["last_modified"] != self._modified)

    async def _ask(self, method: str, query: Mapping[str, str], body: Any = None) -> Any:
        path = ("api", "contents", *self.path.split("/"))
        try:
            model = await self._api.request(method, *path, query=query, body=body)
        except Refused as refused:
            if refused.status == 404:
                self.alive = False
                raise DocumentNotFound(
                    f"There is no notebook at {self.path!r}.",
                    "Call list_notebooks to see what is there.",
                    path=self.path,
                ) from refused
            raise RoomUnavailable(
                f"The server refuses to {'save' if body else 'read'} {self.path}: {refused}.",
                "Ask the person whether the file may be written.",
                path=self.path,
            ) from refused
        if model.get("type") != "notebook":
            raise NotANotebook(
                f"{self.path!r} is a {model.get('type')}, not a notebook.",
                "Name a .ipynb file; list_notebooks shows them.",
                path=self.path,
            )
        return model

    def _on_update(self, event: Any) -> None:
        if not self._sending:
            self._received.append(event.update)
