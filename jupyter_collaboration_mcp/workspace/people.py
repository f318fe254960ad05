"""Who is online on a server, people and agents: their names, documents, and what they say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from typing import Any, get_args

from ..backends.protocols.awareness import AwarenessLink
from ..collaboration.presence import Status
from ..documents.awareness import States
from ..documents.members import member_of
from ..errors import AmbiguousUser, PathRefused, UserNotFound
from .permissions import clean_path

#: How the drive of collaborative documents is named in paths of older clients.
_DRIVE = "RTC:"

#: Tabs of JupyterLab that show documents.
_DOCUMENT_TABS = ("notebook", "editor")

#: Characters of what somebody says about themselves, and of a path; documents of one user.
_MESSAGE, _LONG, _DOCUMENTS = 200, 1_000, 50

#: States and users that are looked at: anybody can send many.
_STATES, _USERS = 1_000, 300


@dataclass(slots=True)
class User:
    """Somebody who is online, in one or several tabs."""

    id: str
    """The user name, which stays the same."""
    name: str
    agent: bool
    status: str = "online"
    message: str = ""
    doing: str = ""
    last_active: str | None = None
    """When an agent last did something."""
    current: str | None = None
    """The path of the document that it looks at."""
    documents: list[str] = field(default_factory=list)


def users_in(lobby: States, rooms: Iterable[Room]) -> list[User]:
    """Everybody in the lobby or in one of some rooms; of very many, the first."""
    users: dict[str, User] = {}
    for path, link in rooms:
        for state in islice(link.states.values(), _STATES):
            if (user := _add(users, state)) is not None:
                _open(user, path)
    for state in islice(lobby.values(), _STATES):
        if (user := _add(users, state)) is None:
            continue
        kind, _, current = str(state.get("current") or "")[:_LONG].partition(":")
        if kind in _DOCUMENT_TABS and (path := _path(current)):
            user.current = path
        documents = state.get("documents")
        for each in documents[:_DOCUMENTS] if isinstance(documents, list) else ():
            _open(user, _path(str(each)[:_LONG]))
    return sorted(users.values(), key=lambda user: (user.agent, user.name.casefold(), user.id))


Room = tuple[str, AwarenessLink]
"""The path of a document, and who is in its room."""


def find_user(users: Sequence[User], wanted: str) -> User:
    """A user by id, by the beginning of one, or by a name that only one has.

    Raises:
        UserNotFound: Nobody online has it.
        AmbiguousUser: Several have it.
    """
    for user in users:
        if user.id == wanted:
            return user
    name = wanted.strip().casefold()
    named = [user for user in users if name in _names(user)]
    named = named or [user for user in users if len(name) > 9 and user.id.startswith(name)]
    if len(named) == 1:
        return named[0]
    if named:
        raise AmbiguousUser.among(wanted, [(user.name, user.id) for user in named])
    raise UserNotFound.among(wanted, [user.name for user in users])


def _names(user: User) -> set[str]:
    names = {user.name.casefold()}
    if user.agent:
        names.add(user.name.casefold().removesuffix(" (agent)"))
    return names


def _add(users: dict[str, User], state: Mapping[str, Any] | None) -> User | None:
    member = member_of(state)
    if member is None or state is None:
        return None
    user = users.get(member.id)
    if user is None:
        if len(users) >= _USERS:
            return None
        user = users[member.id] = User(member.id, member.name, member.is_agent)
    facts = state.get("agent")
    if user.agent and isinstance(facts, Mapping):
        status = facts.get("status")
        user.status = str(status) if status in get_args(Status) else "online"
        user.message = str(facts.get("message") or "")[:_MESSAGE]
        user.doing = str(facts.get("doing") or "")[:_MESSAGE]
        active = facts.get("last_active")
        if isinstance(active, int | float):
            user.last_active = _time(active)
    return user


def _open(user: User, path: str) -> None:
    if path and path not in user.documents and len(user.documents) < _DOCUMENTS:
        user.documents.append(path)


def _path(path: str) -> str:
    """A path that somebody says they have open; empty if it is none."""
    try:
        return clean_path(path.removeprefix(_DRIVE))
    except PathRefused:
        return ""


def _time(seconds: float) -> str | None:
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return None
