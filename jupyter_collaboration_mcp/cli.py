"""The front door of its own: `jupyter-collaboration-mcp`, for any Jupyter server, or several.

Whatever takes long to import is imported after the arguments have been read.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import __version__
from .errors import CollaborationError
from .workspace.permissions import Level

if TYPE_CHECKING:
    from .standalone.connections import Connections
    from .workspace.sites import Sites

#: Seconds to leave all servers.
_CLOSE_LIMIT = 5.0

_ENVIRONMENT = "JUPYTER_COLLABORATION_MCP_"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    commands = {"config": _config, "doctor": _doctor, "servers": _servers}
    try:
        if given and given[0] in commands:
            return commands[given[0]](given[1:])
        return _run(given)
    except KeyboardInterrupt:
        return 130
    except CollaborationError as error:
        print(f"jupyter-collaboration-mcp: {error.happened} {error.next_step}", file=sys.stderr)
        return 2
    except ValueError as error:
        print(f"jupyter-collaboration-mcp: {error}", file=sys.stderr)
        return 2


def _run(given: Sequence[str]) -> int:
    options = _parser().parse_args(given)
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.DEBUG if options.verbose else logging.WARNING,
        format="%(levelname)s %(name)s: %(message)s",
    )
    asyncio.run(_serve(options))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="jupyter-collaboration-mcp",
        description="Makes an AI agent a collaborator in live Jupyter notebooks, over MCP.",
        epilog="Further commands: config CLIENT, doctor [URL], servers.",
    )
    parser.add_argument("--version", action="version", version=__version__)
    parser.add_argument(
        "--server",
        action="append",
        metavar="[ALIAS=]URL",
        help="a Jupyter server to join; may be repeated. Default: the running local ones",
    )
    parser.add_argument(
        "--token", default=_env("TOKEN") or os.environ.get("JUPYTER_TOKEN"), help="of the servers"
    )
    parser.add_argument("--transport", choices=["stdio", "http"], default="stdio")
    parser.add_argument("--host", default="127.0.0.1", help="for http")
    parser.add_argument("--port", type=int, default=0, help="for http; default: a free one")
    parser.add_argument(
        "--bearer-token",
        default=_env("BEARER_TOKEN"),
        help="for http: what clients must send; default: a new one, which is printed",
    )
    parser.add_argument("--toolsets", default=_env("TOOLSETS") or "all")
    parser.add_argument(
        "--permission",
        action="append",
        metavar="[ALIAS=]LEVEL",
        help="read, write, execute or admin; of all servers, or of one",
    )
    parser.add_argument("--agent-name", default=_env("AGENT_NAME"))
    parser.add_argument("--root", type=Path, default=Path.cwd(), help="where to look and start")
    parser.add_argument(
        "--no-embedded", action="store_true", help="do not start a Jupyter server if none runs"
    )
    parser.add_argument("--insecure", action="store_true", help="accept any certificate")
    parser.add_argument("--verbose", action="store_true")
    return parser


async def _serve(options: argparse.Namespace) -> None:
    # All that is imported stays: to look for garbage in it takes a tenth of the time to start.
    gc.disable()
    from .documents.images import ImageLimits
    from .server import ServerOptions, build_server
    from .standalone.connections import Connections, Settings
    from .workspace.sites import Sites

    level, levels = _levels(options.permission or [_env("PERMISSION") or "admin"])
    settings = Settings(
        level=level, levels=levels, token=options.token, verify=not options.insecure
    )
    sites = Sites()
    log = logging.getLogger("jupyter_collaboration_mcp")
    connections = Connections(sites, settings, log)
    embedded = _join(options, sites, connections)
    highest = max([level, *levels.values()])
    server = build_server(
        sites,
        ServerOptions(options.toolsets, highest, options.agent_name, ImageLimits()),
        connections.connect,
    )
    gc.freeze()
    gc.enable()
    try:
        if options.transport == "stdio":
            await server.run_stdio_async()
        else:
            await _serve_http(server, options)
    finally:
        # A server that is out of reach must not keep the command from ending.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(sites.close(), _CLOSE_LIMIT)
        if embedded is not None:
            await embedded.stop()


def _join(options: argparse.Namespace, sites: Sites, connections: Connections) -> Any:
    """Have the servers that were named, or those that run, or one of our own."""
    from .standalone.discovery import running_servers

    named = [_alias(server) for server in options.server or ()]
    if named:
        for alias, url in named:
            address = connections.address(url)
            if alias is None and len(named) == 1:
                sites.put(connections.site("", address))
            else:
                sites.add(connections.site(alias or connections.alias_for(url), address))
        return None
    running = running_servers(options.root)
    for number, found in enumerate(running):
        alias = "" if number == 0 else connections.alias_for(found.url)
        sites.put(connections.site(alias, connections.address(found.url)))
    if running or options.no_embedded:
        return None
    return _start_embedded(options, sites, connections)


def _start_embedded(options: argparse.Namespace, sites: Sites, connections: Connections) -> Any:
    from .standalone.embedded import EmbeddedServer

    embedded = EmbeddedServer()

    async def start() -> None:
        address = await embedded.start(options.root)
        sites.put(connections.site("", address))
        print(f"Jupyter runs at {embedded.lab_url}", file=sys.stderr, flush=True)

    sites.coming = asyncio.get_running_loop().create_task(start())
    return embedded


async def _serve_http(server: Any, options: argparse.Namespace) -> None:
    import uvicorn

    from .transport.http import application, new_token

    token = options.bearer_token or new_token()
    app = application(server, token, [options.host])
    config = uvicorn.Config(
        app,
        host=options.host,
        port=options.port,
        log_level="warning",
        lifespan="on",
        timeout_graceful_shutdown=3,
    )
    http = uvicorn.Server(config)
    serving = asyncio.get_running_loop().create_task(http.serve())
    while not http.started and not serving.done():
        await asyncio.sleep(0.01)
    if http.started:
        port = http.servers[0].sockets[0].getsockname()[1]
        print(f"MCP at http://{options.host}:{port}/mcp", file=sys.stderr)
        if not options.bearer_token:
            print(f"Authorization: Bearer {token}", file=sys.stderr, flush=True)
    await serving


# -- further commands ------------------------------------------------------------------------


def _config(arguments: Sequence[str]) -> int:
    from .standalone.clients import CLIENTS, configuration

    parser = argparse.ArgumentParser(prog="jupyter-collaboration-mcp config")
    parser.add_argument("client", choices=CLIENTS)
    options, more = parser.parse_known_args(arguments)
    print(configuration(options.client, ["jupyter-collaboration-mcp", *more], {}))
    return 0


def _doctor(arguments: Sequence[str]) -> int:
    from .standalone.connections import Connections, Settings
    from .standalone.discovery import running_servers
    from .standalone.doctor import examine, report
    from .workspace.sites import Sites

    parser = argparse.ArgumentParser(prog="jupyter-collaboration-mcp doctor")
    parser.add_argument("url", nargs="?")
    parser.add_argument("--token", default=_env("TOKEN") or os.environ.get("JUPYTER_TOKEN"))
    parser.add_argument("--insecure", action="store_true")
    options = parser.parse_args(arguments)
    url = options.url
    if url is None:
        running = running_servers(Path.cwd())
        if not running:
            print("No Jupyter server runs here. Start one with `jupyter lab`, or give its URL.")
            return 1
        url = running[0].url
    settings = Settings(token=options.token, verify=not options.insecure)
    connections = Connections(Sites(), settings, logging.getLogger(__name__))
    checks = asyncio.run(examine(connections.address(url)))
    print(report(checks))
    return 1 if any(check.state == "failed" for check in checks) else 0


def _servers(arguments: Sequence[str]) -> int:
    from .standalone.discovery import running_servers

    argparse.ArgumentParser(prog="jupyter-collaboration-mcp servers").parse_args(arguments)
    running = running_servers(Path.cwd())
    for server in running:
        print(f"{server.url}  {server.root}")
    if not running:
        print("No Jupyter server runs here.")
    return 0


# -- parts -----------------------------------------------------------------------------------


def _env(name: str) -> str | None:
    return os.environ.get(_ENVIRONMENT + name) or None


def _alias(server: str) -> tuple[str | None, str]:
    """`alias=url`, or a URL alone; a URL may have an equals sign in its query."""
    alias, equals, url = server.partition("=")
    return (alias, url) if equals and "/" not in alias and ":" not in alias else (None, server)


def _levels(wanted: Sequence[str]) -> tuple[Level, dict[str, Level]]:
    """The level of all servers, and those of single ones."""
    everywhere, single = Level.admin, {}
    for wish in wanted:
        alias, equals, level = wish.rpartition("=")
        if level not in Level.__members__:
            raise ValueError(f"there is no permission level {level!r}.")
        if equals:
            single[alias] = Level[level]
        else:
            everywhere = Level[level]
    return everywhere, single


if __name__ == "__main__":
    sys.exit(main())
