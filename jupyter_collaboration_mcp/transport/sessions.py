"""How many MCP sessions are kept for clients that may be gone.

Clients of the older protocol era open a session and many never end it. It costs about 50 KB until
it has been idle for half an hour, so a client that opens one for every call would fill the memory.
"""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING

from ..backends.upstream.mcp_sdk import SessionAdmission

if TYPE_CHECKING:
    from mcp.server.auth.middleware.bearer_auth import AuthorizationContext
    from mcp.server.streamable_http import StreamableHTTPServerTransport
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

_log = logging.getLogger(__name__)

#: Sessions that are kept, if no more than these are in use at once.
MOST_SESSIONS = 200


def bound_sessions(manager: StreamableHTTPSessionManager, most: int = MOST_SESSIONS) -> None:
    """Have the session that was idle for longest end when there are too many.

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
        scopes = [session.idle_scope for session in manager._server_instances.values()]
        living = [scope for scope in scopes if scope is not None and not scope.cancel_called]
        # The deadline of a session that is in use is infinity.
        idle = sorted(
            (scope for scope in living if scope.deadline < math.inf),
            key=lambda scope: scope.deadline,
        )
        for scope in idle[: max(0, len(living) - most + 1)]:
            scope.cancel()
        return admit(requestor)

    manager._admit_session = make_room_and_admit  # type: ignore[method-assign]
