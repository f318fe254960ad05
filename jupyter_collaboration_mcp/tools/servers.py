"""The `server` toolset: which Jupyter servers the standalone command is connected to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from pydantic import Field

from ..workspace.permissions import Level
from ..workspace.sites import Site, Sites
from .registry import Answer, Call, tool

#: Makes a site of an address and an alias. Tokens are found by it, never given by a model.
Connect = Callable[[str, str | None], Awaitable[Site]]


class ServerTools:
    """What an agent does with servers."""

    def __init__(self, sites: Sites, connect: Connect) -> None:
        self._sites = sites
        self._connect = connect

    @tool("List servers", Level.read)
    async def list_servers(self, call: Call) -> Answer:
        """List the Jupyter servers you are connected to. Their alias goes before a path,
        alias:path; without one the first is meant."""
        await call.authorize(Level.read, None)
        servers = [_facts(site, number == 0) for number, site in enumerate(self._sites)]
        lines = [
            f"{facts['alias']}: {facts['url']}, {facts['permission']}"
            f"{' (default)' if facts['default'] else ''}"
            for facts in servers
        ]
        return Answer("\n".join(lines) or "No server is connected.", {"servers": servers})

    @tool("Connect a server", Level.admin)
    async def connect_server(
        self,
        call: Call,
        url: str,
        alias: Annotated[str | None, Field(description="default: made from the address")] = None,
    ) -> Answer:
        """Connect one more Jupyter server. Its token comes from the configuration, the environment
        or Jupyter's own files, never from you."""
        await call.authorize(Level.admin, None)
        site = await self._connect(url, alias)
        facts = _facts(site, len(self._sites) == 1)
        return Answer(f"Connected {site.url} as {site.alias}: use {site.alias}:path.", facts)

    @tool("Disconnect a server", Level.admin, destructive=True, idempotent=True)
    async def disconnect_server(self, call: Call, alias: str) -> Answer:
        """Leave a Jupyter server. It goes on running, and so does what runs in its kernels."""
        await call.authorize(Level.admin, None)
        site = self._sites.remove(alias)
        await site.close()
        left = [other.alias for other in self._sites]
        text = f"Disconnected {alias}; left: {', '.join(left) or 'none'}."
        return Answer(text, {"disconnected": alias, "servers": left})


def _facts(site: Site, default: bool) -> dict[str, Any]:
    return {
        "alias": site.alias,
        "url": site.url,
        "permission": site.level.name,
        "default": default,
    }
