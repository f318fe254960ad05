"""Rooms, loaders and managers of the real libraries, with or without a workaround for them."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager
from jupyter_server_fileid.manager import ArbitraryFileIdManager
from jupyter_server_ydoc.handlers import DocForkHandler
from jupyter_server_ydoc.loaders import FileLoaderMapping
from jupyter_server_ydoc.rooms import DocumentRoom
from jupyter_server_ydoc.websocketserver import JupyterWebsocketServer, exception_logger
from jupyter_ydoc import YNotebook, ynotebook
from pycrdt.store import BaseYStore, SQLiteYStore

from jupyter_collaboration_mcp.backends.disk.local_disk import LocalDisk
from jupyter_collaboration_mcp.backends.in_process.journal import Journal
from jupyter_collaboration_mcp.backends.in_process.room_watch import RoomWatch
from jupyter_collaboration_mcp.backends.protocols.room_ids import Kind, RoomId
from jupyter_collaboration_mcp.backends.upstream.registry import Workarounds
from jupyter_collaboration_mcp.backends.upstream.renames import saves_held
from jupyter_collaboration_mcp.backends.upstream.workaround import Server

log = logging.getLogger("stage")


class Sessions:
    """Enough of a session manager to fit; `test_session_creation` has a real one."""

    async def create_session(
        self,
        path: str | None = None,
        name: str | None = None,
        type: str | None = None,  # noqa: A002
        kernel_name: str | None = None,
        kernel_id: str | None = None,
    ) -> None: ...

    async def get_session(self, **kwargs: Any) -> None: ...

    async def update_session(self, session_id: str, **kwargs: Any) -> None: ...


class Stage:
    """What a Jupyter server with collaboration consists of, without the server."""

    def __init__(
        self,
        directory: Path,
        disabled: Sequence[str] = (),
        contents: type[AsyncLargeFileManager] = AsyncLargeFileManager,
        sessions: Any = None,
    ) -> None:
        self.root = directory / "root"
        self.root.mkdir()
        self.contents: Any = contents(root_dir=str(self.root))
        self.file_ids: Any = ArbitraryFileIdManager(
            root_dir=str(self.root), db_path=str(directory / "ids.db")
        )
        settings = {"contents_manager": self.contents, "file_id_manager": self.file_ids}
        self.loaders = FileLoaderMapping(settings)
        self.websocket_server = JupyterWebsocketServer(
            ystore_class=BaseYStore,
            rooms_ready=False,
            auto_clean_rooms=False,
            exception_handler=exception_logger,
            log=log,
        )
        self.journal = Journal(directory / "journal.db")
        self.rooms: list[DocumentRoom] = []
        self.watches: dict[str, RoomWatch] = {}
        self.server = Server(
            contents=self.contents,
            disk=LocalDisk.below(self.contents),
            file_ids=self.file_ids,
            ydoc=SimpleNamespace(
                file_loaders=self.loaders,
                ywebsocket_server=self.websocket_server,
                _room_locks=defaultdict(asyncio.Lock),
                document_cleanup_delay=None,
                document_save_delay=None,
            ),
            sessions=Sessions() if sessions is None else sessions,
            renames=self,
            prepare_loader=lambda loader: self.workarounds.prepare_loader(loader),
            log=log,
        )
        self.workarounds = Workarounds(disabled, log)
        self.workarounds.start(self.server)

    async def open(self, path: str, store: BaseYStore | None = None) -> DocumentRoom:
        """Load the room of a file, as it is loaded for whoever opens it first."""
        kind: Kind = "notebook" if path.endswith(".ipynb") else "file"
        room_id = RoomId.of(kind, self.file_ids.index(path))
        loader = self.loaders[room_id.file_id]
        self.workarounds.prepare_loader(loader)
        room = DocumentRoom(
            room_id,
            room_id.file_format,
            room_id.file_type,
            loader,
            SimpleNamespace(emit=self._on_event),
            store,
            log,
            save_delay=0.01,
            exception_handler=exception_logger,
        )
        self.rooms.append(room)
        await room.initialize()
        watch = RoomWatch(room, self.journal, 1_000_000, self.workarounds, log)
        self.watches[room_id] = watch
        return room

    def watch(self, room: DocumentRoom) -> RoomWatch:
        return self.watches[room.room_id]

    async def save(self, room: DocumentRoom) -> None:
        """Save as a person does who asks for it."""
        await room._save_to_disc()

    def _on_event(self, schema_id: str, data: dict[str, Any]) -> None:
        if data.get("action") == "save" and data["room"] in self.watches:
            self.watches[data["room"]].on_save_ended(None)

    @asynccontextmanager
    async def hold_saves(self, path: str) -> AsyncIterator[Sequence[DocumentRoom]]:
        rooms = [room for room in self.rooms if room._file.path == path]
        async with saves_held(rooms):
            yield rooms

    @asynccontextmanager
    async def moving(self, path: str, new_path: str) -> AsyncIterator[None]:
        yield
        self.file_ids.move(path, new_path)

    async def close(self) -> None:
        ending = [task for watch in self.watches.values() for task in watch.close()]
        await asyncio.gather(*ending, return_exceptions=True)
        for room in self.rooms:
            if room._saving_document is not None:
                await asyncio.wait([room._saving_document])
        await self.loaders.clear()
        await self.journal.close()
        self.file_ids.con.close()
        self.contents.notary.store.close()


MakeStage = Callable[..., Stage]


@pytest.fixture
async def make_stage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, anyio_backend: str
) -> AsyncIterator[MakeStage]:
    """Stages, each on a root of its own; what is patched for the whole process is put back."""
    monkeypatch.setattr(YNotebook, "observe", YNotebook.observe)
    monkeypatch.setattr(ynotebook, "cast_all", vars(ynotebook)["cast_all"])
    monkeypatch.setattr(DocForkHandler, "put", DocForkHandler.put)
    monkeypatch.setattr(SQLiteYStore, "_init_db", SQLiteYStore._init_db)
    async with AsyncExitStack() as stack:
        made = 0

        def make(*disabled: str, **options: Any) -> Stage:
            nonlocal made
            made += 1
            directory = tmp_path / f"stage-{made}"
            directory.mkdir()
            stage = Stage(directory, disabled, **options)
            stack.push_async_callback(stage.close)
            return stage

        yield make
