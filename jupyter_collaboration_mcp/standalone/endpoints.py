"""The MCP endpoint of a Jupyter server that has the extension, for clients that speak HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from urllib.parse import urlsplit

from ..backends.remote.extension_info import extension_info
from ..backends.remote.jupyter_api import JupyterApi
from ..backends.remote.server_address import ServerAddress
from ..backends.remote.server_errors import Refused
from ..errors import InvalidArgument, ServerError
from .clients import Endpoint, without_secrets

#: Seconds that a server has to answer where its endpoint is.
_LIMIT = 5.0


async def endpoint_of(
    url: str, address: ServerAddress, with_token: bool, say: Callable[[str], None]
) -> Endpoint:
    """The endpoint of a server, or the one that a URL names itself; its query stays.

    Args:
        url: As the person gave it.
        say: Prints a line for the person.

    Raises:
        InvalidArgument: The server has no endpoint, or no token is known.
    """
    if with_token and address.token is None:
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
    return Endpoint(f"{where}{query}", address.token if with_token else None)
