"""How answers about presence read: users, cursors, activities and sessions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Literal

from ..collaboration.activity.activity import Activity
from ..collaboration.cursors import Cursor
from ..documents.foreign_text import PATH, inline, quoted, words
from ..documents.members import Member
from ..documents.text_document import Document, TextDocument
from ..workspace.open_document import named
from ..workspace.people import User
from ..workspace.permits import Call
from ..workspace.sessions import Session
from ..workspace.sites import Site

#: Characters of a selection and of an activity that an answer shows.
_SELECTED, _DESCRIPTION = 80, 300


def user_line(site: Site, user: User, call: Call) -> str:
    is_caller = user.id == Member.agent(call.agent.key, call.agent.name).id
    parts = [f"{inline(user.name)} [{inline(user.id)}]{' (you)' if is_caller else ''}: "]
    parts.append(user.status if not user.message else f"{user.status}, {quoted(user.message)}")
    if user.doing:
        parts.append(f", {inline(user.doing)}")
    if user.current:
        parts.append(f", looks at {site.label_of(user.current)}")
    others = [path for path in user.documents if path != user.current]
    if others:
        parts.append(f", has open: {', '.join(map(site.label_of, others[:5]))}")
    return "".join(parts)


def user_facts(site: Site, user: User) -> dict[str, Any]:
    return {
        "id": user.id,
        "name": user.name,
        "agent": user.agent,
        "status": user.status,
        "message": user.message,
        "current_document": user.current and site.name(user.current),
        "documents": [site.name(path) for path in user.documents],
    }


def place_words(document: Document, part: str, line: int, column: int) -> str:
    where = f"line {line}, column {column}"
    if isinstance(document, TextDocument):
        return where
    return f"{document.label(part)}, {where}"


def cursor_line(document: Document, cursor: Cursor, mine: int | None = None) -> str:
    name = f"{inline(cursor.name)}{' (you)' if cursor.client == mine else ''}"
    said = f"{name} at {place_words(document, cursor.part, cursor.line, cursor.column)}"
    if cursor.selected:
        more = "..." if len(cursor.selected) > _SELECTED else ""
        said += f", {len(cursor.selected):,} characters selected: "
        said += f"{cursor.selected[:_SELECTED]!r}{more}"
    return said


def cursor_facts(document: Document, cursor: Cursor) -> dict[str, Any]:
    facts: dict[str, Any] = {"user_id": cursor.user, "name": cursor.name}
    if cursor.part:
        facts["cell_id"] = cursor.part
        facts["cell_index"] = document.find(cursor.part)
    facts["position"] = {"line": cursor.line, "column": cursor.column}
    if cursor.selected:
        ends: Sequence[tuple[Literal["start", "end"], tuple[int, int]]] = (
            ("start", cursor.start),
            ("end", cursor.end),
        )
        facts["selection"] = {name: {"line": at[0], "column": at[1]} for name, at in ends}
        facts["selected_text"] = cursor.selected[:_SELECTED]
    return facts


def when(activity: Activity) -> str:
    return datetime.fromtimestamp(activity.time / 1000, UTC).isoformat(timespec="seconds")


def activity_facts(site: Site, activity: Activity) -> dict[str, Any]:
    facts = {**activity.event(), "path": site.name(activity.path)}
    if activity.kind == "broadcast":
        facts |= activity.metadata
    return facts


def activity_line(site: Site, activity: Activity) -> str:
    said, who = activity.description, activity.actor or "Somebody"
    if not said.startswith(who):
        said = f"{who}: {said}"
    where = f"{site.label_of(activity.path)}: " if activity.path else ""
    return f"{when(activity)} {where}{words(said, _DESCRIPTION)}"


def session_label(site: Site, session: Session) -> str:
    """The document of a session, made safe to put into a sentence."""
    return inline(named(site.alias, session.document), PATH)


def session_line(site: Site, session: Session, call: Call) -> str:
    mine = " (you)" if session.agent == call.agent.key else ""
    others = f" with {', '.join(map(inline, session.people[:10]))}" if session.people else ""
    return (
        f"{session.id}: {inline(session.name)}{mine} in {session_label(site, session)}{others}, "
        f"last used {session.idle:.0f} s ago"
    )


def session_facts(site: Site, session: Session, call: Call) -> dict[str, Any]:
    return {
        "session_id": session.id,
        "agent": session.name,
        "yours": session.agent == call.agent.key,
        "path": named(site.alias, session.document),
        "room_id": session.room_id,
        "file_id": session.room_id.file_id,
        "participants": session.people,
    }
