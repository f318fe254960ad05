"""Tokens of agents over REST: people make, list and revoke them here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jupyter_server.auth.decorator import authorized
from jupyter_server.auth.identity import User
from jupyter_server.base.handlers import APIHandler
from tornado.web import HTTPError, authenticated

from ..errors import InvalidArgument
from ..workspace.permissions import Level
from .agent_tokens import AgentToken, AgentTokens
from .hub_limits import granted_level
from .token_users import more_about

#: What a request for a token may have in it.
_FIELDS = ("agent", "permission", "paths", "expires_in")


@dataclass(frozen=True, slots=True)
class TokenService:
    """What the handlers serve."""

    tokens: AgentTokens
    highest: Level
    """The level that agents may have on this server; no token has a higher one."""
    require_hub_scopes: bool = False
    """Whether who makes a token needs a scope of JupyterHub with a level."""


class _TokenHandler(APIHandler):
    """Jupyter's own credentials only: the token of an agent is none here."""

    auth_resource = "mcp_tokens"

    def initialize(self, service: TokenService) -> None:
        self.service = service

    def compute_etag(self) -> None:
        return None

    def set_default_headers(self) -> None:
        super().set_default_headers()
        self.set_header("Cache-Control", "no-store")


class Tokens(_TokenHandler):
    """All tokens, without what would let anybody in; and new ones."""

    @authenticated
    @authorized
    def get(self) -> None:
        self.finish({"tokens": [each.described for each in self.service.tokens.all()]})

    @authenticated
    @authorized
    async def post(self) -> None:
        try:
            made, token = await new_token(self.service, self.get_json_body(), self.current_user)
        except InvalidArgument as error:
            raise HTTPError(400, f"{error.happened} {error.next_step}") from error
        except OSError as error:
            raise HTTPError(507, f"The token cannot be stored: {error.strerror}.") from error
        self.set_status(201)
        self.finish({**made.described, "token": token})


class Token(_TokenHandler):
    """One token."""

    @authenticated
    @authorized
    async def delete(self, token_id: str) -> None:
        if await self.service.tokens.revoke(token_id) is None:
            raise HTTPError(404, "There is no such token.")
        self.set_status(204)
        self.finish()


def highest_for(service: TokenService, user: User) -> Level:
    """The level that a user may give to agents: not more than their own token of JupyterHub grants.

    Raises:
        HTTPError: It grants none, and has to.
    """
    granted = granted_level(getattr(user, "hub_user", None), service.require_hub_scopes)
    return service.highest if granted is None else min(granted, service.highest)


async def new_token(service: TokenService, body: Any, user: User) -> tuple[AgentToken, str]:
    """The token that a request of a user asks for.

    Raises:
        InvalidArgument: There cannot be such a token.
        OSError: It cannot be stored.
    """
    return await service.tokens.create(
        *_parse(body, highest_for(service, user)),
        user=user.username,
        display_name=user.display_name or user.name,
        more=more_about(user),
    )


def token_handlers(prefix: str, service: TokenService) -> list[tuple[str, type, dict[str, Any]]]:
    """The routes of tokens below a path."""
    given = {"service": service}
    return [
        (rf"/{prefix}/tokens/?", Tokens, given),
        (rf"/{prefix}/tokens/([0-9a-f]+)", Token, given),
    ]


def _parse(body: Any, highest: Level) -> tuple[str, Level, list[str], float | None]:
    """What a request asks for.

    Raises:
        InvalidArgument: It makes no sense.
    """
    if not isinstance(body, Mapping):
        raise InvalidArgument("The body is not a JSON object.", f"Fields: {', '.join(_FIELDS)}.")
    if unknown := [name for name in body if name not in _FIELDS]:
        raise InvalidArgument(
            f"There is no field {str(unknown[0])[:40]!r}.", f"Fields: {', '.join(_FIELDS)}."
        )
    agent, permission = body.get("agent"), body.get("permission", highest.name)
    paths, expires_in = body.get("paths") or [], body.get("expires_in")
    if not isinstance(agent, str) or not isinstance(permission, str):
        raise InvalidArgument(
            "agent has to be a name and permission a level.",
            f"Levels: {', '.join(level.name for level in Level)}.",
        )
    if not isinstance(paths, list) or not all(isinstance(each, str) for each in paths):
        raise InvalidArgument("paths is not a list of texts.", 'Give globs, such as ["reports/*"].')
    if isinstance(expires_in, bool) or not isinstance(expires_in, int | float | None):
        raise InvalidArgument("expires_in is not a number of seconds.", "Give seconds, or null.")
    level = Level.named(permission)
    if level > highest:
        raise InvalidArgument(
            f"Agents may have the level {highest.name} on this server, and not {level.name}.",
            f"Give {highest.name} or lower.",
        )
    return agent, level, paths, None if expires_in is None else float(expires_in)
