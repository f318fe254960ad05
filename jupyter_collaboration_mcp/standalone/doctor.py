"""What is wrong with a Jupyter server, before an agent has to find out.

Every question is one that changes nothing on the server: no room, no session, no kernel.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from ..documents.foreign_text import inline, listed, quoted
from ..errors import NotJupyter, ServerError, ServerUnreachable, TokenRefused
from .check import Check as Check

if TYPE_CHECKING:
    from httpx2 import Response

    from ..backends.remote.jupyter_api import JupyterApi
    from ..backends.remote.server_address import ServerAddress

#: A room and a document that no server has.
_NOWHERE = "jupyter-collaboration-mcp-doctor"

_PAGE_CONFIG = re.compile(rb'<script id="jupyter-config-data"[^>]*>(.*?)</script>', re.DOTALL)

#: Characters of a version.
_VERSION = 40

#: Characters of what a server says of itself.
_LONGEST = 2_000

#: Seconds for one answer.
_LIMIT = 10.0

#: Of Jupyter's login page: the field, and what it says where the server has a token.
_PASSWORD_FIELD, _TOKEN_HELP = b'id="password_input"', b"jupyter server list"

_ONLY_A_PASSWORD = "The server has a password and no token, and agents need a token."

_GIVE_IT_A_TOKEN = (
    "Start that server with JUPYTER_TOKEN set to a token of your choice, or with "
    "c.IdentityProvider.token in its configuration. The password keeps working."
)

_INSTALL = "Run `pip install jupyter-collaboration` in that server's environment and restart it."

_ENABLE = (
    "Run `pip install jupyter-collaboration` in that server's environment, or, if it is installed, "
    "`jupyter server extension enable jupyter_server_ydoc`; then restart it."
)


async def examine(address: ServerAddress) -> list[Check]:
    """Check everything that an agent will need, as far as earlier failures allow."""
    from ..backends.remote.jupyter_api import JupyterApi

    if (wrong := _address(address)) is not None:
        return [wrong]
    api = JupyterApi(address)
    try:
        checks = await _guarded_first(api)
        if any(check.state == "failed" for check in checks):
            return checks
        if any(check.name == "hub" for check in checks):
            return checks
        others = (_collaboration, _browser, _extension, _contents, _kernels, _websocket)
        return [*checks, *await asyncio.gather(*(_guarded(other, api) for other in others))]
    finally:
        await api.close()


def report(checks: Iterable[Check]) -> str:
    """A line for each check, with what to do below it."""
    lines: list[str] = []
    for check in checks:
        lines.append(f"{check.state:<8} {check.name:<14} {check.said}")
        if check.remedy is not None:
            lines.append(f"{'':<24}-> {check.remedy}")
    return "\n".join(lines)


# -- what all others depend on ---------------------------------------------------------------


def _address(address: ServerAddress) -> Check | None:
    from ..backends.remote.server_address import is_address

    if is_address(address.url):
        return None
    said = f"{address.url.partition('?')[0]!r} is not the URL of a server."
    return Check("reachable", "failed", said, "Give one like http://127.0.0.1:8888/.")


async def _guarded_first(api: JupyterApi) -> list[Check]:
    try:
        async with asyncio.timeout(_LIMIT):
            return await _first(api)
    except TimeoutError:
        said = f"{api.address.base} did not answer within {_LIMIT:g} s."
        return [
            Check("reachable", "failed", said, "Check that it is running, and what is in between.")
        ]


async def _first(api: JupyterApi) -> list[Check]:
    """Reachable, Jupyter, token: none after the first that fails."""
    from ..backends.remote.server_errors import Refused

    base = api.address.base
    reachable = Check("reachable", "ok", f"{base} answers.")
    try:
        answer = await api.get("api")
        version = answer.get("version") if isinstance(answer, dict) else None
        if not isinstance(version, str):
            raise Refused(404, "no version")
        if api.hub is not None and base.endswith("/hub/") and (checks := await _hub(api)):
            return [reachable, *checks]  # the API of the Hub looks like that of a server
    except ServerUnreachable as error:
        return [Check("reachable", "failed", error.happened, error.remedy)]
    except TokenRefused:  # Jupyter reports its version to anybody; a proxy in front of it does not
        version = None
    except NotJupyter as error:
        if api.hub is not None and (checks := await _hub(api)):
            return [reachable, *checks]
        return [reachable, Check("jupyter", "failed", error.happened, error.remedy)]
    except Refused:
        said = f"What answers at {base} is not a Jupyter server."
        remedy = "Give the URL of a Jupyter server, including its base URL (`jupyter server list`)."
        return [reachable, Check("jupyter", "failed", said, remedy)]
    except ServerError as error:
        return [reachable, Check("jupyter", "failed", error.happened, error.remedy)]
    return [reachable, *([_jupyter(version)] if version else []), await _guarded(_token, api)]


async def _hub(api: JupyterApi) -> list[Check]:
    from .hub_doctor import examine_hub

    root = api.address.base.removesuffix("hub/")
    return await examine_hub(replace(api.address, url=root))


def _jupyter(version: str) -> Check:
    major = version.partition(".")[0]
    if major.isdecimal() and int(major) < 2:
        said = f"Jupyter Server {inline(version, _VERSION)} is too old for collaboration."
        return Check("jupyter", "failed", said, "Upgrade to Jupyter Server 2 and restart it.")
    return Check("jupyter", "ok", f"Jupyter Server {inline(version, _VERSION)}.")


async def _token(api: JupyterApi) -> Check:
    given = api.address.token is not None
    try:
        await api.get("api", "status")
    except TokenRefused:
        if api.hub is None and await _has_only_a_password(api):
            return Check("token", "failed", _ONLY_A_PASSWORD, _GIVE_IT_A_TOKEN)
        said = "The server does not accept the token." if given else "The server requires a token."
        remedy = "Put the token that `jupyter server list` shows there into JUPYTER_TOKEN."
        if api.hub is not None:
            remedy = f"Create one at {api.hub.token_page}, and put it into JUPYTER_TOKEN."
        return Check("token", "failed", said, remedy)
    return Check(
        "token", "ok", "The token is accepted." if given else "The server requires no token."
    )


async def _has_only_a_password(api: JupyterApi) -> bool:
    """Jupyter's login page explains how to find the token, if the server has one."""
    page = await api.ask("GET", "login")
    return page.status == 200 and _PASSWORD_FIELD in page.body and _TOKEN_HELP not in page.body


