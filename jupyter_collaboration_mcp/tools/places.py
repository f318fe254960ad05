"""Where a call works: on which server, in which notebook, and whether it may."""

from __future__ import annotations

from ..errors import DocumentNotFound
from ..workspace.permissions import Level
from ..workspace.runs import Runs
from ..workspace.sites import Site, Sites
from ..workspace.workspace import OpenNotebook
from .registry import Call


class PlacedTools:
    """Tools that work on the notebooks of one or several servers."""

    def __init__(self, sites: Sites) -> None:
        self._sites = sites

    async def _open(self, call: Call, level: Level, path: str) -> OpenNotebook:
        """Join a notebook, if the caller may do what it wants to there."""
        site, local = await self._place(call, level, path)
        try:
            return await site.open(call.agent, local)
        except DocumentNotFound as error:
            raise self._sites.unknown(path, error) from error

    async def _place(self, call: Call, level: Level, path: str) -> tuple[Site, str]:
        """The server and the path there, if the caller may do what it wants to there."""
        site, local = self._sites.find(path)
        local = site.workspace.resolve(local)
        site.require(level)
        await call.authorize(level, local)
        return site, local

    def _site(self, here: OpenNotebook) -> Site:
        return self._sites.get(here.alias)

    def _runs(self, here: OpenNotebook) -> Runs:
        return self._site(here).runs
