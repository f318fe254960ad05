"""A person's tab: a collaborator over the real collaboration WebSocket.

It types, adds and deletes cells, shows a name, and comes back after the server died with the
document it had, as a tab left open does.
"""

import asyncio
import json
import random
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack, suppress
from typing import Any, Literal, Self, cast
from urllib.parse import quote

import anyio
import httpx
from jupyter_ydoc import YNotebook, ydocs
from pycrdt import (
    Assoc,
    Awareness,
    Decoder,
    Doc,
    Encoder,
    Map,
    Text,
    TextEvent,
    TransactionEvent,
    YMessageType,
    YSyncMessageType,
    create_awareness_message,
    create_sync_message,
    create_update_message,
    handle_sync_message,
    read_message,
)
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

CellReference = int | str | None
"""A cell by index or id; None is the whole text of a document without cells."""

RAW = 2
"""The collaboration server's own message type, beside SYNC and AWARENESS."""


class Collaborator:
    """A person in a document, from entering the block to leaving it.

    Args:
        server_url: The Jupyter server, base URL included.
        token: Its token.
        path: The document, relative to the server's root.
        name: Whom the others see.
        kind: A notebook, or a plain text file.
        fork: The id of a fork of it, to be in that instead.
    """

    def __init__(
        self,
        server_url: str,
        token: str,
        path: str,
        name: str = "Ana",
        kind: Literal["notebook", "file"] = "notebook",
        fork: str | None = None,
    ) -> None:
        self._fork = fork
        self.path = path
        self.name = name
        self.kind = kind
        self.doc: Doc[Any] = Doc()
        self.awareness = Awareness(self.doc)
        self.document: Any = ydocs[kind](self.doc, self.awareness)
        self.connections = 0
        """How many times it has been in sync with the server: 2 after one reconnect."""
        self.last_error: Exception | None = None
        self.awareness_bytes = 0
        """Bytes of awareness messages from the server."""
        self._server_url = server_url.rstrip("/")
        self._headers = {"Authorization": f"token {token}"}
        self._connection: _Connection | None = None
        self._opened: _Connection | None = None
        self._changed = asyncio.Event()
        self._applying = False
        self._places: dict[str, int] = {}
        """Where a cell was when it was last looked for."""
        self._lifetime = AsyncExitStack()
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def notebook(self) -> YNotebook:
        """The document as a notebook."""
        return cast("YNotebook", self.document)

    @property
    def connected(self) -> bool:
        """Whether it is in sync with a living server."""
        return self._connection is not None

    # What this person sees

    def ids(self) -> list[str]:
        """The ids of the cells, in order."""
        with self.doc.transaction():
            return [str(cell["id"]) for cell in self.notebook.ycells]

    def source(self, cell: CellReference = None) -> str:
        """The text of a cell, or of a document without cells."""
        return str(self._text(cell))

    def sources(self) -> list[str]:
        """The texts of all cells, in order."""
        with self.doc.transaction():
            return [str(cell["source"]) for cell in self.notebook.ycells]

    def cell(self, cell: CellReference) -> dict[str, Any]:
        """A cell as in a notebook file: type, source, outputs, metadata."""
        return cast("dict[str, Any]", self._ycell(cell).to_py())

    def awareness_users(self) -> list[dict[str, Any]]:
        """The `user` of everyone else present in the document."""
        return [
            state["user"]
            for client_id, state in self.awareness.states.items()
            if client_id != self.awareness.client_id and "user" in state
        ]

    async def until(self, condition: Callable[[], object], timeout: float = 10) -> None:
        """Wait for a condition, which is looked at again after every change this person sees.

        A cell that is not there (yet) counts as a condition not (yet) met. The limit is less than
        the 15 seconds after which all who are present say so again, asked or not.

        Raises:
            TimeoutError: With what this person sees instead.
        """
        try:
            async with asyncio.timeout(timeout):
                while not _holds(condition):
                    for task in self._tasks:
                        if task.done():
                            task.result()
                    await self._changed.wait()
        except TimeoutError:
            raise TimeoutError(
                f"{self.name} waited {timeout} s in vain (connected: {self.connected}, "
                f"last error: {self.last_error!r}), and sees: {self._view()}"
            ) from None

    async def synced(self, timeout: float = 30) -> None:
        """Wait until it is in sync with a living server."""
        await self.until(lambda: self.connected, timeout)

    # What this person does

    def insert(self, cell: CellReference, position: int, text: str) -> None:
        """Insert text before the character at a position."""
        target = self._text(cell)
        target.insert(_utf8_length(str(target)[:position]), text)

    def delete(self, cell: CellReference, position: int, length: int) -> None:
        """Delete characters from a position on."""
        target = self._text(cell)
        before, deleted = str(target)[:position], str(target)[position : position + length]
        start = _utf8_length(before)
        del target[start : start + _utf8_length(deleted)]

    async def type(
        self, cell: CellReference, at: int | str | None, text: Iterable[str], delay: float = 0
    ) -> None:
        """Type character by character, at a caret that moves with what others write.

        Args:
            cell: Where to type.
            at: A position, or the text to type behind; None is the end.
            text: What to type.
            delay: Seconds between two characters.
        """
        target = self._text(cell)
        content = str(target)
        if at is None:
            position = len(content)
        elif isinstance(at, str):
            position = content.index(at) + len(at)
        else:
            position = at
        with _Caret(target, _utf8_length(content[:position])) as caret:
            for character in text:
                caret.type(character)
                await anyio.sleep(delay)

    def insert_cell(
        self, index: int, source: str = "", cell_type: str = "code", cell_id: str | None = None
    ) -> str:
        """Insert a cell before the one at an index, and return its id."""
        value: dict[str, Any] = {"cell_type": cell_type, "source": source}
        if cell_type == "code":
            value |= {"outputs": [], "execution_count": None}
        if cell_id is not None:
            value["id"] = cell_id
        ycell = self.notebook.create_ycell(value)
        self.notebook.ycells.insert(index, ycell)
        return str(ycell["id"])

    def append_cell(
        self, source: str = "", cell_type: str = "code", cell_id: str | None = None
    ) -> str:
        """Add a cell at the end, and return its id."""
        return self.insert_cell(len(self.notebook.ycells), source, cell_type, cell_id)

    def delete_cell(self, cell: CellReference) -> None:
        """Delete a cell."""
        del self.notebook.ycells[self._index(cell)]

    def set_metadata(self, cell: CellReference, **values: Any) -> None:
        """Set keys of a cell's metadata; None removes one."""
        metadata = cast("Map[Any]", self._ycell(cell)["metadata"])
        for key, value in values.items():
            if value is not None:
                metadata[key] = value
            elif key in metadata:
                del metadata[key]

    def put_caret(
        self, cell: CellReference = None, position: int = 0, anchor: int | None = None
    ) -> None:
        """Click into a text that is ASCII, or select from an anchor to a position, as others see
        it: a tab keeps its last caret when it loses the focus."""
        target = self._text(cell)
        ends = [
            _relative_position(target, at)
            for at in (position if anchor is None else anchor, position)
        ]
        cursor = {"anchor": ends[0], "head": ends[1], "primary": True, "empty": anchor is None}
        self.awareness.set_local_state_field("cursors", [cursor])

    async def flush(self, timeout: float = 30) -> None:
        """Wait until the server has applied everything this person did.

        What the room had by then, this person sees afterwards.
        """
        async with asyncio.timeout(timeout):
            while True:
                await self.synced(timeout)
                if self._connection is not None and await self._connection.answered():
                    return

    async def save(self, timeout: float = 30) -> str:
        """Save as Ctrl+S does.

        Returns:
            `success`, `failed`, or `skipped` when the server was saving already.
        """
        # The server answers a save out of turn, before the updates that wait in its queue.
        await self.flush(timeout)
        assert self._connection is not None
        async with asyncio.timeout(timeout):
            return await self._connection.save()

    # The connection

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            # Tasks and not a task group: the error of a test must not come out in a group.
            stack.push_async_callback(self._stop_tasks)
            document = self.doc.observe(self._on_document)
            stack.callback(self.doc.unobserve, document)
            awareness = self.awareness.observe(self._on_awareness)
            stack.callback(self.awareness.unobserve, awareness)
            # A leaving tab says so; otherwise its name would stay for 30 seconds.
            stack.push_async_callback(self._say_goodbye)
            self.awareness.set_local_state({"user": _user(self.name), "autosave": True})
            for work in (self.awareness.start(), self._stay_connected()):
                task = asyncio.create_task(work)
                task.add_done_callback(lambda _: self._notify())
                self._tasks.append(task)
            await self.synced()
            self._lifetime = stack.pop_all()
        return self

    async def __aexit__(self, *exception: Any) -> None:
        await self._lifetime.__aexit__(*exception)

    async def _stop_tasks(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _say_goodbye(self) -> None:
        self.awareness.set_local_state(None)
        if self._connection is not None:
            with anyio.move_on_after(10, shield=True):
                await self._connection.answered()

    async def _stay_connected(self) -> None:
        delay = 0.1
        while True:
            before = self.connections
            try:
                await self._connect_once()
            except (OSError, httpx.HTTPError, WebSocketException) as error:
                self.last_error = error
            delay = 0.1 if self.connections > before else min(delay * 2, 0.3)
            await anyio.sleep(delay * random.uniform(0.5, 1.5))

    async def _connect_once(self) -> None:
        async with httpx.AsyncClient(
            headers=self._headers, trust_env=False, verify=False, timeout=30
        ) as http:
            response = await http.put(
                f"{self._server_url}/api/collaboration/session/{quote(self.path)}",
                json={
                    "format": "json" if self.kind == "notebook" else "text",
                    "type": self.kind,
                },
            )
            response.raise_for_status()
            session = response.json()
        # The colons stay as they are: an id with %3A silently is another, empty room.
        room = self._fork or f"{session['format']}:{session['type']}:{session['fileId']}"
        async with connect(
            f"{self._server_url.replace('http', 'ws', 1)}/api/collaboration/room/{room}"
            f"?sessionId={session['sessionId']}",
            additional_headers=self._headers,
            max_size=None,
            proxy=None,
        ) as websocket:
            connection = _Connection(websocket, self.doc)
            try:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(connection.send_queued)
                    connection.send(create_sync_message(self.doc))
                    self._opened = connection
                    try:
                        async for message in websocket:
                            assert isinstance(message, bytes)
                            self._on_message(connection, message)
                    except WebSocketException as error:
                        self.last_error = error
                    tasks.cancel_scope.cancel()
            finally:
                self._connection = self._opened = None
                connection.lose()
                self._notify()

    def _on_message(self, connection: "_Connection", message: bytes) -> None:
        match message[0]:
            case YMessageType.SYNC:
                self._applying = True
                try:
                    reply = handle_sync_message(message[1:], self.doc)
                finally:
                    self._applying = False
                if reply is not None:
                    connection.send(reply)
                if message[1] == YSyncMessageType.SYNC_STEP2:
                    if self._connection is None:
                        self._connection = connection
                        self.connections += 1
                        self.awareness.set_local_state(self.awareness.get_local_state())
                    connection.on_answer()
            case YMessageType.AWARENESS:
                self.awareness_bytes += len(message)
                self.awareness.apply_awareness_update(read_message(message[1:]), "remote")
            case _:
                connection.on_raw(message)
        self._notify()

    def _on_document(self, event: TransactionEvent) -> None:
        # Also before the server's first answer, as a tab does: its own question may have been
        # answered already, without this.
        if not self._applying and self._opened is not None:
            self._opened.send(create_update_message(event.update))
        self._notify()

    def _on_awareness(self, topic: str, change: tuple[dict[str, Any], Any]) -> None:
        clients, origin = change
        if topic == "update" and origin == "local" and self._connection is not None:
            changed = [client for kind in clients.values() for client in kind]
            update = self.awareness.encode_awareness_update(changed)
            self._connection.send(create_awareness_message(update))
        self._notify()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    # Cells

    def _index(self, cell: CellReference) -> int:
        if isinstance(cell, int):
            return cell
        cells, place = self.notebook.ycells, self._places.get(str(cell), -1)
        # To go through thousands of cells for each character takes seconds.
        if not (0 <= place < len(cells) and cells[place]["id"] == cell):
            place = self._places[str(cell)] = self.ids().index(str(cell))
        return place

    def _ycell(self, cell: CellReference) -> Map[Any]:
        return cast("Map[Any]", self.notebook.ycells[self._index(cell)])

    def _text(self, cell: CellReference) -> Text:
        if cell is None:
            return cast("Text", self.doc.get("source", type=Text))
        return cast("Text", self._ycell(cell)["source"])

    def _view(self) -> object:
        return self.sources() if self.kind == "notebook" else self.source()


class _Connection:
    """One WebSocket, with those who wait for an answer through it."""

    def __init__(self, websocket: ClientConnection, doc: Doc[Any]) -> None:
        self._websocket = websocket
        self._doc = doc
        self._queue: asyncio.Queue[bytes] = asyncio.Queue()
        # The answers carry no number, but come in the order of the questions. The first
        # question is the one asked on connecting.
        self._questions: deque[asyncio.Future[bool]] = deque([self._future()])
        self._saves: dict[int, asyncio.Future[str]] = {}

    def send(self, message: bytes) -> None:
        self._queue.put_nowait(message)

    async def send_queued(self) -> None:
        # A lost connection is noticed where it is read.
        with suppress(WebSocketException):
            while True:
                await self._websocket.send(await self._queue.get())

    async def answered(self) -> bool:
        """Ask what the document lacks: the server answers after it applied all sent before.

        Returns:
            False when the connection was lost first.
        """
        question = self._future()
        self._questions.append(question)
        self.send(create_sync_message(self._doc))
        return await question

    async def save(self) -> str:
        number = len(self._saves) + 1
        self._saves[number] = asyncio.get_running_loop().create_future()
        encoder = Encoder()
        encoder.write_var_uint(RAW)
        encoder.write_var_string("save")
        encoder.write_var_uint(number)
        self.send(encoder.to_bytes())
        return await self._saves[number]

    def on_answer(self) -> None:
        question = self._questions.popleft()
        if not question.done():
            question.set_result(True)

    def on_raw(self, message: bytes) -> None:
        decoder = Decoder(message)
        decoder.read_var_uint()
        content = json.loads(decoder.read_var_string())
        if content.get("type") == "save":
            reply = self._saves[content["responseTo"]]
            if not reply.done():
                reply.set_result(content["status"])

    def lose(self) -> None:
        for question in self._questions:
            if not question.done():
                question.set_result(False)
        for reply in self._saves.values():
            if not reply.done():
                reply.set_exception(ConnectionError("The server went away during the save."))

    @staticmethod
    def _future() -> asyncio.Future[bool]:
        return asyncio.get_running_loop().create_future()


def _relative_position(target: Text, position: int) -> dict[str, Any]:
    """A position as yjs writes it: by the text, and by the character after it."""
    scope = target.sticky_index(0, Assoc.BEFORE).to_json()
    at_end = position >= len(target)  # B10
    item = None if at_end else target.sticky_index(position, Assoc.AFTER).to_json()["item"]
    return {"type": scope.get("type"), "tname": scope.get("tname"), "item": item, "assoc": 0}


def _user(name: str) -> dict[str, Any]:
    return {
        "username": name.lower(),
        "name": name,
        "display_name": name,
        "initials": name[:2].upper(),
        "avatar_url": None,
        "color": "var(--jp-collaborator-color1)",
    }


def _holds(condition: Callable[[], object]) -> bool:
    try:
        return bool(condition())
    except (LookupError, ValueError):
        return False


def _utf8_length(text: str) -> int:
    # B8: a Text counts in UTF-8 bytes.
    return len(text.encode())


class _Caret:
    """A position in a text, in bytes, that moves with what others write.

    A sticky index would do if it were right: across blocks it counts in bytes, inside a block
    in UTF-16 units, so that it goes astray in texts beyond ASCII. The changes it is told of
    count in bytes throughout.
    """

    def __init__(self, target: Text, position: int) -> None:
        self._target = target
        self._position = position
        self._typing = False

    def __enter__(self) -> Self:
        self._subscription = self._target.observe(self._on_change)
        return self

    def __exit__(self, *exception: object) -> None:
        self._target.unobserve(self._subscription)

    def type(self, text: str) -> None:
        self._typing = True
        try:
            self._target.insert(self._position, text)
        finally:
            self._typing = False
        self._position += _utf8_length(text)

    def _on_change(self, event: TextEvent) -> None:
        if self._typing:
            return
        start = 0
        for change in _delta(event):
            # What others write exactly here comes behind the caret.
            if start >= self._position:
                break
            if "insert" in change:
                length = _utf8_length(change["insert"])
                self._position += length
                start += length
            elif "delete" in change:
                self._position -= min(change["delete"], self._position - start)
            else:
                start += change["retain"]


def _delta(event: TextEvent) -> list[dict[str, Any]]:
    # The compiled class does not declare what it has.
    return cast("list[dict[str, Any]]", event.delta)  # type: ignore[attr-defined]
