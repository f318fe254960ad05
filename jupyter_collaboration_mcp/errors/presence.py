"""Errors about people, agents and their sessions."""

from __future__ import annotations

from collections.abc import Sequence

from ..remedies import Intent
from .base import CollaborationError


class PresenceError(CollaborationError):
    code = "presence_error"


class UserNotFound(PresenceError):
    code = "user_not_found"

    @classmethod
    def among(cls, wanted: str, names: Sequence[str]) -> UserNotFound:
        online = ", ".join(map(repr, names[:10])) or "nobody"
        return cls(f"Nobody online is called {wanted!r}. Online: {online}.", Intent.LIST_USERS)


class AmbiguousUser(PresenceError):
    code = "ambiguous_user"

    @classmethod
    def among(cls, wanted: str, users: Sequence[tuple[str, str]]) -> AmbiguousUser:
        ids = [user_id for _, user_id in users]
        return cls(
            f"{len(users)} users are called {wanted!r}: {', '.join(map(repr, ids[:10]))}.",
            "Name one of them by that id.",
            ids=ids[:10],
        )


class SessionNotFound(PresenceError):
    code = "session_not_found"

    @classmethod
    def of(cls, session: str) -> SessionNotFound:
        return cls(
            f"There is no session {session!r}, or it has ended.",
            Intent.LIST_SESSIONS,
            session_id=session,
        )
