"""Watching what resources show: documents, cells, runs, the list of notebooks.

`watch` knows which of these a URI means. A watch keeps our peer in the room, where nobody sees it;
the agent does not count as having seen what changed.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import PurePosixPath

from ..backends.protocols.room_ids import Kind, RoomId
from ..collaboration.peer import RoomPeer
from ..documents import addresses
from ..documents.notebook import Notebook
from ..errors import CellNotFound, CollaborationError, InvalidArgument, RunNotFound, SessionNotFound
from ..execution.run import Run
from ..remedies import Intent
from ..workspace.permissions import Level
from ..workspace.permits import Call
from ..workspace.room_watchers import Stop
from ..workspace.sites import Site, Sites
from .documents import Documents, Found
from .kinds import Watch

Tell = Callable[[], None]

#: Rooms that opened or closed whose paths are remembered until the next notification.
_PATHS = 200


async def watch(documents: Documents, call: Call, uri: str, tell: Tell) -> Watch | None:
    """Watch what any URI means; None if it means nothing that changes.

    Args:
        tell: Called on the event loop after each change; it is quick.

    Raises:
        CollaborationError: There is nothing, or the caller may not read it.
    """
    for form in addresses.ADDRESSES:
        match form.parse(uri):
            case None:
                continue
            case addresses.NotebookList():
                await call.authorize(Level.read)
                return ListWatch(documents.sites, tell)
            case addresses.CurrentDocument():
                await call.authorize(Level.read)
                return CurrentWatch(documents.sites, call.agent.key, tell)
            case addresses.Document(session, notebook):
                return await watch_document(documents, call, session, notebook, tell)
            case addresses.DocumentAs(session, notebook, format_):
                require_form(format_)
                return await watch_document(documents, call, session, notebook, tell, "notebook")
            case addresses.SourceFile(session, notebook):
                return await watch_document(documents, call, session, notebook, tell, "notebook")
            case addresses.Cell(session, notebook, cell):
                return await watch_cell(documents, call, session, notebook, cell, tell)
            case addresses.CellFile(session, notebook, name):
                return await watch_cell(documents, call, session, notebook, name, tell)
            case addresses.CellOutput(_, notebook, cell, _, None):
                return await watch_cell(documents, call, None, notebook, cell, tell)
            case addresses.CellOutput(_, notebook, _, _, str(run)):
                return await _watch_output(documents, call, notebook, run, tell)
            case addresses.ExecutionOutput(_, notebook, run):
                return await _watch_output(documents, call, notebook, run, tell)
            case addresses.RunOutput(run):
                found = await documents.sites.notebook_of(run)
                if found is None:
                    raise _no_run(run)
                return await _watch_output(documents, call, found, run, tell)
            case addresses.Execution(_, notebook, run):
                watched = await _watch_output(documents, call, notebook, run, tell)
                if watched is None:
                    raise _no_run(run)
                return watched
            case _:
                return None
    return None


async def watch_document(
    documents: Documents,
    call: Call,
    session: str | None,
    notebook: str,
    tell: Tell,
    kind: Kind | None = None,
) -> DocumentWatch:
    """Watch everything in a document: text, cells, outputs, metadata.

    Args:
        session: As in `Documents.open`; None if any will do.
        kind: What it must be; None if it may be either.
    """
    found = await documents.find(call, notebook)
    peer = await _join(found, session, call, kind)
    return await _watch_room(found, peer.link.room_id, peer.link.path, tell, None)


async def watch_cell(
    documents: Documents, call: Call, session: str | None, notebook: str, cell: str, tell: Tell
) -> DocumentWatch:
    """Watch one cell: its source, type, metadata, outputs, whether it runs, and its deletion.

    Args:
        cell: Its id, or the beginning of it, perhaps with the ending of its language.
    """
    found = await documents.find(call, notebook)
    peer = await _join(found, session, call, "notebook")
    cell_id = _find_cell(peer.notebook, cell)
    return await _watch_room(found, peer.link.room_id, peer.link.path, tell, cell_id)


def watch_run(site: Site, run: Run, tell: Tell) -> RunWatch:
    """Watch a run: its state and its outputs, whether a cell shows them or not."""
    return RunWatch(site, run, tell)


class DocumentWatch:
    """A document, or one cell of it, that somebody watches."""

    def __init__(self, site: Site, room_id: RoomId, path: str, stop: Stop) -> None:
        self._site, self._room_id, self._path = site, room_id, path
        self.close = stop

    async def may_read(self, call: Call) -> bool:
        try:
            workspace = self._site.workspace
            await workspace.check_reading(call, self._site, self._room_id, self._path)
        except CollaborationError:
            return False
        return True


class RunWatch:
    """A run that somebody watches."""

    def __init__(self, site: Site, run: Run, tell: Tell) -> None:
        self._site, self._run = site, run

        def changed() -> None:
            tell()

        self._watcher = changed  # a function of its own, to be found again
        run.watchers.append(changed)

    async def may_read(self, call: Call) -> bool:
        run = self._run
        try:
            await self._site.workspace.check_reading(call, self._site, run.room_id, run.path)
        except CollaborationError:
            return False
        return True

    def close(self) -> None:
        with suppress(ValueError):
            self._run.watchers.remove(self._watcher)


class ListWatch:
    """The list of open notebooks that somebody watches: rooms that open, close or are renamed.

    A caller is only told of rooms that it may know about.
    """

    def __init__(self, sites: Sites, tell: Tell) -> None:
        self._sites, self._tell = sites, tell
        self._changed: dict[tuple[str, str], Site] = {}  # since it was last told
        self._stops: dict[str, tuple[Site, Stop]] = {}
        self._closed = False
        self._stop_sites = sites.watch(self._on_sites)
        self._follow_sites()

    async def may_read(self, call: Call) -> bool:
        changed, self._changed = self._changed, {}
        for (_, path), site in changed.items():
            if not path:
                continue
            with suppress(CollaborationError):
                site.require(Level.read)
                if await call.may_see(site.workspace, path):
                    return True
        return False

    def close(self) -> None:
        self._closed = True
        self._stop_sites()
        for _, stop in self._stops.values():
            stop()
        self._stops.clear()

    def _follow_sites(self) -> None:
        sites = {site.alias: site for site in self._sites}
        for alias, (site, stop) in list(self._stops.items()):
            if sites.get(alias) is not site:
                stop()
                del self._stops[alias]
        for alias, site in sites.items():
            if alias not in self._stops:
                self._stops[alias] = site, self._watch_site(site)

    def _watch_site(self, site: Site) -> Stop:
        return site.workspace.watch_list(lambda path: self._on_room(site, path))

    def _on_room(self, site: Site, path: str) -> None:
        if len(self._changed) < _PATHS:
            self._changed[site.alias, path] = site
        self._tell()

    def _on_sites(self) -> None:
        """A server was connected or disconnected; the rooms of one that is gone are closed."""
        before = {alias: site for alias, (site, _) in self._stops.items()}
        self._follow_sites()
        for alias, site in before.items():
            if alias not in self._stops or self._stops[alias][0] is not site:
                for opened in site.workspace.rooms:
                    self._on_room(site, opened.peer.link.path)


class CurrentWatch:
    """The document that an agent used last, whichever that is."""

    def __init__(self, sites: Sites, agent: str, tell: Tell) -> None:
        self._sites, self._agent, self._tell = sites, agent, tell
        self._room: tuple[Site, RoomId, str] | None = None
        self._stop_room: Stop | None = None
        self._stops: list[Stop] = []
        self._stop_sites = sites.watch(self._follow_sites)
        self._follow_sites()
        self._follow()

    async def may_read(self, call: Call) -> bool:
        if self._room is None:
            return True  # it says that there is none
        site, room_id, path = self._room
        try:
            await site.workspace.check_reading(call, site, room_id, path)
        except CollaborationError:
            return False
        return True

    def close(self) -> None:
        self._stop_sites()
        for stop in self._stops:
            stop()
        self._stops.clear()
        if self._stop_room is not None:
            self._stop_room()
            self._stop_room = None

    def _follow_sites(self) -> None:
        for stop in self._stops:
            stop()
        self._stops = [
            site.workspace.rooms.watchers.watch_agent(self._agent, self._on_used)
            for site in self._sites
        ]

    def _on_used(self) -> None:
        before = self._room
        self._follow()
        if self._room != before:
            self._tell()

    def _follow(self) -> None:
        found = self._sites.current(self._agent)
        if found is None:
            return  # where it was last is still what it used last
        site, room_id = found
        if self._room is not None and self._room[:2] == found:
            return
        if self._stop_room is not None:
            self._stop_room()
        peer = site.workspace.peer_of(room_id)
        self._room = site, room_id, "" if peer is None else peer.link.path
        self._stop_room = site.workspace.rooms.watchers.watch(room_id, self._tell)


def require_form(form: str) -> None:
    """Refuse a format in which no notebook can be read."""
    if form not in addresses.FORMATS:
        raise InvalidArgument(
            f"There is no format {form[:40]!r}.", f"Formats: {', '.join(addresses.FORMATS)}."
        )


async def _join(found: Found, session: str | None, call: Call, kind: Kind | None) -> RoomPeer:
    opened = await found.site.workspace.observed(found.permit, kind, found.fork)
    seat = opened.agents.get(call.agent.key)
    sessions = (opened.peer.link.session_id, None if seat is None else seat.session)
    if session is not None and session not in sessions:
        raise SessionNotFound.of(session)
    return opened.peer


async def _watch_room(
    found: Found, room_id: RoomId, path: str, tell: Tell, cell_id: str | None
) -> DocumentWatch:
    rooms = found.site.workspace.rooms
    stop = rooms.watchers.watch(room_id, tell, cell_id)
    try:
        await rooms.enter(room_id)  # it may have been left before somebody watched it
    except BaseException:
        stop()
        raise
    return DocumentWatch(found.site, room_id, path, stop)


def _find_cell(notebook: Notebook, name: str) -> str:
    try:
        return notebook.id_at(notebook.find(name))
    except CellNotFound:
        stem = PurePosixPath(name).stem
        if stem == name:
            raise
        return notebook.id_at(notebook.find(stem))


async def _watch_output(
    documents: Documents, call: Call, notebook: str, run_id: str, tell: Tell
) -> RunWatch | None:
    """Watch a run; None if only what it left is kept, which does not change."""
    found = await documents.find(call, notebook)
    runs, file_id = found.site.runs, found.id_of(notebook)
    if run_id in runs.remembered:
        run = runs.remembered.find(run_id)
        if run.room_id.file_id == file_id:
            return RunWatch(found.site, run, tell)
    elif await runs.side_files.notebook_of(run_id) == file_id:
        return None
    raise _no_run(run_id)


def _no_run(run_id: str) -> RunNotFound:
    return RunNotFound(
        f"There is no run {run_id[:100]!r} of this notebook, or it was too long ago.",
        Intent.READ_OUTPUTS,
        run_id=run_id,
    )
