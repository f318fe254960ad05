"""The commands besides serving: `config`, `doctor` and `servers`."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..requirements import check_requirements
from .options import PROGRAM, command_parser, own_token, read_settings
from .stdio import say

if TYPE_CHECKING:
    from .addresses import Addresses
    from .clients import Endpoint
    from .doctor import Check


def config(arguments: Sequence[str]) -> int:
    """Print the configuration of an MCP client."""
    from .clients import CLIENTS, Launch, configuration, require_endpoints

    parser = argparse.ArgumentParser(
        prog=f"{PROGRAM} config",
        description="Print the configuration that makes an MCP client start this command, or with "
        "--http use the URL of a Jupyter server that has the extension.",
        epilog="Further options are passed through: the client starts the command with them.",
        allow_abbrev=False,
    )
    parser.add_argument("client", choices=CLIENTS)
    parser.add_argument(
        "--http",
        nargs="?",
        const="",
        metavar="URL",
        help="the server's URL, optionally with ?agent=NAME or ?permission=LEVEL; default: the "
        "server that is running here",
    )
    parser.add_argument(
        "--without-token",
        action="store_true",
        help="with --http: refer to a variable instead of the token that the server makes for this "
        "agent",
    )
    options, passed_on = parser.parse_known_args(arguments)
    if options.http is None:
        if options.without_token:
            parser.error("--without-token needs --http")
        read_settings(command_parser().parse_args(passed_on), {})  # refuses invalid options
        launch = Launch.of([*_this_command(), *_with_absolute_root(passed_on)], {})
        print(configuration(options.client, launch), end="")
        return 0
    if passed_on:
        parser.error(
            "with --http, limits and names are part of the URL: ?permission=read&agent=Ada"
        )
    require_endpoints(options.client)  # before a token is made for nothing
    token_for = None if options.without_token else options.client
    endpoint = asyncio.run(_endpoint(options.http, token_for))
    print(configuration(options.client, endpoint), end="")
    return 0


def doctor(arguments: Sequence[str]) -> int:
    """Check servers, and suggest fixes."""
    check_requirements()
    from .discovery import running_servers
    from .doctor import examine, report

    parser = argparse.ArgumentParser(prog=f"{PROGRAM} doctor", allow_abbrev=False)
    parser.add_argument("url", nargs="?", help="default: all servers that are running here")
    parser.add_argument("--token")
    parser.add_argument("--insecure", action="store_true")
    options = parser.parse_args(arguments)
    if options.token and not options.url:
        parser.error("--token needs the URL of the server that it is for")
    known = known_addresses(options.token, options.insecure)
    if options.url:
        addresses = [known.trust(options.url)]
    else:
        addresses = [known.address(server.url) for server in running_servers(Path.cwd())]
    if not addresses:
        print("No Jupyter server is running here. Start one with `jupyter lab`, or give its URL.")
        return 1

    async def examine_all() -> list[list[Check]]:
        return await asyncio.gather(*map(examine, addresses))

    examined = asyncio.run(examine_all())
    for address, checks in zip(addresses, examined, strict=True):
        if len(addresses) > 1:
            print(address.base)
        print(report(checks))
    return 1 if any(check.state == "failed" for checks in examined for check in checks) else 0


def servers(arguments: Sequence[str]) -> int:
    """List the servers that run on this machine."""
    from .discovery import running_servers

    argparse.ArgumentParser(prog=f"{PROGRAM} servers", allow_abbrev=False).parse_args(arguments)
    running = running_servers(Path.cwd())
    for server in running:
        print(f"{server.url}  {server.root}")
    if not running:
        print("No Jupyter server is running here.")
    return 0


# -- parts -----------------------------------------------------------------------------------


def known_addresses(token: str | None = None, insecure: bool = False) -> Addresses:
    """Servers with the tokens that are known for them."""
    from .addresses import Addresses

    settings = read_settings(command_parser().parse_args([]), os.environ)
    return Addresses(
        token or own_token(settings, os.environ),
        insist=bool(token),
        verify=not (insecure or settings.insecure),
    )


def _this_command() -> list[str]:
    """How a client can start this very command, whatever its PATH and directory are."""
    script = Path(sys.argv[0])
    if script.stem != PROGRAM:
        script = Path(sys.executable).with_name(PROGRAM)
    if not script.is_file():
        return [sys.executable, "-m", "jupyter_collaboration_mcp.cli"]
    # Not resolved: a link to the command, such as pipx makes, outlives its target.
    return [os.path.abspath(script)]  # noqa: PTH100


def _with_absolute_root(words: Sequence[str]) -> list[str]:
    """The words with a --root that means the same folder wherever a client starts them."""
    absolute = list(words)
    for index, word in enumerate(words):
        option, equals, root = word.partition("=")
        if option == "--root" and equals:
            absolute[index] = f"--root={Path(root).resolve()}"
        elif index and words[index - 1] == "--root":
            absolute[index] = str(Path(word).resolve())
    return absolute


async def _endpoint(url: str, token_for: str | None) -> Endpoint:
    """The endpoint at a URL, or of the server that runs here."""
    from .discovery import running_servers
    from .endpoints import endpoint_of

    addresses = known_addresses()
    if url:
        return await endpoint_of(url, addresses.trust(url), token_for, say)
    running = running_servers(Path.cwd())
    if not running:
        raise ValueError(
            "no Jupyter server is running here; start one, or give its URL: --http URL"
        )
    found = running[0].url
    return await endpoint_of(found, addresses.address(found), token_for, say)
