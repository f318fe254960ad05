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
from .clients import Endpoint, without_secrets

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
        InvalidArgument: The server has no endpoint, or no token is known.
    """
    token = None
    if token_for is not None and address.token is None:
        raise InvalidArgument(
            f"No token is known for {address.base}.", "Put it into JUPYTER_TOKEN."
        )
    parts = urlsplit(without_secrets(url))
    itself = parts.path.rstrip("/").endswith("/mcp")
    where = f"{parts.scheme}://{parts.netloc}{parts.path}" if itself else f"{address.base}mcp"
    api = JupyterApi(address)
    try:
        async with asyncio.timeout(_LIMIT):
            info = await extension_info(api)
            if token_for is not None:  # where it makes none, the token is the endpoint's own
                wanted = _token_request(token_for, parts.query)
                token = address.token if info is None else (await new_token(api, wanted))["token"]
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
    query = f"?{parts.query}" if parts.query else ""
    return Endpoint(f"{where}{query}", token)


def _token_request(agent: str, query: str) -> dict[str, str]:
    """A token for the agent and the level that a URL names."""
    named = dict(parse_qsl(query))
    limit = {"permission": named["permission"]} if named.get("permission") else {}
    return {"agent": named.get("agent") or agent, **limit}
