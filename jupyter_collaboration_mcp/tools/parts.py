"""What toolsets, kinds of resources and prompts are made from."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from ..backends.disk.template_files import TemplateFiles
from ..documents.images import ImageLimits
from ..workspace.sites import Site, Sites

Connect = Callable[[str, str | None], Awaitable[Site]]
"""Makes a site of a URL and an alias. It finds the token itself, unless the URL has one."""

Find = Callable[[str], Site | None]
"""The site that a URL leads to, if it is connected; nothing is sent anywhere."""

FindOwn = Callable[[str, str], Site | None]
"""The same inside a Jupyter server, which may be known by the URL that a client has used, too."""


def _nowhere(url: str, reached: str = "") -> None:
    """Where nothing is known about URLs."""


@dataclass(frozen=True, slots=True)
class Extension:
    """Served inside a Jupyter server, the only one that agents work on."""

    find: FindOwn = field(default=_nowhere)
    url: Callable[[], str] = field(default=str)
    """Where the server can be reached."""


@dataclass(frozen=True, slots=True)
class Standalone:
    """Served by the command, which agents can have connect further servers."""

    connect: Connect
    find: Find = field(default=_nowhere)


Host = Extension | Standalone
"""What the MCP server is served by."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What each registered thing is made from."""

    sites: Sites
    images: ImageLimits | None
    """None: answers have no images."""
    host: Host
    templates: TemplateFiles = field(default_factory=TemplateFiles)
    """What notebooks can be made from."""

    @property
    def is_standalone(self) -> bool:
        return isinstance(self.host, Standalone)
