"""What toolsets, kinds of resources and prompts are made from."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from ..documents.images import ImageLimits
from ..workspace.sites import Site, Sites

Connect = Callable[[str, str | None], Awaitable[Site]]
"""Makes a site of a URL and an alias. It finds tokens itself; a model never gives one."""


@dataclass(frozen=True, slots=True)
class Extension:
    """Served inside a Jupyter server, the only one that agents work on."""


@dataclass(frozen=True, slots=True)
class Standalone:
    """Served by the command, which agents can have connect further servers."""

    connect: Connect


Host = Extension | Standalone
"""What the MCP server is served by."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What each registered thing is made from."""

    sites: Sites
    images: ImageLimits | None
    """None: answers have no images."""
    host: Host

    @property
    def is_standalone(self) -> bool:
        return isinstance(self.host, Standalone)
