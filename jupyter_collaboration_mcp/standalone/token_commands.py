"""`token create`, `token list` and `token revoke`: tokens for agents, made by a Jupyter server."""

from __future__ import annotations

import argparse
import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .options import PROGRAM

if TYPE_CHECKING:
    from ..backends.remote.jupyter_api import JupyterApi

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}

_DURATION = re.compile(r"(\d+(?:\.\d+)?)([smhd])")


def token(arguments: Sequence[str]) -> int:
    """Make, list or revoke tokens of agents."""
    parser = argparse.ArgumentParser(
        prog=f"{PROGRAM} token",
        description="Tokens that let one agent in at /mcp of a Jupyter server with the extension, "
        "and open nothing else there.",
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    create = commands.add_parser("create", help="make a token, and print it once")
    create.add_argument("agent", help="the agent's name")
    create.add_argument("--permission", metavar="LEVEL", help="read, write, execute or admin")
    create.add_argument(
        "--path", action="append", default=[], metavar="GLOB", help="what it may touch; repeatable"
    )
    create.add_argument(
        "--expires", type=_seconds, metavar="TIME", help="30m, 8h or 7d; default: never"
    )
    commands.add_parser("list", help="list tokens, without what would let anybody in")
    revoke = commands.add_parser("revoke", help="end a token, and what its agent is doing")
    revoke.add_argument("id")
    for each in commands.choices.values():
        each.add_argument("--url", help="the server; default: the one that is running here")
    options = parser.parse_args(arguments)
    return asyncio.run(
        _with_server(options.url, lambda api: _COMMANDS[options.command](api, options))
    )


async def _create(api: JupyterApi, options: argparse.Namespace) -> int:
    from .agent_token_api import new_token

    body = {"agent": options.agent, "paths": options.path, "expires_in": options.expires}
    if options.permission is not None:
        body["permission"] = options.permission
    made = await new_token(api, body)
    print(made["token"])
    return 0


async def _list(api: JupyterApi, options: argparse.Namespace) -> int:
    from .agent_token_api import ask_about_tokens

    found = await ask_about_tokens(api, "GET")
    with api.expecting("tokens"):
        lines = [_line(each) for each in found["tokens"]]
    print("\n".join(lines) if lines else "There are no agent tokens.")
    return 0


async def _revoke(api: JupyterApi, options: argparse.Namespace) -> int:
    from .agent_token_api import ask_about_tokens

    await ask_about_tokens(api, "DELETE", options.id)
    print(f"Revoked {options.id}.")
    return 0


_COMMANDS: Mapping[str, Callable[[JupyterApi, argparse.Namespace], Awaitable[int]]] = {
    "create": _create,
    "list": _list,
    "revoke": _revoke,
}


async def _with_server(url: str | None, work: Callable[[JupyterApi], Awaitable[int]]) -> int:
    from ..backends.remote.jupyter_api import JupyterApi
    from .commands import known_addresses
    from .discovery import running_servers

    addresses = known_addresses()
    if url:
        address = addresses.trust(url)
    else:
        running = running_servers(Path.cwd())
        if not running:
            raise ValueError("no Jupyter server is running here; start one, or give its --url")
        address = addresses.address(running[0].url)
    api = JupyterApi(address)
    try:
        return await work(api)
    finally:
        await api.close()


def _line(row: Mapping[str, Any]) -> str:
    expires = row["expires"]
    until = "never expires" if expires is None else f"expires {_time(expires)}"
    if row["expired"]:
        until = f"expired {_time(expires)}"
    paths = ", ".join(row["paths"]) or "all paths"
    return f"{row['id']}  {row['agent']}  {row['permission']}  {paths}  {until}"


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _seconds(text: str) -> float:
    """Seconds in a duration such as `8h`."""
    found = _DURATION.fullmatch(text.strip().lower())
    if found is None or not float(found[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration such as 30m, 8h or 7d")
    return float(found[1]) * _UNITS[found[2]]
