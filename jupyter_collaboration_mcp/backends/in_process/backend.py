"""Documents of the Jupyter server that this extension runs in."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from tornado.web import HTTPError

from ...documents import well_formed
from ...documents.awareness import people_in
from ...documents.foreign_text import listed
from ...errors import InUse
from ..protocols.awareness import LobbyLink
from ..protocols.history_messages import AuthorshipMessage
from ..protocols.room_ids import Kind, RoomId, room_kind
from ..protocols.rooms import RoomLink
from ..upstream.loadable_notebooks import LoadableNotebooks
from ..upstream.registry import Workarounds
from ..upstream.root_task import RootTask
from ..upstream.workaround import Server
from .files import InProcessFiles
from .forks import InProcessForks
from .history.background import BackgroundIndexing
from .history.credits import credits_of
from .history.versions import InProcessVersions
from .journal import Journal
from .link import InProcessLink
from .lobby import InProcessLobby
from .room_paths import RoomPaths, has_people, id_of
from .rooms import Rooms
from .server_parts import ServerParts
from .stored_documents import StoredDocuments

if TYPE_CHECKING:
    from jupyter_server.serverapp import ServerApp


class InProcessBackend:
    """The rooms and files of this server."""

    def __init__(
        self,
        serverapp: ServerApp,
        journal: Journal,
        journal_limit: int,
        disabled_workarounds: Collection[str] = (),
        history_days: float = 0,
    ) -> None:
        self._serverapp = serverapp
        self._history_days = history_days
        self._server = ServerParts(serverapp)
        self._journal = journal
        self._notices = journal.records.notices()
        self.workarounds = Workarounds(disabled_workarounds, serverapp.log)
        self._paths = RoomPaths(self._server)
        self._rooms = Rooms(self._server, self._paths, journal, journal_limit, self.workarounds)
        self.files = InProcessFiles(self._server, self._paths, self._rooms)
        self.forks = InProcessForks(
            self._server, self._rooms, self._paths, journal.path.with_name("forks.db")
        )
        self._stored = StoredDocuments(self._server, self._rooms, self.forks, journal)
        self.versions = InProcessVersions(
            journal.path.with_name("history.db"), self._stored.rows, journal.records.drain_credits
        )
        self._indexing = BackgroundIndexing(self.versions, self._stored.known_rows, serverapp.log)
        self._rooms.on_row = self._indexing.on_row
        self._rooms.on_closed = self._indexing.on_closed

    def start(self, renames: Sequence[tuple[str, str]]) -> None:
        """Watch every room from the moment it is loaded, whoever opens it.

        Args:
            renames: Old and new paths of files that were renamed right before a crash.
        """
        self._rooms.start()
        # After all extensions are loaded, and before the first request.
        self._serverapp.io_loop.add_callback(self._prepare_server, renames)

    def _prepare_server(self, renames: Sequence[tuple[str, str]]) -> None:
        """Work around faults of other extensions, and pass on what they could not know."""
        server = self._server
        self.workarounds.start(
            Server(
                contents=server.contents,
                disk=server.disk,
                file_ids=server.file_ids if server.has_file_ids else None,
                ydoc=server.ydoc if server.has_rooms else None,
                sessions=server.sessions,
                renames=_RenameHooks(self.files, self._rooms),
                prepare_loader=self.workarounds.prepare_loader,
                log=server.log,
            )
        )
        for path, new_path in renames:
            self._paths.move(path, new_path)
        self.forks.start()
        if self._history_days:
            self._indexing.thin_daily(self._history_days, self._stored.database)

    async def stop(self) -> None:
        """Save what is unsaved; what cannot be saved stays in the journal."""
        await self.forks.stop()
        await self._rooms.stop()
        await self._indexing.close()
        await self.versions.close()
        await self._journal.close()
        if (root := self.workarounds.find(RootTask)) is not None:
            root.end()

    def on_room_opened(self, tell: Callable[[RoomId], None]) -> None:
        """Set a function to call with each room that is loaded, whoever opens it."""
        self._rooms.on_opened = tell

    def on_room_closed(self, tell: Callable[[RoomId], None]) -> None:
        """Set a function to call with each room that ends while the server runs."""
        index = self._indexing.on_closed

        def closed(room_id: RoomId) -> None:
            index(room_id)
            tell(room_id)

        self._rooms.on_closed = closed

    def on_people_left(self, tell: Callable[[], None]) -> None:
        """Set a function to call when somebody leaves any room."""
        self._rooms.on_people_left = tell

    def on_document_moved(self, tell: Callable[[str], None]) -> None:
        """Set a function to call with the new path of each file that is renamed."""
        self._rooms.on_moved = tell

    async def credit(self, room_id: RoomId, edits: Sequence[AuthorshipMessage]) -> None:
        """Learn which agents of another process made some edits."""
        await self.versions.credit(room_id, [*credits_of(edits)])

    async def identify(self, path: str, kind: Kind | None = "notebook") -> RoomId:
        kind = room_kind(await self.files.look(path), kind)
        await self._end_other_kind(path, kind)
        return self._paths.open_as(path, kind) or self._paths.new(path, kind)

    def known_room(self, path: str, kind: Kind = "notebook") -> RoomId | None:
        return self._paths.known_room(path, kind)

    def path_of(self, file_id: str) -> str | None:
        return self._paths.path_of(file_id) or self.forks.known_path(file_id)

    def open_paths(self) -> list[str]:
        return self._paths.open_paths()

    async def locate(self, file_id: str) -> str | None:
        return self._paths.path_of(file_id)

    async def join(self, room_id: RoomId) -> RoomLink:
        if room_id.is_fork:
            return await self.forks.join(room_id)
        try:
            watch = await self._rooms.open(room_id)
        except HTTPError as error:
            path = self._paths.label(room_id)
            raise await self.files.unreadable(path, room_id.file_type, error) from error
        path = self._paths.label(room_id)
        notices = self._notices.get(room_id, [])
        link = InProcessLink(
            self._server, self._rooms, self._paths, self.files, watch, self._journal, notices
        )
        loadable = self.workarounds.find(LoadableNotebooks)
        if loadable is not None and (rounded := loadable.rounded(path)):
            link.warn(well_formed.rounding(path, rounded))
        await link.enter()
        # The last person may have left just now, and saw nobody else here.
        self._rooms.keep(watch.room)
        return link

    async def enter_lobby(self) -> LobbyLink:
        lobby = InProcessLobby(await self._rooms.lobby())
        await lobby.enter(self._server.ydoc.ywebsocket_server)
        return lobby

    async def _end_other_kind(self, path: str, kind: Kind) -> None:
        """End a room that has the file open as another kind: two rooms overwrite each other.

        Raises:
            InUse: Somebody has it open as the old kind, or as the kind that a link's name implies.
        """
        for room in self._paths.rooms_of(path):
            if id_of(room).file_type == kind:
                continue
            if has_people(room):
                names = listed(people_in(room.awareness.states)) or "Somebody"
                raise InUse(
                    f"{names} has {path!r} open as another kind of document: under the name that "
                    "it had, or through a link.",
                    "Ask them to close it.",
                    path=path,
                )
            await self._rooms.save(room)
            await self._rooms.end(room, f"{path} is another kind of document now.")


class _RenameHooks:
    """Hooks for renames by people or by other extensions of the server."""

    def __init__(self, files: InProcessFiles, rooms: Rooms) -> None:
        self.hold_saves = files.hold_saves
        self.moving = rooms.moving
