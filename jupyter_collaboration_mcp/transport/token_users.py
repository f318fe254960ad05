"""The user behind an agent's token: whoever made it, as Jupyter's identity provider knew them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from jupyter_server.auth.identity import User

from .agent_tokens import AgentToken

#: Characters of JSON that are kept of a user.
_MOST = 20_000

#: What is not kept: it may hold tokens of other services.
_SECRET = "auth_state"

_OF_ALL = frozenset(each.name for each in fields(User))


def more_about(user: User) -> dict[str, Any]:
    """What an identity provider has added to a user: JupyterHub's authorizer, for one, asks what a
    user may do. Nothing if it cannot be kept."""
    more = {name: _plain(value) for name, value in vars(user).items() if name not in _OF_ALL}
    try:
        text = json.dumps(more)
    except (TypeError, ValueError):
        return {}
    kept: dict[str, Any] = json.loads(text) if len(text) <= _MOST else {}
    return kept


def user_of(token: AgentToken) -> User:
    """The user about whom the authorizer is asked."""
    name = token.display_name or token.user
    user = User(username=token.user, name=name, display_name=name)
    for more, value in token.more.items():
        setattr(user, more, value)
    return user


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: each for name, each in value.items() if name != _SECRET}
    return value
