"""Which server a URL of the service means, and whether a token may use it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote

from ..backends.remote.hub_api import HubUser
from ..server.hub_scopes import NoLevelHere, level_of
from ..workspace.permissions import Level
from .answers import Refusal

_PATH = re.compile(r"(?:user/(?P<user>[^/]+)(?:/(?P<server>[^/]+))?)?/?")


@dataclass(frozen=True, slots=True)
class Route:
    """A server of a user, and the most that a token allows there."""

    user: str
    server: str
    """Its name; empty for the default server."""
    level: Level | None
    """None if no scope of the token speaks of levels."""

    @property
    def path(self) -> str:
        """The path of the server behind the proxy of the Hub."""
        names = [self.user, self.server] if self.server else [self.user]
        return "user/" + "".join(f"{quote(name, safe='@~')}/" for name in names)

    @classmethod
    def of(cls, path: str, who: HubUser) -> Route:
        """The route of a path below the service, which has been decoded, for the owner of a token.

        Raises:
            Refusal: There is no such path, or the token may not use the server.
        """
        found = _PATH.fullmatch(path)
        if found is None:
            raise Refusal(404, "The service has /, /user/NAME and /user/NAME/SERVER, nothing else.")
        user, server = found["user"] or who.name, found["server"] or ""
        if {user, server} & {".", ".."}:
            raise Refusal(404, "That is not the name of a user or a server.")
        if not who.has("access:servers", server, user):
            scope = f"access:servers!user={user}"
            raise Refusal(403, f"The token lacks the scope {scope}. Create one that has it.")
        try:
            level = level_of(who.scopes, user, server)
        except NoLevelHere as error:
            raise Refusal(403, str(error)) from None
        return cls(user, server, level)
