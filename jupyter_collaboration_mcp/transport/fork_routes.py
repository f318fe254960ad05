"""What our extension tells of forks beyond jupyter-collaboration's own API: the command asks."""

from __future__ import annotations

import base64
from typing import Any

from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from tornado.web import HTTPError, authenticated

from ..backends.in_process.forks import InProcessForks
from ..documents.members import Member
from ..errors import CollaborationError, ForkNotFound


class ForkInfo(APIHandler):
    """All forks, or one of them with its base; who created one from outside can say so."""

    auth_resource = "contents"

    def initialize(self, forks: InProcessForks) -> None:
        self._forks = forks

    @authenticated
    @authorized
    async def get(self, fork_id: str = "") -> None:
        if not fork_id:
            found = {fork.id: fork.info() for fork in await self._forks.list()}
            self.finish({"forks": found})
            return
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
        author: Any = (self.get_json_body() or {}).get("author")
        if not isinstance(author, dict):
            raise HTTPError(400, "No author is given.")
        member = Member(
            str(author.get("id"))[:100], str(author.get("name"))[:100], bool(author.get("is_agent"))
        )
        try:
            await self._forks.credit(fork_id, member)
        except ForkNotFound as error:
            raise HTTPError(404, error.happened) from error
        except CollaborationError as error:
            raise HTTPError(503, error.happened) from error
        self.set_status(204)
        self.finish()
