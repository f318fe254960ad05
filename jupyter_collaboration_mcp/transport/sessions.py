"""How many MCP sessions are kept for clients that may be gone.

Clients of the older protocol era open a session and many never end it. It costs about 50 KB until
it has been idle for half an hour, so a client that opens one for every call would fill the memory.
Whoever has most pays for it: a flood of sessions ends none of another credential.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from typing import TYPE_CHECKING

from ..backends.upstream.mcp_sdk import SessionAdmission

if TYPE_CHECKING:
    from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser, AuthorizationContext
    from mcp.server.streamable_http import StreamableHTTPServerTransport
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

_log = logging.getLogger(__name__)

#: Sessions that are kept, if no more than these are in use at once.
MOST_SESSIONS = 200

#: Sessions of one credential that are in use at once; a further one is refused with 503.
MOST_IN_USE = 1_000


def bound_sessions(
    manager: StreamableHTTPSessionManager, most: int = MOST_SESSIONS, in_use: int = MOST_IN_USE
) -> None:
    """Have the session that was idle for longest end when there are too many, of the credential
    that has most of them.

    One with a request in flight or an open stream is never idle. A client whose session has ended
    gets 404 and opens a new one, as the protocol requires; it loses nothing by that, as documents,
    runs and undo steps belong to the agent and not to its session.
    """
    if differences := SessionAdmission().mismatches():
        _log.warning("Idle MCP sessions are not bounded: %s", "; ".join(differences))
        return
    admit = manager._admit_session

    def make_room_and_admit(
        requestor: AuthorizationContext | None,
    ) -> StreamableHTTPServerTransport | None:
        living = [
            (_name(manager._session_owners.get(session_id)), session.idle_scope)
            for session_id, session in manager._server_instances.items()
            if session.idle_scope is not None and not session.idle_scope.cancel_called
        ]
        has = Counter(owner for owner, _ in living)
        # The deadline of a session that is in use is infinity.
        idle = sorted(
            ((owner, scope) for owner, scope in living if scope.deadline < math.inf),
            key=lambda each: (-has[each[0]], each[1].deadline),
        )
        for _, scope in idle[: max(0, len(living) - most + 1)]:
            scope.cancel()
        used = has - Counter(owner for owner, _ in idle)
        return None if used[_name(requestor)] >= in_use else admit(requestor)

    manager._admit_session = make_room_and_admit  # type: ignore[method-assign]


def end_sessions(manager: StreamableHTTPSessionManager, credential: str) -> None:
    """End all sessions of a credential."""
    for session_id, owner in list(manager._session_owners.items()):
        session = manager._server_instances.get(session_id)
        if owner["client_id"] != credential or session is None or session.idle_scope is None:
            continue
        session.idle_scope.cancel()


def session_owner(credential: str) -> AuthenticatedUser:
    """The owner that the SDK binds a session to: it answers anyone else with 404."""
    from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
    from mcp.server.auth.provider import AccessToken

    return AuthenticatedUser(AccessToken(token="", client_id=credential, scopes=[]))


def _name(owner: AuthorizationContext | None) -> str:
    """The credential of a session's owner; the command has only one, and does not name it."""
    return "" if owner is None else owner["client_id"]
