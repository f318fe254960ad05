"""The `awareness` toolset: who is here, where they are, what they did; and being seen oneself."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from ..collaboration.activity.activity import Activity
from ..collaboration.cursors import cursors_in, place
from ..collaboration.peer import RoomPeer
from ..collaboration.presence import Status
from ..documents.foreign_text import inline, quoted
from ..documents.members import Member
from ..documents.text_document import WHOLE, TextDocument
from ..errors import DocumentNotFound, InvalidArgument, SessionNotFound
from ..workspace import cell_selection
from ..workspace.open_document import named
from ..workspace.people import User, find_user, users_in
from ..workspace.permissions import Level
from ..workspace.permits import Call, require_level
from ..workspace.sessions import Session, sessions_of
from ..workspace.sites import Site, SiteDocument
from .answers import about, answer, joined
from .awareness_answers import (
    activity_facts,
    activity_line,
    cursor_facts,
    cursor_line,
    place_words,
    session_facts,
    session_label,
    session_line,
    user_facts,
    user_line,
    when,
)
from .places import Place, SiteTools
from .registry import Answer, tool

#: Characters of a status, of an announcement and of its metadata.
_MESSAGE, _DESCRIPTION, _METADATA = 200, 300, 2_000

#: Activities that are looked at for those that the caller may see.
_LOOKED_AT = 500

_INCOMPLETE = "People who were there before this server was joined are listed within 15 seconds."

_NOT_RECORDED = "This server records no activities (activity_limit is 0)."

DocumentPath = Annotated[str | None, Field(description="only this document")]


# Without docstrings: they would go into the schema, where every word costs a token.
class Position(BaseModel):
    model_config = ConfigDict(extra="forbid")

    line: Annotated[int, Field(strict=True, ge=0, description="from 0")]
    column: Annotated[int, Field(strict=True, ge=0, description="characters, from 0")]


class Selection(BaseModel):
    model_config = ConfigDict(extra="forbid")

    start: Position
    end: Position


class AwarenessTools(SiteTools):
    """What an agent knows of others, and shows of itself."""

    @tool("List who is online", Level.read)
    async def get_online_users(self, call: Call, document_path: DocumentPath = None) -> Answer:
        """List the people and agents who are online, with ids, status and documents."""
        users = await self._users(call, document_path)
        lines = [user_line(site, user, call) for site, user in users]
        where = f" in {inline(document_path)}" if document_path else ""
        head = f"Online{where}: {len(lines)}." if lines else f"Nobody is online{where}."
        if not all(site.workspace.rooms.lobby.complete for site in self._sites):
            lines.append(_INCOMPLETE)
        facts = [user_facts(site, user) for site, user in users]
        return Answer("\n".join([head, *lines]), {"users": facts})

    @tool("Look up a user", Level.read)
    async def get_user_presence(
        self, call: Call, user_id: str, document_path: DocumentPath = None
    ) -> Answer:
        """Get a user's status, message, last activity, document and cell. user_id is an id, a user
        name or a name that only one user has."""
        users = await self._users(call, document_path)
        user = find_user([user for _, user in users], user_id)
        site = next(site for site, each in users if each is user)
        facts = user_facts(site, user)
        lines = [user_line(site, user, call)]
        last = await self._last_activity(call, site, user)
        if last is not None:
            facts["last_activity"] = when(last)
            lines.append(f"Last activity: {activity_line(site, last)}")
        elif user.last_active:
            facts["last_activity"] = user.last_active
            lines.append(f"Last activity: {user.last_active}")
        peer = await self._peer_with(call, site, document_path, user)
        cursors = [] if peer is None else await cursors_in(peer)
        cursor = next((each for each in cursors if each.user == user.id), None)
        if peer is not None and cursor is not None:
            lines.append(f"Caret: {cursor_line(peer.document, cursor)}")
            facts["active_cell"] = cursor.part or None
            facts["cursor"] = cursor_facts(peer.document, cursor)
        return Answer("\n".join(lines), facts)

    @tool("Set your status", Level.read, idempotent=True, shows=True)
    async def set_user_presence(
        self, call: Call, status: Status = "online", message: str = ""
    ) -> Answer:
        """Set the status and message that people see beside your name in JupyterLab. offline hides
        you until your next call about a document."""
        message = _one_line(message, _MESSAGE, "message")
        await call.authorize(Level.read)
        for site in self._sites:
            site.workspace.rooms.lobby.visit(call.agent).set_status(status, message)
        said = f": {quoted(message)}" if message else ""
        return Answer(f"You are {status}{said}.", {"status": status, "message": message})

    @tool("List cursors", Level.read)
    async def get_user_cursors(self, call: Call, document_path: str) -> Answer:
        """List where everybody's caret is in a document: cell, line, column (from 0), and what is
        selected."""
        here = await self._open(call, Level.read, document_path, None)
        cursors = await cursors_in(here.peer)
        mine = here.seat.presence.client if here.seat.presence is not None else None
        document = here.peer.document
        lines = [cursor_line(document, each, mine) for each in cursors]
        head = f"Cursors in {here.label}: {len(lines)}." if lines else "Nobody has a cursor here."
        facts = {**about(here), "cursors": [cursor_facts(document, each) for each in cursors]}
        return answer(here, [head, *lines], facts)

    @tool("Move your cursor", Level.read, idempotent=True, shows=True)
    async def update_cursor_position(
        self,
        call: Call,
        document_path: str,
        position: Position,
        selection: Selection | None = None,
        cell_id: Annotated[str | int | None, Field(description="in a notebook")] = None,
    ) -> Answer:
        """Show people your caret at a place, or a selection, in a text file or a cell."""
        here = await self._open(call, Level.read, document_path, None)
        part = self._part(here, cell_id)
        source = here.peer.document.source(here.peer.document.find(part))
        head = _offset(source, position)
        anchor = head if selection is None else _other_end(source, selection, head)
        ends = [await place(here.peer, part, offset) for offset in (anchor, head)]
        presence = here.seat.presence
        if presence is not None:
            presence.move_to(*ends)
            presence.show()
        where = place_words(here.peer.document, part, position.line, position.column)
        return answer(
            here, [f"Your caret is at {where}."], {**about(here), "cell_id": part or None}
        )

    @tool("List recent activity", Level.read)
    async def get_user_activity(
        self,
        call: Call,
        document_path: DocumentPath = None,
        limit: Annotated[int, Field(ge=1, le=500)] = 20,
    ) -> Answer:
        """List what people and agents did lately, the latest first: edits, runs, saves, who came
        and went."""
        found: list[tuple[Site, Activity]] = []
        if document_path is not None:
            place_ = await self._known_place(call, document_path)
            if place_ is not None:
                path = place_.permit.path
                recent = await place_.site.activity.recent(
                    None if place_.fork else path, file_id=place_.file_id, limit=limit
                )
                # Where it was before, the caller may not look.
                found = [(place_.site, replace(each, path=path)) for each in recent]
        else:
            await call.authorize(Level.read)
            for site in self._sites:
                # More than are shown: the caller may not see all of them.
                for each in await site.activity.recent(limit=max(limit, _LOOKED_AT)):
                    if await self._may_see(call, site, each.path):
                        found.append((site, each))
        found.sort(key=lambda pair: pair[1].time, reverse=True)
        lines = [activity_line(site, each) for site, each in found[:limit]]
        facts = [activity_facts(site, each) for site, each in found[:limit]]
        is_on = any(site.activity.enabled for site in self._sites)
        nothing = "Nothing is recorded yet." if is_on else _NOT_RECORDED
        return Answer("\n".join(lines) or nothing, {"activities": facts})

    @tool("Announce something", Level.read, shows=True)
    async def broadcast_user_activity(
        self,
        call: Call,
        activity_type: str,
        description: str,
        document_path: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> Answer:
        """Announce what you do to people and agents. People read it beside your name in JupyterLab
        for 20 seconds, agents with their next answer; it is recorded."""
        kind = _one_line(activity_type, 40, "activity_type")
        text = _one_line(description, _DESCRIPTION, "description")
        if not kind or not text:
            missing = "description" if kind else "activity_type"
            raise InvalidArgument(f"{missing} is empty.", "Say what you are doing.")
        who = Member.agent(call.agent.key, call.agent.name)
        note = f"{inline(call.agent.name)} (agent) announces ({inline(kind)}): {quoted(text)}"
        more: dict[str, Any] = {"activity_type": kind, "metadata": _small(metadata or {})}
        if document_path is None:
            await call.authorize(Level.read)
            for site in self._sites:
                site.activity.record(Activity.of("broadcast", who, text, **more))
                await site.workspace.rooms.lobby.enter()
                site.workspace.rooms.lobby.visit(call.agent).announce(text)
                for opened in site.workspace.rooms:
                    opened.peer.tell_others(call.agent.key, note)
            return Answer(_announced(*self._sites), {"broadcast": True})
        here = await self._open(call, Level.read, document_path, None)
        file_id = here.peer.link.room_id.file_id
        entry = Activity.of("broadcast", who, text, path=here.path, file_id=file_id, **more)
        here.site.activity.record(entry)
        await here.site.workspace.rooms.lobby.enter()
        here.seat.profile.announce(text)
        here.peer.tell_others(call.agent.key, note)
        return answer(here, [_announced(here.site)], about(here))

    @tool("List sessions", Level.read)
    async def get_active_sessions(self, call: Call, document_path: DocumentPath = None) -> Answer:
        """List which agents are in which documents, with session ids, and who else is there."""
        only: Place | None = None
        sessions = await self._sessions(call)
        if document_path is not None:
            only = await self._known_place(call, document_path)
            sessions = [
                (site, each)
                for site, each in sessions
                if only is not None and site is only.site and each.room_id.file_id == only.file_id
            ]
        lines = [session_line(site, each, call) for site, each in sessions]
        named = {(site.alias, each.path) for site, each in sessions}
        others = [
            f"{inline(user.name)} has {site.label_of(path)} open."
            for site, user in await self._users(call, None)
            for path in user.documents
            if not user.agent
            and (site.alias, path) not in named
            and (
                document_path is None
                or (only is not None and (site, path) == (only.site, only.permit.path))
            )
        ]
        head = f"Sessions: {len(lines)}." if lines else "There are no sessions of agents."
        facts = [session_facts(site, each, call) for site, each in sessions]
        return Answer("\n".join([head, *lines, *others[:50]]), {"sessions": facts})

    @tool("Join a session", Level.read, idempotent=True, shows=True)
    async def join_session(self, call: Call, session_id: str) -> Answer:
        """Join the document of a session, also of another agent's. Returns your own session id."""
        site, session = await self._session(call, session_id)
        here = await self._open(call, Level.read, named(site.alias, session.document), None)
        document = here.peer.document
        if isinstance(document, TextDocument):
            return joined(here, f"{len(str(document)):,} characters")
        return joined(here, f"{len(document)} cells", cell_count=len(document))

    @tool("Leave a session", Level.read, idempotent=True, shows=True)
    async def leave_session(self, call: Call, session_id: str) -> Answer:
        """Leave a document at once: people no longer see you there. Your edits and runs stay. The
        session of another agent needs the level admin."""
        site, session = await self._session(call, session_id)
        if session.agent != call.agent.key:
            require_level(Level.admin, call.allowed)
            site.require(Level.admin)
        site.workspace.rooms.end_session(session_id)
        whose = "You have" if session.agent == call.agent.key else f"{inline(session.name)} has"
        return Answer(
            f"{whose} left {session_label(site, session)}.",
            {"session_id": session_id, "path": named(site.alias, session.document)},
        )

    # -- finding -----------------------------------------------------------------------------

    async def _users(self, call: Call, path: str | None) -> list[tuple[Site, User]]:
        """Who is online, or in a document, with only those paths that the caller may know of."""
        found: list[tuple[Site, User]] = []
        if path is not None:
            here = await self._open(call, Level.read, path, None)
            await here.site.workspace.rooms.lobby.enter()
            everybody = users_in(here.site.workspace.rooms.lobby.states, ())
            current = {user.id: user.current for user in everybody}
            for user in users_in({}, [(here.path, here.peer.link)]):
                user.current = current.get(user.id)
                found.append((here.site, user))
        else:
            await call.authorize(Level.read)
            for site in self._sites:
                rooms = site.workspace.rooms
                await rooms.lobby.enter()
                open_rooms = [(opened.peer.link.path, opened.peer.link) for opened in rooms]
                found += [(site, user) for user in users_in(rooms.lobby.states, open_rooms)]
        for site, user in found:
            user.documents = [p for p in user.documents if await self._may_see(call, site, p)]
            if user.current and not await self._may_see(call, site, user.current):
                user.current = None
            await asyncio.sleep(0)
        return found

    async def _known_place(self, call: Call, path: str) -> Place | None:
        """A path that the caller may read; None if only another agent may know of it."""
        try:
            return await self._place(call, Level.read, path, forks=True)
        except DocumentNotFound:
            return None

    async def _may_see(self, call: Call, site: Site, path: str) -> bool:
        return not path or await call.may_see(site.workspace, path)

    async def _last_activity(self, call: Call, site: Site, user: User) -> Activity | None:
        for each in await site.activity.recent(actor_id=user.id, limit=_LOOKED_AT):
            if await self._may_see(call, site, each.path):
                return each
        return None

    async def _peer_with(
        self, call: Call, site: Site, path: str | None, user: User
    ) -> RoomPeer | None:
        """Our peer in the document that is asked about, or in the one that a user looks at."""
        if path is not None:
            return (await self._open(call, Level.read, path, None)).peer
        there = (opened.peer for opened in site.workspace.rooms)
        return next((peer for peer in there if peer.link.path == user.current), None)

    async def _sessions(self, call: Call) -> list[tuple[Site, Session]]:
        """All sessions that the caller may know of."""
        await call.authorize(Level.read)
        return [
            (site, each)
            for site in self._sites
            for each in sessions_of(site.workspace.rooms)
            if await self._may_see(call, site, each.path)
        ]

    async def _session(self, call: Call, session_id: str) -> tuple[Site, Session]:
        """A session by its id.

        Raises:
            SessionNotFound: There is none that the caller may know of.
        """
        for site, session in await self._sessions(call):
            if session.id == session_id:
                return site, session
        raise SessionNotFound.of(session_id)

    def _part(self, here: SiteDocument, cell_id: str | int | None) -> str:
        document = here.peer.document
        if isinstance(document, TextDocument):
            if cell_id is not None:
                raise InvalidArgument(f"{here.label} has no cells.", "Leave cell_id out.")
            return WHOLE
        if cell_id is None:
            raise InvalidArgument(
                f"{here.label} is a notebook: a line means nothing without its cell.",
                "Give cell_id as well.",
            )
        return document.id_at(cell_selection.index_of(document, cell_id))


