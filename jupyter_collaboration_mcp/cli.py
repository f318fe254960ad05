"""The front door of its own: `jupyter-collaboration-mcp`, for any Jupyter server, or several.

Whatever takes long to import is imported after the arguments have been read.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import CollaborationError
from .requirements import check_requirements
from .settings.settings import Settings
from .standalone import commands, token_commands
from .standalone.options import (
    PROGRAM,
    command_parser,
    own_token,
    read_settings,
    service_parser,
)
from .standalone.stdio import say, serve_stdio, take_standard_output

if TYPE_CHECKING:
    from .server.server import CollaborationServer
    from .standalone.shutdown import Shutdown


def _serve_hub(arguments: Sequence[str]) -> int:
    """Run as a service of a JupyterHub."""
    settings = read_settings(service_parser().parse_args(arguments), os.environ, "service")
    logging.basicConfig(stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s")
    asyncio.run(_serve_service(settings))
    return 0


_COMMANDS = {
    "config": commands.config,
    "doctor": commands.doctor,
    "hub-service": _serve_hub,
    "servers": commands.servers,
    "token": token_commands.token,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if given and given[0] in _COMMANDS:
            return _COMMANDS[given[0]](given[1:])
        return _run(given)
    except KeyboardInterrupt:
        return 130
    except CollaborationError as error:
        say(f"{PROGRAM}: {error.happened} {error.remedy}")
        return 2
    except ValueError as error:
        say(f"{PROGRAM}: {error}")
        return 2


def _run(given: Sequence[str]) -> int:
    parser = command_parser()
    options = parser.parse_args(given)
    check_requirements()
    if options.help_all or options.generate_config:
        return _show_extension_settings(parser, options)
    settings = read_settings(options, os.environ)
    if settings.hub is not None and settings.server:
        raise ValueError("--hub and --server cannot be given together")
    if settings.start_servers and settings.hub is None:
        raise ValueError("--start-servers needs --hub")
    if not Path(settings.root).is_dir():
        raise ValueError(f"--root: there is no directory {settings.root}")
    # One token for several servers is for those of them that Jupyter's files do not know.
    insist = bool(options.token) and len(settings.server) == 1
    wire = take_standard_output() if settings.transport == "stdio" else None
    logging.basicConfig(stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s")
    logging.getLogger(f"{__package__}.calls").setLevel(logging.INFO)  # see server.call_log
    if settings.verbose:
        # Only ours: those of HTTP and WebSockets log headers, with the token in them.
        logging.getLogger(__package__).setLevel(logging.DEBUG)
    asyncio.run(_serve(settings, insist, wire))
    return 0


def _show_extension_settings(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    """Show the settings of the extension, or write a file with them.

    `jupyter server --help-all` cannot: it ends before it loads any extension.
    """
    from .app import JupyterCollaborationMCP

    if options.generate_config:
        JupyterCollaborationMCP.launch_instance(["--generate-config"])  # type: ignore[no-untyped-call]
        return 0
    parser.print_help()
    print("\nSettings of the extension, for `jupyter server` and `jupyter lab`\n")
    for trait in JupyterCollaborationMCP.class_own_traits(config=True).values():
        print(JupyterCollaborationMCP.class_get_trait_help(trait))
    return 0


# -- serving ---------------------------------------------------------------------------------


async def _serve(settings: Settings, insist: bool, wire: int | None) -> None:
    from .standalone.shutdown import Shutdown, leave

    shutdown = Shutdown()
    shutdown.listen()
    await _serve_until(shutdown, settings, insist, wire)
    if shutdown.code is not None:
        leave(shutdown.code)


async def _serve_until(
    shutdown: Shutdown, settings: Settings, insist: bool, wire: int | None
) -> None:
    # What is imported stays: searching it for garbage takes a tenth of the time to start.
    gc.disable()
    from .assembly.command import assemble_command
    from .standalone.addresses import Addresses

    token = own_token(settings, os.environ)
    addresses = Addresses(token, insist=insist, verify=not settings.insecure)
    log = logging.getLogger(__package__)
    async with assemble_command(settings, addresses, say, log) as server:
        gc.freeze()
        gc.enable()
        if wire is None:
            await _serve_http(server, settings, shutdown)
        else:
            await shutdown.wait(asyncio.ensure_future(serve_stdio(server, wire)))
            await server.subscriptions.close()


async def _serve_http(server: CollaborationServer, settings: Settings, shutdown: Shutdown) -> None:
    from .server.rates import flood_limit
    from .standalone.http_server import serve_until
    from .transport.http import application, bind, new_token

    token = settings.bearer_token or new_token()
    hosts = [settings.host, *settings.allowed_host]
    floods = flood_limit(settings.rate_limit)
    app = application(server, token, hosts, floods, settings.event_store_size)
    with bind(settings.host, settings.port) as listener:
        port = listener.getsockname()[1]
        await serve_until(
            shutdown,
            app,
            listener,
            started=lambda: _announce(settings, port, token),
            ending=server.subscriptions.close,  # streams would stay open as long as they may
        )


async def _serve_service(settings: Settings) -> None:
    from .assembly.hub_service import ServicePlace, make_service
    from .standalone.http_server import serve_until
    from .standalone.shutdown import Shutdown, leave
    from .transport.http import bind

    place = ServicePlace(os.environ)
    shutdown = Shutdown()
    shutdown.listen()
    service = make_service(settings, place, logging.getLogger(__package__))
    with bind(place.host, place.port) as listener:
        await serve_until(shutdown, service, listener, ending=service.close, lifespan="off")
    if shutdown.code is not None:
        leave(shutdown.code)


def _announce(settings: Settings, port: int, token: str) -> None:
    from .transport.http import bracketed

    say(f"MCP at http://{bracketed(settings.host)}:{port}/mcp")
    if settings.host in ("0.0.0.0", "::", "") and not settings.allowed_host:
        say("Only this machine can use it: see --allowed-host.")
    if not settings.bearer_token:
        say(f"Authorization: Bearer {token}")


if __name__ == "__main__":
    sys.exit(main())
