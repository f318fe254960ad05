"""An identity provider and an authorizer that work as those of JupyterHub 6.1.1 do.

Its users have more than Jupyter's: what the Hub says of them, which its authorizer asks about.
"""

from __future__ import annotations

import asyncio
from typing import Any

from jupyter_server.auth import Authorizer, IdentityProvider, User
from jupyter_server.base.handlers import JupyterHandler

SCOPE = "access:servers!server=ana/"

#: What the Hub says of tokens: `hub-ana` is Ana's, and so is `hub-other`; Eve may enter, too, and
#: Bob may not.
TOKENS = {
    "hub-ana": ("ana", SCOPE),
    "hub-other": ("ana", SCOPE),
    "hub-eve": ("eve", SCOPE),
    "hub-bob": ("bob", "none"),
}


class HubUser(User):
    """What the Hub says is no field of it, as there."""

    hub_user: dict[str, Any]

    def __init__(self, hub_user: dict[str, Any]) -> None:
        self.hub_user = hub_user
        super().__init__(username=hub_user["name"])


class HubIdentity(IdentityProvider):
    """Asks the Hub about each token."""

    token = "of the server itself"
    token_generated = False

    async def get_user(self, handler: JupyterHandler) -> User | None:  # type: ignore[override]
        await asyncio.sleep(0)
        name, scope = TOKENS.get(self.get_token(handler) or "", ("", ""))
        if scope != SCOPE:
            return None
        handler._token_authenticated = True  # type: ignore[attr-defined]
        return HubUser({"name": name, "scopes": [scope], "auth_state": {"key": "hush"}})


class HubAuthorizer(Authorizer):
    """Lets those in whom the Hub does."""

    def is_authorized(
        self, handler: JupyterHandler, user: User, action: str, resource: str
    ) -> bool:
        assert isinstance(user, User)
        return SCOPE in user.hub_user["scopes"]  # type: ignore[attr-defined]
