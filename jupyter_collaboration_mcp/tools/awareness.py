"""The `awareness` toolset: who is here, where they are, what they did; and being seen oneself."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ..collaboration.activity.activity import Activity
from ..collaboration.cursors import Cursor, cursors_in, place
from ..collaboration.presence import Status
from ..documents.foreign_text import inline, quoted, words
from ..documents.members import Member
from ..documents.text_document import WHOLE, TextDocument
from ..errors import InvalidArgument, SessionNotFound
from ..workspace import cell_selection
from ..workspace.people import User, find_user, users_in
from ..workspace.permissions import Level
from ..workspace.permits import Call, require_level
from ..workspace.sessions import Session, sessions_of
from ..workspace.sites import Site, SiteDocument
from .answers import about, answer, joined
from .places import SiteTools
from .registry import Answer, tool

#: Characters of a selection that an answer shows, of a status, of an activity and its metadata.
_SELECTED, _MESSAGE, _DESCRIPTION, _METADATA = 80, 200, 300, 2_000

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
        lines = [_user_line(user, call) for _, user in users]
        where = f" in {inline(document_path)}" if document_path else ""
        head = f"Online{where}: {len(lines)}." if lines else f"Nobody is online{where}."
        return Answer("\n".join([head, *lines]), {"users": [_facts(user) for _, user in users]})

    @tool("Look up a user", Level.read)
    async def get_user_presence(
        self, call: Call, user_id: str, document_path: DocumentPath = None
    ) -> Answer:
        """Get a user's status, message, last activity, document and cell. user_id is an id, a user
        name or a name that only one user has."""
        users = await self._users(call, document_path)
        user = find_user([user for _, user in users], user_id)
        site = next(site for site, each in users if each is user)
        facts = _facts(user)
        lines = [_user_line(user, call)]
        last = await self._last_activity(call, site, user)
        if last is not None:
            facts["last_activity"] = _when(last)
            lines.append(f"Last activity: {_activity_line(site, last)}")
        elif user.last_active:
            facts["last_activity"] = user.last_active
            lines.append(f"Last activity: {user.last_active}")
        path = document_path or (user.current and site.name(user.current))
        if path:
            cursor = await self._cursor_of(call, path, user)
            if cursor is not None:
                here, found = cursor
                lines.append(f"Caret: {_cursor_line(here, found)}")
                facts["active_cell"] = found.part or None
                facts["cursor"] = _cursor_facts(here, found)
        return Answer("\n".join(lines), facts)

    @tool("Set your status", Level.read, idempotent=True, shows=True)
    async def set_user_presence(
        self, call: Call, status: Status = "online", message: str = ""
    ) -> Answer:
        """Set the status and message that people see beside your name in JupyterLab. offline hides
        you until your next call."""
        message = _one_line(message, _MESSAGE, "message")
        for site in self._sites:
            site.workspace.rooms.lobby.profile(call.agent).set_status(status, message)
        said = f": {quoted(message)}" if message else ""
        return Answer(f"You are {status}{said}.", {"status": status, "message": message})

    @tool("List cursors", Level.read)
    async def get_user_cursors(self, call: Call, document_path: str) -> Answer:
        """List where everybody's caret is in a document: cell, line, column (from 0), and what is
        selected."""
        here = await self._open(call, Level.read, document_path, None)
        cursors = await cursors_in(here.peer)
        lines = [_cursor_line(here, each) for each in cursors]
        head = f"Cursors in {here.label}: {len(lines)}." if lines else "Nobody has a cursor here."
        facts = {**about(here), "cursors": [_cursor_facts(here, each) for each in cursors]}
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
        wanted = [selection.start, selection.end] if selection is not None else [position]
        offsets = [_offset(source, each) for each in (position, *wanted)][1:]
        ends = [await place(here.peer, part, offset) for offset in offsets]
        presence = here.seat.presence
        if presence is not None:
            if selection is not None and position == selection.start:
                ends.reverse()  # the caret is at the end that `position` names
            presence.move_to(*ends)
        where = _place(here, part, position.line, position.column)
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
            place_ = await self._place(call, Level.read, document_path)
            path = place_.permit.path
            file_id = place_.site.workspace.file_id(path)
            recent = await place_.site.activity.recent(path, file_id=file_id, limit=limit)
            found = [(place_.site, each) for each in recent]
        else:
            await call.authorize(Level.read)
            for site in self._sites:
                for each in await site.activity.recent(limit=limit):
                    if await self._may_see(call, site, each.path):
                        found.append((site, each))
        found.sort(key=lambda pair: pair[1].time, reverse=True)
        lines = [_activity_line(site, each) for site, each in found[:limit]]
        facts = [{**each.event(), "path": site.name(each.path)} for site, each in found[:limit]]
        return Answer("\n".join(lines) or "Nothing is recorded.", {"activities": facts})

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
            raise InvalidArgument("activity_type and description are empty.", "Say what you do.")
        who = Member.agent(call.agent.key, call.agent.name)
        note = f"{inline(call.agent.name)} (agent) announces ({inline(kind)}): {quoted(text)}"
        more: dict[str, Any] = {"activity_type": kind, "metadata": _small(metadata or {})}
        if document_path is None:
            await call.authorize(Level.read)
            for site in self._sites:
                site.activity.record(Activity.of("broadcast", who, text, **more))
                site.workspace.rooms.lobby.profile(call.agent).announce(text)
                for opened in site.workspace.rooms:
                    opened.peer.tell_others(call.agent.key, note)
            return Answer("Everybody online is told.", {"broadcast": True})
        here = await self._open(call, Level.read, document_path, None)
        file_id = here.peer.link.room_id.file_id
        entry = Activity.of("broadcast", who, text, path=here.path, file_id=file_id, **more)
        here.site.activity.record(entry)
        here.seat.profile.announce(text)
        here.peer.tell_others(call.agent.key, note)
        return answer(here, [f"Everybody in {here.label} is told."], {**about(here)})

    @tool("List sessions", Level.read)
    async def get_active_sessions(self, call: Call, document_path: DocumentPath = None) -> Answer:
        """List which agents are in which documents, with session ids, and who else is there."""
        sessions = await self._sessions(call, document_path)
        lines = [_session_line(site, each, call) for site, each in sessions]
        documents = {(site.alias, each.path) for site, each in sessions}
        users = await self._users(call, document_path)
        others = [
            f"{user.name} has {site.label_of(path)} open"
            for site, user in users
            for path in user.documents
            if (site.alias, path) not in documents and not user.agent
        ]
        head = f"Sessions: {len(lines)}." if lines else "There are no sessions of agents."
        facts = [_session_facts(site, each, call) for site, each in sessions]
        return Answer("\n".join([head, *lines, *others[:50]]), {"sessions": facts})

    @tool("Join a session", Level.read, idempotent=True, shows=True)
    async def join_session(self, call: Call, session_id: str) -> Answer:
        """Join the document of a session, also of another agent's. Returns your own session id."""
        site, session = await self._session(call, session_id)
        here = await self._open(call, Level.read, site.name(session.path), None)
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
            f"{whose} left {site.label_of(session.path)}.",
            {"session_id": session_id, "path": site.name(session.path)},
        )

    # -- finding -----------------------------------------------------------------------------

    async def _users(self, call: Call, path: str | None) -> list[tuple[Site, User]]:
        """Who is online, with only those documents that the caller may know of."""
        if path is not None:
            here = await self._open(call, Level.read, path, None)
            link = here.peer.link
            found = [(here.site, user) for user in users_in({}, [(here.path, link)])]
            lobby = {user.id: user for user in users_in(here.site.workspace.rooms.lobby.states, ())}
            for _, user in found:
                if user.id in lobby:
                    user.current = lobby[user.id].current
        else:
            await call.authorize(Level.read)
            found = []
            for site in self._sites:
                rooms = site.workspace.rooms
                await rooms.lobby.enter()
                open_rooms = [(opened.peer.link.path, opened.peer.link) for opened in rooms]
                found += [(site, user) for user in users_in(rooms.lobby.states, open_rooms)]
        for site, user in found:
            user.documents = [p for p in user.documents if await self._may_see(call, site, p)]
            if user.current and not await self._may_see(call, site, user.current):
                user.current = None
        return found

    async def _may_see(self, call: Call, site: Site, path: str) -> bool:
        return not path or (site.workspace.visible(path) and await call.may_see(path))

    async def _last_activity(self, call: Call, site: Site, user: User) -> Activity | None:
        for each in await site.activity.recent(actor_id=user.id, limit=20):
            if await self._may_see(call, site, each.path):
                return each
        return None

    async def _cursor_of(
        self, call: Call, path: str, user: User
    ) -> tuple[SiteDocument, Cursor] | None:
        here = await self._open(call, Level.read, path, None)
        cursors = [each for each in await cursors_in(here.peer) if each.user == user.id]
        return (here, cursors[0]) if cursors else None

    async def _sessions(self, call: Call, path: str | None) -> list[tuple[Site, Session]]:
        if path is None:
            await call.authorize(Level.read)
            return [
                (site, each)
                for site in self._sites
                for each in sessions_of(site.workspace.rooms)
                if await self._may_see(call, site, each.path)
            ]
        named = await self._place(call, Level.read, path)
        site, wanted = named.site, named.permit.path
        return [(site, each) for each in sessions_of(site.workspace.rooms) if each.path == wanted]

    async def _session(self, call: Call, session_id: str) -> tuple[Site, Session]:
        """A session by its id.

        Raises:
            SessionNotFound: There is none that the caller may know of.
        """
        for site, session in await self._sessions(call, None):
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


