"""Documents of a server without collaboration: read and written as files.

There is no room that anybody could be in. The file is loaded into our own document, and each edit
is saved at once, unless somebody else has written the file in the meantime. Every answer reports
that the file itself is used (`limitation`).
"""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from jupyter_ydoc import YFile, YNotebook
from pycrdt import Doc, Subscription, YMessageType, handle_sync_message

from ...documents import line_ends, well_formed
from ...documents.foreign_text import inline
from ...errors import CorruptDocument, DocumentNotFound, RoomUnavailable, ServerError
from ..contents.notebook_text import read_notebook
from ..protocols.room_ids import Kind, RoomId
from ..protocols.rooms import Authorship, Limitation, Overwrite
from ..upstream.number_fidelity import exact_numbers
from .jupyter_api import JupyterApi
from .server_errors import Refused

#: The prefix of such an id, in the place of a room's format.
FILE_FORMAT = "file"


class FileRooms:
    """The documents of one server that has no rooms."""

    def __init__(self, api: JupyterApi) -> None:
        self._api = api
        self._paths: dict[str, str] = {}

    def identify(self, path: str, kind: Kind) -> RoomId:
        """An id for a document, in the form of a room id."""
        # Two servers may have files with the same path.
        named = f"{self._api.address.base}\0{path}"
        file_id = hashlib.sha256(named.encode()).hexdigest()[:32]
        self._paths[file_id] = path
        return RoomId.of(kind, file_id, FILE_FORMAT)

    def path_of(self, file_id: str) -> str | None:
        return self._paths.get(file_id)

    async def join(self, room_id: RoomId) -> FileRoom:
        """Load a document.

        Raises:
            PathError: It does not exist.
        """
        room = FileRoom(self._api, room_id, self._paths[room_id.file_id])
        await room.load()
        return room