# -- everything else -------------------------------------------------------------------------


async def _guarded(check: Callable[[JupyterApi], Awaitable[Check]], api: JupyterApi) -> Check:
    """The result of a check; an error that it does not handle becomes a failed check."""
    from ..backends.remote.server_errors import Refused

    name = check.__name__.strip("_")
    try:
        async with asyncio.timeout(_LIMIT):
            return await check(api)
    except TimeoutError:
        said = f"The server did not answer within {_LIMIT:g} s."
        return Check(name, "failed", said, "Try again in a while.")
    except TokenRefused:
        said = "The server accepts the token, but does not allow this."
        return Check(name, "failed", said, "Ask whoever runs that server for permission.")
    except ServerError as error:
        return Check(name, "failed", error.happened, error.remedy)
    except Refused as error:
        said = f"The server answers with status {error.status}: {error}."
        return Check(name, "failed", said, "See the log of that server.")


async def _collaboration(api: JupyterApi) -> Check:
    from ..backends.remote.server_errors import Refused

    try:
        await api.get("api", "collaboration", "fork", _NOWHERE)
    except Refused as error:
        if error.status != 404:
            raise
    else:
        return Check("collaboration", "ok", "Notebooks are shared live.")
    try:
        # Only PUT is handled there, so this is 405 if the path exists at all.
        await api.get("api", "collaboration", "session", _NOWHERE)
    except Refused as error:
        if error.status == 404:
            said = "There are no live rooms: agents use the files (file mode)."
            return Check("collaboration", "warning", said, _ENABLE)
    said = "The server has an old jupyter-collaboration."
    remedy = "Run `pip install -U jupyter-collaboration` there and restart that server."
    return Check("collaboration", "warning", said, remedy)


