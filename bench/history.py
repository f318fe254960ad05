"""What the history costs: asking for the latest versions of a long history, and each edit.

An edit is compared with one in a server that records no authors and indexes nothing.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from functools import partial
from itertools import count
from logging import getLogger
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from jupyter_ydoc import YNotebook
from pycrdt import Doc

from jupyter_collaboration_mcp.backends.protocols.room_ids import RoomId
from jupyter_collaboration_mcp.backends.remote.backend import RemoteBackend
from jupyter_collaboration_mcp.backends.remote.jupyter_api import JupyterApi
from jupyter_collaboration_mcp.backends.remote.server_address import ServerAddress
from tests.harness.agents import AgentClient
from tests.harness.collaborator import Collaborator
from tests.harness.jupyter import JupyterProcess

from .measuring import Call, Goal, Row, Sizes, interleave
from .serving import connect, jupyter, make_notebook, source

LONG = Goal(3)
EDIT = Goal(1.05)

_TOOL = "get_document_history"

_SHORT_ROWS = 100


async def run(sizes: Sizes) -> list[Row]:
    return [*await _listing(sizes), await _edits(sizes)]


async def _listing(sizes: Sizes) -> list[Row]:
    """The latest ten versions, of few rows and of many."""
    many = 10_000 if sizes.calls >= 100 else 500
    with TemporaryDirectory(prefix="bench-") as directory:
        store = Path(directory) / "store.db"
        async with (
            jupyter(config={"SQLiteYStore": {"db_path": str(store)}}) as server,
            connect(server.url, server.token) as ada,
            _backend(server) as backend,
        ):
            tools = {tool.name for tool in (await ada.client.list_tools()).tools}
            calls: dict[str, Call] = {}
            first: dict[int, float] = {}
            for rows in (_SHORT_ROWS, many):
                path = f"{rows}.ipynb"
                make_notebook(server.root, path, 20)
                room_id = await backend.identify(path)
                await backend.versions.current(room_id)  # the room stores what the file says
                _store_edits(store, room_id, rows)
                began = time.perf_counter()
                await backend.versions.list(room_id, 10)
                first[rows] = time.perf_counter() - began
                if _TOOL in tools:
                    calls[path] = partial(ada.ask, _TOOL, path=path, limit=10)
                else:
                    calls[path] = partial(backend.versions.list, room_id, 10)
                await calls[path]()
            times = await interleave(calls, sizes)
    case = f"10 of {many:,} rows against {_SHORT_ROWS}"
    short, long = times[f"{_SHORT_ROWS}.ipynb"], times[f"{many}.ipynb"]
    return [
        Row.compare("history", case, short, long, LONG),
        Row.absolute("history", f"indexing {many:,} rows once", [first[many]], None, "s"),
    ]


async def _edits(sizes: Sizes) -> Row:
    async with AsyncExitStack() as stack:
        calls: dict[str, Call] = {}
        for name, extension in (("without", {"unrecorded_extension": True}), ("with", {})):
            server = await stack.enter_async_context(jupyter(extensions=extension))
            make_notebook(server.root, "edit.ipynb", 10)
            ada = await stack.enter_async_context(connect(server.url, server.token))
            await stack.enter_async_context(
                Collaborator(server.url, server.token, "edit.ipynb", "Ana")
            )
            calls[name] = _edit(ada)
        times = await interleave(calls, sizes)
    return Row.compare("history", "an edit", times["without"], times["with"], EDIT)


def _edit(ada: AgentClient) -> Call:
    steps = count(1_000)
    return lambda: ada.write("edit.ipynb", "cell-00005", source(next(steps)))


def _store_edits(store: Path, room_id: RoomId, rows: int) -> None:
    """Put edits of the past into the store, as if somebody had typed for hours."""
    key = f".{room_id.file_type}:{room_id.file_id}.y"
    with closing(sqlite3.connect(store, timeout=30)) as database, database:
        query = "SELECT yupdate, timestamp FROM yupdates WHERE path = ? ORDER BY rowid"
        doc: Doc[Any] = Doc()
        for update, stamp in database.execute(query, (key,)).fetchall():
            doc.apply_update(update)
            last = stamp
        updates: list[bytes] = []
        notebook = YNotebook(doc)
        doc.observe(lambda event: updates.append(event.update))
        for number in range(rows):
            notebook.ycells[number % 20]["source"].insert(0, "x")
        database.executemany(
            "INSERT INTO yupdates VALUES (?, ?, ?, ?)",
            [(key, update, b"", last + 5 * number) for number, update in enumerate(updates, 1)],
        )


@asynccontextmanager
async def _backend(server: JupyterProcess) -> AsyncIterator[RemoteBackend]:
    api = JupyterApi(ServerAddress(server.url, server.token))
    backend = RemoteBackend(api, getLogger("bench"))
    try:
        yield backend
    finally:
        await backend.close()
        await api.close()
