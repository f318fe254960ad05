"""Who a JupyterHub says that a token belongs to, and what its scopes leave to a connection."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from tornado.web import HTTPError

from ..server.caller import ConnectionOptions
from ..server.hub_scopes import LEVEL_SCOPE, NoLevelHere, level_of
from ..workspace.permissions import Level

#: Environment variables of a server that JupyterHub has started: its owner, and its name.
_OWNER, _NAME = "JUPYTERHUB_USER", "JUPYTERHUB_SERVER_NAME"


def within_hub_scopes(options: ConnectionOptions, model: Any, required: bool) -> ConnectionOptions:
    """What a connection asks for, within the levels that its token grants.

    Args:
        model: What the Hub says about the owner of the token; None outside of a Hub.
        required: Whether the token has to have a scope with a level.

    Raises:
        HTTPError: It has none, or none for this server.
    """
    level = granted_level(model, required)
    if level is None:
        return options
    asked_for = level if options.permission is None else options.permission
    return replace(options, permission=min(asked_for, level))


def granted_level(model: Any, required: bool) -> Level | None:
    """The level that a token of the Hub grants to agents on this server; None if it has no say.

    Raises:
        HTTPError: It grants none, and has to; or it grants one elsewhere only.
    """
    if not isinstance(model, dict):
        return None
    scopes = map(str, model.get("scopes") or ())
    try:
        level = level_of(scopes, os.environ.get(_OWNER, ""), os.environ.get(_NAME, ""))
    except NoLevelHere as error:
        raise HTTPError(403, str(error)) from None
    if level is None and required:
        raise HTTPError(403, f"The token has no scope {LEVEL_SCOPE}LEVEL, which agents need.")
    return level


def hub_owner(user: Any) -> str | None:
    """The credential of all who have a token of the same user of a Hub; None outside of a Hub.

    Tokens are replaced, and their owner's agents stay the same.
    """
    model = getattr(user, "hub_user", None)
    if not isinstance(model, dict):
        return None
    return f"{model.get('kind') or 'user'}:{user.username}"
