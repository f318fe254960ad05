"""Tokens of agents on a Jupyter server with the extension, over REST."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..backends.remote.extension_info import INFO_PATH
from ..backends.remote.jupyter_api import JupyterApi
from ..backends.remote.server_errors import Refused
from ..errors import InvalidArgument


async def new_token(api: JupyterApi, body: Mapping[str, Any]) -> dict[str, Any]:
    """A token that a server makes.

    Raises:
        InvalidArgument: It makes none.
        ServerError: It does not answer.
    """
    made = await ask_about_tokens(api, "POST", body=body)
    with api.expecting("a token"):
        str(made["token"]), str(made["id"]), str(made["agent"])
    return dict(made)


async def ask_about_tokens(api: JupyterApi, method: str, *path: str, body: Any = None) -> Any:
    """Make a request about the tokens of a server.

    Raises:
        InvalidArgument: It refuses, or makes none.
        ServerError: It does not answer.
    """
    try:
        return await api.request(method, *INFO_PATH.split("/"), "tokens", *path, body=body)
    except Refused as refused:
        if refused.status == 404 and not path:
            raise InvalidArgument(
                f"{api.address.base} makes no tokens for agents.",
                "Install or update jupyter-collaboration-mcp there, and restart it.",
            ) from refused
        raise InvalidArgument(
            f"{api.address.base} refuses: {refused}.", "See `token --help`."
        ) from refused