# -- what answers say ------------------------------------------------------------------------


def _user_line(user: User, call: Call) -> str:
    is_caller = user.id == Member.agent(call.agent.key, call.agent.name).id
    parts = [f"{inline(user.name)} [{inline(user.id)}]{' (you)' if is_caller else ''}: "]
    parts.append(user.status if not user.message else f"{user.status}, {quoted(user.message)}")
    if user.doing:
        parts.append(f", {inline(user.doing)}")
    if user.current:
        parts.append(f", looks at {inline(user.current)}")
    others = [path for path in user.documents if path != user.current]
    if others:
        parts.append(f", has open: {', '.join(map(inline, others[:5]))}")
    return "".join(parts)


def _facts(user: User) -> dict[str, Any]:
    return {
        "id": user.id,
        "name": user.name,
        "agent": user.agent,
        "status": user.status,
        "message": user.message,
        "current_document": user.current,
        "documents": user.documents,
    }


def _place(here: SiteDocument, part: str, line: int, column: int) -> str:
    where = f"line {line}, column {column}"
    document = here.peer.document
    if isinstance(document, TextDocument):
        return where
    return f"{document.label(part)}, {where}"


def _cursor_line(here: SiteDocument, cursor: Cursor) -> str:
    mine = here.seat.presence is not None and cursor.client == here.seat.presence.client
    name = f"{inline(cursor.name)}{' (you)' if mine else ''}"
    said = f"{name} at {_place(here, cursor.part, cursor.line, cursor.column)}"
    if cursor.selected:
        more = "..." if len(cursor.selected) > _SELECTED else ""
        said += f", {len(cursor.selected):,} characters selected: "
        said += f"{cursor.selected[:_SELECTED]!r}{more}"
    return said