def _announced(*sites: Site) -> str:
    """What is true of an announcement when it is answered."""
    if all(site.workspace.rooms.lobby.connected for site in sites):
        return "Announced."
    return (
        "Announced to agents. People see it once there is a connection to JupyterLab's list of "
        "collaborators."
    )


# -- arguments -------------------------------------------------------------------------------


def _one_line(text: str, limit: int, name: str) -> str:
    text = " ".join(text.split())
    if len(text) > limit:
        raise InvalidArgument(
            f"{name} has {len(text)} characters; people read at most {limit}.", "Shorten it."
        )
    return text


def _small(metadata: dict[str, Any]) -> dict[str, Any]:
    size = len(json.dumps(metadata))
    if size > _METADATA:
        raise InvalidArgument(
            f"metadata has {size:,} characters; at most {_METADATA:,} are recorded.", "Shorten it."
        )
    return metadata


def _other_end(source: str, selection: Selection, head: int) -> int:
    """The end of a selection at which the caret is not.

    Raises:
        InvalidArgument: The caret is at neither, or the selection ends before it starts.
    """
    start, end = _offset(source, selection.start), _offset(source, selection.end)
    if start > end or head not in (start, end):
        raise InvalidArgument(
            "position has to be the start or the end of the selection, and start cannot come after "
            "end.",
            "Repeat position as one end of the selection.",
        )
    return start if head == end else end


def _offset(source: str, position: Position) -> int:
    """The characters before a place.

    Raises:
        InvalidArgument: There is no such line or column.
    """
    lines = source.split("\n")
    if position.line >= len(lines):
        raise InvalidArgument(
            f"There is no line {position.line}: the text has {len(lines)} lines, from 0 to "
            f"{len(lines) - 1}.",
            "Give a line that exists.",
            line_count=len(lines),
        )
    line = lines[position.line]
    if position.column > len(line):
        raise InvalidArgument(
            f"Line {position.line} has no column {position.column}: it has {len(line)} characters.",
            "Give a column from 0 to the length of the line.",
            length=len(line),
        )
    return sum(len(each) + 1 for each in lines[: position.line]) + position.column