async def _browser(api: JupyterApi) -> Check:
    """Whether people's JupyterLab takes part; if not, it and an agent overwrite each other."""
    page = await api.ask("GET", "lab")
    found = _PAGE_CONFIG.search(page.body) if page.status == 200 else None
    try:
        config = json.loads(found[1]) if found else None
    except (ValueError, RecursionError):
        config = None
    if not isinstance(config, dict):
        return Check("browser", "ok", "There is no JupyterLab on this server.")
    version = inline(config.get("appVersion", "of unknown version"), _VERSION)
    if str(config.get("disableRTC", False)).lower() == "true":
        said = f"JupyterLab {version} does not take part: collaboration is turned off for it."
        remedy = "Remove `disable_rtc` from that server's configuration and restart it."
        return Check("browser", "warning", said, remedy)
    with api.expecting("JupyterLab"):
        names = {str(part["name"]) for part in config.get("federated_extensions") or ()}
    if names.isdisjoint({"@jupyter/docprovider-extension", "@jupyter/collaboration-extension"}):
        said = f"JupyterLab {version} does not take part: it lacks the extension for it."
        return Check("browser", "warning", said, _INSTALL)
    return Check("browser", "ok", f"JupyterLab {version} takes part.")


async def _extension(api: JupyterApi) -> Check:
    """Whether it serves MCP and that works: by a real request of a real client."""
    from ..backends.remote.extension_info import extension_info
    from ..backends.remote.server_errors import Refused

    info = await extension_info(api)
    if info is None:
        return Check("extension", "ok", "It does not serve MCP itself, and does not need to.")
    said = f"It also serves MCP itself, at {info.url}"
    try:
        said += f": {await _ask_for_tools(api, info.url)}"
    except Refused as error:
        said += f", but a request to it is answered with status {error.status}: {error}."
        if error.status == 403 and api.address.token is None:
            remedy = "Give that server a token (JUPYTER_TOKEN): without one it requires a cookie."
            return Check("extension", "warning", said, remedy)
        return Check("extension", "failed", said, "See the log of that server.")
    except Exception as error:
        said += f", but what answers there does not speak MCP: {_cause(error)}."
        return Check("extension", "failed", said, "See the log of that server.")
    if not info.warnings:
        return Check("extension", "ok", said)
    said += f" It warns: {quoted(' '.join(info.warnings), _LONGEST)}"
    return Check("extension", "warning", said, "See the log of that server for more.")


async def _ask_for_tools(api: JupyterApi, url: str) -> str:
    """Open a session and list the tools, as a client does first.

    Raises:
        Refused: It was answered with an error status, of which the SDK says nothing.
        Exception: What the SDK makes of anything else.
    """
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    from ..backends.remote.http_client import new_client
    from ..backends.remote.server_errors import Refused

    refusals: list[Refused] = []

    async def note(response: Response) -> None:
        if response.is_error:
            body = (await response.aread())[:_LONGEST].decode(errors="replace")
            refusals.append(Refused(response.status_code, body))

    try:
        async with new_client(api.address) as http:
            http.event_hooks = {"response": [note]}
            transport = streamable_http_client(url, http_client=http)
            async with Client(transport, mode="legacy") as client:
                tools, server = (await client.list_tools()).tools, client.server_info
    except Exception:
        if refusals:
            raise refusals[0] from None
        raise
    named = "it" if server is None else inline(f"{server.name} {server.version}")
    return f"{named} has {len(tools)} tools."


def _cause(error: BaseException) -> str:
    """What went wrong, in one line; task groups wrap it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return quoted(str(error) or type(error).__name__)


async def _contents(api: JupyterApi) -> Check:
    listing = await api.contents("", content="1", type="directory")
    with api.expecting("files"):
        count = len(listing["content"])
    return Check("contents", "ok", f"{count} files and directories at the top.")


async def _kernels(api: JupyterApi) -> Check:
    specs, running = await asyncio.gather(api.get("api", "kernelspecs"), api.get("api", "kernels"))
    with api.expecting("its kernels"):
        names, count = sorted(map(str, specs["kernelspecs"])), len(running)
    if not names:
        remedy = "Run `pip install ipykernel` in that server's environment."
        return Check("kernels", "warning", "The server has no kernels to start.", remedy)
    said = f"{listed(names)} to choose from, {count} running."
    return Check("kernels", "ok", said)


async def _websocket(api: JupyterApi) -> Check:
    from ..backends.remote.server_errors import Refused

    try:
        # The server only sends there: it ignores what comes in.
        connection = await api.websocket("api", "events", "subscribe")
    except (Refused, NotJupyter) as error:
        why = error.happened if isinstance(error, NotJupyter) else f"{error}."
        remedy = "Let the proxy in front of that server pass WebSockets through."
        return Check("websocket", "failed", f"A WebSocket cannot be opened: {why}", remedy)
    await connection.close()
    return Check("websocket", "ok", "WebSockets get through.")