def _cursor_facts(here: SiteDocument, cursor: Cursor) -> dict[str, Any]:
    facts: dict[str, Any] = {"user_id": cursor.user, "name": cursor.name}
    if cursor.part:
        facts["cell_id"] = cursor.part
        facts["cell_index"] = here.peer.document.find(cursor.part)
    facts["position"] = {"line": cursor.line, "column": cursor.column}
    if cursor.selected:
        ends: Sequence[tuple[Literal["start", "end"], tuple[int, int]]] = (
            ("start", cursor.start),
            ("end", cursor.end),
        )
        facts["selection"] = {name: {"line": at[0], "column": at[1]} for name, at in ends}
        facts["selected_text"] = cursor.selected[:_SELECTED]
    return facts


def _when(activity: Activity) -> str:
    return datetime.fromtimestamp(activity.time / 1000, UTC).isoformat(timespec="seconds")


def _activity_line(site: Site, activity: Activity) -> str:
    said, who = activity.description, activity.actor or "Somebody"
    if not said.startswith(who):
        said = f"{who}: {said}"
    where = f"{site.label_of(activity.path)}: " if activity.path else ""
    return f"{_when(activity)} {where}{words(said, _DESCRIPTION)}"


def _session_line(site: Site, session: Session, call: Call) -> str:
    mine = " (you)" if session.agent == call.agent.key else ""
    others = f" with {', '.join(map(inline, session.people[:10]))}" if session.people else ""
    return (
        f"{session.id}: {inline(session.name)}{mine} in {site.label_of(session.path)}{others}, "
        f"last used {session.idle:.0f} s ago"
    )


def _session_facts(site: Site, session: Session, call: Call) -> dict[str, Any]:
    return {
        "session_id": session.id,
        "agent": session.name,
        "yours": session.agent == call.agent.key,
        "path": site.name(session.path),
        "room_id": session.room_id,
        "file_id": session.room_id.file_id,
        "participants": session.people,
    }