class FileRoom:
    """One file, with the interface of a seat in a room."""

    limitation = Limitation(
        "file", "File mode: this server has no live collaboration; the file itself is used."
    )
    at_once = True
    pends = False
    autosaves = True
    session_id = "file"

    def __init__(self, api: JupyterApi, room_id: RoomId, path: str) -> None:
        self.room_id = room_id
        self.path = path
        self.alive = True
        self.saved = True
        self.writable = True
        self.states: Mapping[int, Mapping[str, Any]] = {}
        self.on_end: Callable[[], None] | None = None
        self._api = api
        self._kind = room_id.kind
        self._doc: Doc[Any] = Doc()
        self._document = (YNotebook if self._kind == "notebook" else YFile)(self._doc)
        self._original = ""  # a text with its line ends
        self._received: list[bytes] = []
        self._notices: list[str] = []
        self._sending = False
        self._modified: str | None = None
        self._asking = asyncio.Lock()  # nobody reads the file while an edit is being saved
        self._subscription: Subscription | None = self._doc.observe(self._on_update)

    async def load(self) -> None:
        """Load the content of the file."""
        # For a notebook, the request must not name a format.
        form = self._form if self._kind == "file" else {"type": "notebook"}
        try:
            model = await self._ask("GET", {**form, "content": "1"})
        except RoomUnavailable:
            if self._kind == "notebook":
                await self._require_readable()
            raise
        self._modified = str(model.get("last_modified"))
        self.writable = bool(model.get("writable", True))
        content = model["content"]
        if self._kind == "file":
            self._original, content = content, line_ends.plain(content)
        else:
            await self._prepare(content)
        with exact_numbers():
            self._document.set(content)

    async def _require_readable(self) -> None:
        """Check that a notebook that the server refused to read is valid."""
        query = {"type": "file", "format": "text", "content": "1"}
        await read_notebook(self.path, lambda: self._ask("GET", query))

    async def _prepare(self, notebook: Any) -> None:
        try:
            # Without collaboration, a browser cannot read NaN and Infinity either.
            rounded = await asyncio.to_thread(well_formed.prepare, notebook, math.inf)
        except ValueError as error:
            raise CorruptDocument.notebook(self.path, str(error)) from error
        if rounded:
            self._notices = [well_formed.rounding(self.path, rounded)]

    def whereabouts(self) -> Sequence[str]:
        return (self.path,)

    @property
    def loads(self) -> int:
        return 0

    def loaded_since(self, loads: int) -> Sequence[str]:
        return ()

    def attach(self, doc: Doc[Any]) -> None:
        """Do nothing: this room gets every update."""

    @property
    def _form(self) -> dict[str, str]:
        return {"type": self._kind, "format": "json" if self._kind == "notebook" else "text"}

    def on_update(self, tell: Callable[[], None]) -> None:
        """Do nothing: there is nobody else in a file."""

    def on_arrival(self, tell: Callable[[], None]) -> None:
        """Do nothing: nobody ever joins."""

    def notices(self) -> Sequence[str]:
        notices, self._notices = self._notices, []
        return notices

    def remember(self, notice: str | None) -> None:
        """Do nothing: a crash of another server loses nothing of ours."""

    def send(self, message: bytes) -> None:
        if message[0] == YMessageType.SYNC:
            self._sending = True
            try:
                handle_sync_message(message[1:], self._doc)
            finally:
                self._sending = False
            self.saved = False

    @asynccontextmanager
    async def as_one(self, updates: Sequence[bytes]) -> AsyncIterator[None]:
        async with self._asking:  # nobody saves it in between
            yield

    def receive(self) -> Sequence[bytes]:
        received, self._received = self._received, []
        return received

    def record(self, authorship: Authorship) -> None:
        """Do nothing: a file remembers no authors."""

    def give_up(self) -> None:
        self.alive = False

    async def current(self) -> None:
        async with self._asking:
            if self.saved and await self._last_modified() != self._modified:
                await self.load()

    async def wait_acknowledged(self) -> None:
        async with self._asking:
            if self.saved and self._modified is not None:
                return
            try:
                await self._save()
            except ServerError as error:
                raise RoomUnavailable(
                    f"{error.happened} The edit was on its way and may not have been saved.",
                    "Read it again and repeat the edit if it is missing.",
                    path=self.path,
                ) from error
            finally:
                self.saved = self._modified is None or self.saved

    async def _save(self) -> None:
        # Unset until the save is confirmed: then the file is read before it is used again, and
        # everybody else who waits for the same edits gets an error, too.
        known, self._modified = self._modified, None
        if known is None:
            raise RoomUnavailable(
                f"{inline(self.path)} could not be saved a moment ago, and this edit with it.",
                "Read it again and repeat the edit if it is missing.",
                path=self.path,
            )
        if await self._last_modified() != known:
            raise RoomUnavailable(
                f"{inline(self.path)} was changed by somebody else in the same moment; nothing was "
                "saved.",
                "Read it again and redo the edit.",
                path=self.path,
            )
        with exact_numbers():
            content = self._document.get()
        if self._kind == "file":
            self._original = content = line_ends.restore(str(content), self._original)
        self.saved = True  # what is written from here on is not included
        body = {**self._form, "content": content}
        saved = await self._ask("PUT", {}, body)
        with self._api.expecting("a file that it saved"):
            self._modified = str(saved["last_modified"])

    def overwritten(self) -> Overwrite | None:
        return None  # every edit is in the file when it is acknowledged

    async def stale(self) -> bool:
        return False

    async def save(self) -> None:
        """Do nothing: every edit is saved before it is acknowledged."""

    async def flush(self) -> None:
        """Do nothing: everything is already saved."""

    async def close(self) -> None:
        self.alive = False
        if self._subscription is not None:
            self._doc.unobserve(self._subscription)  # B28: otherwise it is never freed
            self._subscription = None

    async def _last_modified(self) -> str:
        return str((await self._ask("GET", {"content": "0"})).get("last_modified"))

    async def _ask(self, method: str, query: Mapping[str, str], body: Any = None) -> Any:
        path = ("api", "contents", *self.path.split("/"))
        try:
            if method == "GET":
                return await self._api.contents(self.path, **query)
            model = await self._api.request(method, *path, query=query, body=body)
        except Refused as refused:
            if refused.status == 404:
                self.alive = False
                raise DocumentNotFound.at(self.path) from refused
            raise RoomUnavailable(
                f"The server refuses to {'save' if body else 'read'} {inline(self.path)}: "
                f"{refused}.",
                "Ask the person whether the file may be written.",
                path=self.path,
            ) from refused
        return model

    def _on_update(self, event: Any) -> None:
        if not self._sending:
            self._received.append(event.update)
