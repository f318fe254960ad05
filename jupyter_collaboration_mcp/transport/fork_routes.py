"""What our extension tells of forks beyond jupyter-collaboration's own API: the command asks."""

from __future__ import annotations

import base64
from typing import Any

from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from jupyter_server.utils import ensure_async
from tornado.web import HTTPError, authenticated

from ..backends.in_process.forks import InProcessForks
from ..backends.protocols.forks import Fork
from ..documents.members import Member, is_agent
from ..errors import CollaborationError, ForkNotFound


class ForkInfo(APIHandler):
    """All forks, or one of them with its base; who created one from outside can say so.

    Allowed to whoever may read or write the document that a fork was made of.
    """

    auth_resource = "contents"

    collaboration_mcp_path: str | None = None
    """For authorizers: the path of that document."""

    def initialize(self, forks: InProcessForks) -> None:
        self._forks = forks

    async def prepare(self) -> None:  # type: ignore[override]
        self.collaboration_mcp_path = self._forks.known_path(self.path_args[0])
        await super().prepare()

    @authenticated
    @authorized
    async def get(self, fork_id: str = "") -> None:
        if not fork_id:
            forks = await self._forks.list()
            found = {fork.id: fork.info() for fork in forks if await self._may_read(fork)}
            self.finish({"forks": found})
            return
        self._require_path()
        try:
            fork = await self._forks.get(fork_id)
            base = await self._forks.base(fork)
        except ForkNotFound as error:
            raise HTTPError(404, error.happened) from error
        except CollaborationError as error:
            raise HTTPError(503, error.happened) from error
        said = None if base is None else base64.b64encode(base).decode()
        self.finish({"info": fork.info(), "base": said})

    @authenticated
    @authorized
    async def put(self, fork_id: str) -> None:
        self._require_path()
        body: Any = self.get_json_body()
        author = body.get("author") if isinstance(body, dict) else None
        # Only the command says it, for its agents: nobody speaks for a person.
        if not isinstance(author, dict) or not is_agent(author.get("id")):
            raise HTTPError(400, "No agent is given as the author.")
        member = Member(str(author["id"]), str(author.get("name"))[:100], True)
        try:
            if not await self._forks.credit(fork_id, member):
                raise HTTPError(409, "Its author cannot be changed.")
        except ForkNotFound as error:
            raise HTTPError(404, error.happened) from error
        except CollaborationError as error:
            raise HTTPError(503, error.happened) from error
        self.set_status(204)
        self.finish()

    def _require_path(self) -> None:
        """Refuse a fork that is gone, or of which nobody knows who may touch it."""
        if self.collaboration_mcp_path is None:
            raise HTTPError(404, "There is no such fork.")

    async def _may_read(self, fork: Fork) -> bool:
        """Whether the authorizer lets the user read what a fork was made of."""
        self.collaboration_mcp_path = self._forks.known_path(fork.id)
        if self.collaboration_mcp_path is None:
            return False
        user, resource = self.current_user, self.auth_resource
        return bool(await ensure_async(self.authorizer.is_authorized(self, user, "read", resource)))
