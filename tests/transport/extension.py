"""A Jupyter extension for the tests: `/mcp` with a few tools that show what a tool can see."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

from jupyter_server.auth import Authorizer, PasswordIdentityProvider, User
from jupyter_server.auth.decorator import allow_unauthenticated
from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.extension.application import ExtensionApp

from jupyter_collaboration_mcp.transport.bridge import MCPHandler
from jupyter_collaboration_mcp.transport.endpoint import MCPEndpoint

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

BODY_LIMIT = 1024 * 1024

EVENT_STORE_SIZE = 2_000_000


class TransportExtension(ExtensionApp):
    name = "transport_extension"

    def initialize_settings(self) -> None:
        failures = int(os.environ.get("FAILING_BUILDS", "0"))

        def build_or_fail() -> MCPServer:
            nonlocal failures
            if failures:
                failures -= 1
                raise ValueError("internals of the build")
            from tests.transport.tools import build

            return build()

        slow = ["tests.transport.slow_import"] if "WHILE_IMPORTING" in os.environ else []
        self.endpoint = MCPEndpoint(
            build_or_fail,
            self.log,
            max_request_body_size=BODY_LIMIT,
            preload=slow,
            event_store_size=EVENT_STORE_SIZE,
        )

    def initialize_handlers(self) -> None:
        self.handlers.append((r"/mcp/?", MCPHandler, {"endpoint": self.endpoint}))
        self.handlers.append((r"/stop-mcp", StopHandler, {"endpoint": self.endpoint}))

    async def stop_extension(self) -> None:
        await self.endpoint.stop()


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    return [{"module": __name__, "app": TransportExtension}]


class StopHandler(JupyterHandler):
    def initialize(self, endpoint: MCPEndpoint) -> None:
        self.endpoint = endpoint

    @allow_unauthenticated
    async def get(self) -> None:
        await self.endpoint.stop()


class DenyingAuthorizer(Authorizer):
    """Nobody may do anything."""

    def is_authorized(
        self, handler: JupyterHandler, user: User, action: str, resource: str
    ) -> bool:
        return False


class ReadOnlyAuthorizer(Authorizer):
    """Everybody may read all but `secret.ipynb`; asynchronous, and slow to look at the path."""

    async def is_authorized(
        self, handler: JupyterHandler, user: User, action: str, resource: str
    ) -> bool:
        await asyncio.sleep(0)
        path = getattr(handler, "collaboration_mcp_path", None)
        return action == "read" and path != "secret.ipynb"


class TwoPeople(PasswordIdentityProvider):
    """Two people with a token each."""

    async def get_user_token(self, handler: Any) -> User | None:
        token = self.get_token(handler)
        return User(username=token) if token in {"ada", "grace"} else None
