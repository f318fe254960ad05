"""The MCP endpoint of a Jupyter server that has the extension, for clients that speak HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from urllib.parse import parse_qsl, urlsplit

from ..backends.remote.extension_info import extension_info
from ..backends.remote.jupyter_api import JupyterApi
from ..backends.remote.server_address import ServerAddress
from ..backends.remote.server_errors import Refused
from ..errors import InvalidArgument, ServerError
from .agent_token_api import new_token
from .clients import AGENT_TOKEN, Endpoint, without_secrets

#: Seconds that a server has to answer where its endpoint is.
_LIMIT = 5.0


async def endpoint_of(
    url: str, address: ServerAddress, token_for: str | None, say: Callable[[str], None]
) -> Endpoint:
    """The endpoint of a server, or the one that a URL names itself; its query stays.

    Args:
        url: As the person gave it.
        token_for: The agent that gets a token of its own from the server, unless the URL names
            another; None if the endpoint is to have no token.
        say: Prints a line for the person.

    Raises:
        InvalidArgument: The server has no endpoint, or makes no such token.
    """
    token, info = None, None
    parts = urlsplit(without_secrets(url))
    itself = parts.path.rstrip("/").endswith("/mcp")
    where = f"{parts.scheme}://{parts.netloc}{parts.path}" if itself else f"{address.base}mcp"
    api = JupyterApi(address)
    try:
        async with asyncio.timeout(_LIMIT):
            info = await extension_info(api)
            if info is not None and token_for is not None:
                token = (await new_token(api, _token_request(token_for, parts.query)))["token"]
    except (ServerError, Refused, TimeoutError):
        say(f"{address.base} does not report where its endpoint is; assuming {where}.")
    else:
        if info is None and not itself:
            raise InvalidArgument(
                f"{address.base} does not serve MCP itself.",
                "Install jupyter-collaboration-mcp there and restart it, or leave out --http.",
            )
        where = where if info is None else info.url
    finally:
        await api.close()
    if token is None and token_for is not None:
        say(
            f"No token was made for this agent: see `token --help`, and put one into {AGENT_TOKEN}."
        )
    query = f"?{parts.query}" if parts.query else ""
    return Endpoint(f"{where}{query}", token)


def _token_request(agent: str, query: str) -> dict[str, str]:
    """A token for the agent and the level that a URL names."""
    named = dict(parse_qsl(query))
    limit = {"permission": named["permission"]} if named.get("permission") else {}
    return {"agent": named.get("agent") or agent, **limit}
