"""The `server` toolset: which Jupyter servers the standalone command is connected to."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from pydantic import Field

from ..documents.foreign_text import inline
from ..workspace.permissions import Level
from ..workspace.permits import Call
from ..workspace.sites import DEFAULT, Site
from .parts import Parts, Standalone
from .registry import Answer, tool


class ServerTools:
    """What an agent does with servers."""

    def __init__(self, parts: Parts) -> None:
        if not isinstance(parts.host, Standalone):
            raise TypeError("only the command connects further servers")
        self._sites = parts.sites
        self._connect = parts.host.connect

    @tool("List servers", Level.read)
    async def list_servers(self, call: Call) -> Answer:
        """List the Jupyter servers you are connected to. Put an alias before a path,
        alias:path; without one, the first is used."""
        await call.authorize(Level.read)
        sites = list(self._sites)
        wrong = await asyncio.gather(*(site.trouble() for site in sites))
        servers, lines = [], []
        for number, (site, error) in enumerate(zip(sites, wrong, strict=True)):
            facts = _facts(site, number == 0)
            line = f"{site.alias}: {site.url}" if site.alias else str(site.url)
            line += f", {facts['permission']}{f' {DEFAULT}' if facts['default'] else ''}"
            line += "" if site.root is None else f", serves {inline(site.root)}"
            facts["state"] = "ok" if error is None else error.code
            servers.append(facts)
            lines.append(line if error is None else f"{line}. {error.happened}")
        return Answer("\n".join(lines) or "No server is connected.", {"servers": servers})

    @tool("Connect a server", Level.admin, only_adds=True)
    async def connect_server(
        self,
        call: Call,
        url: str,
        alias: Annotated[str | None, Field(description="default: made from the URL")] = None,
    ) -> Answer:
        """Connect another Jupyter server. Its token comes from Jupyter's own files on this
        machine; the user's token goes only to servers that they named."""
        await call.authorize(Level.admin)
        site = await self._connect(url, alias)
        facts = _facts(site, len(self._sites) == 1)
        return Answer(f"Connected {site.url} as {site.alias}: use {site.alias}:path.", facts)

    @tool("Disconnect a server", Level.admin)
    async def disconnect_server(self, call: Call, alias: str) -> Answer:
        """Disconnect from a Jupyter server. It keeps running, and so do its kernels."""
        await call.authorize(Level.admin)
        site = self._sites.remove("" if alias == DEFAULT else alias)
        await site.close()
        left = list(self._sites)
        text = f"Disconnected {site.label}; left: {', '.join(s.label for s in left) or 'none'}."
        if left:
            text += f" Paths without an alias now mean {left[0].url}."
        facts = {"disconnected": site.alias, "servers": [other.alias for other in left]}
        return Answer(text, facts)


def _facts(site: Site, default: bool) -> dict[str, Any]:
    facts = {
        "alias": site.alias,
        "url": site.url,
        "permission": site.level.name,
        "default": default,
    }
    return facts if site.root is None else {**facts, "root": str(site.root)}
