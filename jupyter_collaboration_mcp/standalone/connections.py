"""Turns addresses of Jupyter servers into sites that agents can work on."""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from jupyter_core.paths import jupyter_data_dir

from ..backends.jupyter_api import JupyterApi, ServerAddress, is_address
from ..backends.remote import RemoteBackend
from ..backends.remote_kernels import RemoteKernels
from ..documents.output_log import OutputLimits
from ..errors import InvalidArgument
from ..execution.executor import ExecutorSettings
from ..execution.side_files import SideFiles, SideLimits
from ..workspace.permissions import Level, PathRules
from ..workspace.runs import Runs
from ..workspace.sites import Site, Sites
from ..workspace.workspace import Limits, Workspace
from .discovery import token_for


@dataclass(frozen=True, slots=True)
class Settings:
    """What the command line decides about all servers."""

    level: Level = Level.admin
    levels: Mapping[str, Level] = field(default_factory=dict)
    """Of single servers, by alias."""
    rules: PathRules = field(default_factory=PathRules)
    idle_timeout: float = 300.0
    token: str | None = None
    """For servers whose own token is not known."""
    verify: bool = True


class Connections:
    """Makes sites; nothing is asked of a server before an agent wants something of it."""

    def __init__(self, sites: Sites, settings: Settings, log: logging.Logger) -> None:
        self._sites = sites
        self._settings = settings
        self._log = log

    def address(self, url: str) -> ServerAddress:
        """The address of a server with the token that belongs to it.

        Raises:
            InvalidArgument: No server can have this address.
        """
        if not is_address(url):
            raise InvalidArgument(
                f"{url.partition('?')[0]!r} is not the address of a server.",
                "Give one like http://127.0.0.1:8888/.",
            )
        parts = urlsplit(url)
        given = parse_qs(parts.query, keep_blank_values=True).get("token")
        token = given[0] if given else token_for(url) or self._settings.token
        base = f"{parts.scheme}://{parts.netloc}{_server_path(parts.path)}"
        return ServerAddress(base, _real(token), self._settings.verify)

    def site(self, alias: str, address: ServerAddress) -> Site:
        """A site for a server, which need not be there yet."""
        settings = self._settings
        api = JupyterApi(address)
        backend = RemoteBackend(api, self._log)
        kernels = RemoteKernels(api, self._log)
        workspace = Workspace(
            backend, settings.rules, Limits(), settings.idle_timeout, self._log, alias
        )
        digest = hashlib.sha256(address.base.encode()).hexdigest()[:16]
        directory = Path(jupyter_data_dir()) / "collaboration-mcp" / f"remote-{digest}" / "outputs"
        runs = Runs(
            workspace,
            kernels,
            SideFiles(directory, SideLimits()),
            OutputLimits(),
            ExecutorSettings(),
            self._log,
        )

        async def close() -> None:
            await kernels.close()
            await backend.close()
            await api.close()

        level = settings.levels.get(alias, settings.level)
        return Site(alias, workspace, runs, level, address.base, close, api.check)

    async def connect(self, url: str, alias: str | None) -> Site:
        """One more server, if it is there and lets us in.

        Raises:
            CollaborationError: It does not, or the alias is taken.
        """
        site = self.site(alias or self.alias_for(url), self.address(url))
        self._sites.add(site)
        try:
            await site.check()
        except BaseException:
            await self._sites.remove(site.alias).close()
            raise
        return site

    def alias_for(self, url: str) -> str:
        """A free alias that says something about the address."""
        host = urlsplit(url).hostname or "server"
        base = "local" if host in ("localhost", "127.0.0.1", "::1") else host.split(".")[0]
        name = re.sub(r"[^\w-]", "-", base) or "server"
        name = name if name[0].isalpha() else f"s-{name}"
        taken = {site.alias for site in self._sites}
        numbered = (name if n == 1 else f"{name}{n}" for n in range(1, len(taken) + 2))
        return next(candidate for candidate in numbered if candidate not in taken)


def _real(token: str | None) -> str | None:
    """A token, unless it is a placeholder that a client has passed on as it was.

    Raises:
        InvalidArgument: It cannot be sent; the error does not show it.
    """
    token = (token or "").strip()
    if not (token.isascii() and token.isprintable()):
        raise InvalidArgument(
            "The token has characters that cannot be sent to a server.",
            "Ask the person to look at JUPYTER_TOKEN.",
        )
    return None if not token or re.fullmatch(r"\$\{.*\}|<.*>", token) else token


def _server_path(path: str) -> str:
    """The base URL of a server, of an address that may be one of a page."""
    found = re.match(r"(.*?)/(?:lab|tree|notebooks|doc|edit|api|mcp)(?:/|$)", path)
    return found[1] if found else path
