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
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import __version__
from .errors import CollaborationError
from .requirements import unmet_requirements
from .standalone.stdio import serve_stdio, take_standard_output
from .tools import toolset_names
from .workspace.permissions import Level

if TYPE_CHECKING:
    from .standalone.clients import Endpoint
    from .standalone.connections import Connections
    from .standalone.doctor import Check
    from .standalone.ending import Ending
    from .standalone.local import LocalServers
    from .workspace.sites import Site, Sites

#: Seconds to leave all servers.
_CLOSE_LIMIT = 5.0

_PROGRAM = "jupyter-collaboration-mcp"

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
        _say(f"{_PROGRAM}: {error.happened} {error.remedy}")
        return 2
    except ValueError as error:
        _say(f"{_PROGRAM}: {error}")
        return 2


def _run(given: Sequence[str]) -> int:
    parser = _parser()
    options = parser.parse_args(given)
    _check_requirements()
    if options.help_all or options.generate_config:
        return _extension_settings(parser, options)
    toolset_names(options.toolsets)
    if not options.root.is_dir():
        raise ValueError(f"--root: there is no directory {options.root}")
    wire = take_standard_output() if options.transport == "stdio" else None
    logging.basicConfig(stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s")
    logging.getLogger(f"{__package__}.calls").setLevel(logging.INFO)  # see server.call_log
    if options.verbose:
        # Only ours: those of HTTP and WebSockets log headers, with the token in them.
        logging.getLogger(__package__).setLevel(logging.DEBUG)
    asyncio.run(_serve(options, wire))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=_PROGRAM,
        description="Makes an AI agent a collaborator in live Jupyter notebooks, over MCP.",
        epilog="Further commands: config CLIENT, doctor [URL], servers.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=__version__)
    parser.add_argument(
        "--server",
        action="append",
        metavar="[ALIAS=]URL",
        help="a Jupyter server to join; may be repeated. Default: the running local ones",
    )
    parser.add_argument("--token", help="of the servers that --server names")
    parser.add_argument("--transport", choices=["stdio", "http"], default="stdio")
    parser.add_argument("--host", default="127.0.0.1", help="for http")
    parser.add_argument("--port", type=int, default=0, help="for http; default: a free one")
    parser.add_argument(
        "--allowed-host",
        action="append",
        metavar="NAME",
        help="for http: a name or address under which clients ask for it; may be repeated",
    )
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
    parser.add_argument(
        "--structured",
        action="store_true",
        default=_switch("STRUCTURED"),
        help="send structuredContent, too: many clients show a model that JSON instead of the text",
    )
    parser.add_argument("--root", type=Path, default=Path.cwd(), help="where to look and start")
    parser.add_argument(
        "--no-embedded", action="store_true", help="do not start a Jupyter server if none runs"
    )
    parser.add_argument("--insecure", action="store_true", help="accept any certificate")
    parser.add_argument(
        "--answer-timeout",
        type=_positive,
        default=_env("ANSWER_TIMEOUT") or 60.0,
        metavar="SECONDS",
        help="for a whole answer of a Jupyter server; default: 60",
    )
    parser.add_argument(
        "--max-answer-size",
        type=_positive,
        default=_env("MAX_ANSWER_SIZE") or 256e6,
        metavar="BYTES",
        help="of an answer of a Jupyter server, unpacked; default: 256,000,000",
    )
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument(
        "--help-all", action="store_true", help="show this and the settings of the extension"
    )
    parser.add_argument(
        "--generate-config",
        action="store_true",
        help="write a configuration file of the extension, with all settings at their defaults",
    )
    return parser


def _positive(value: str) -> float:
    number = float(value.replace(",", ""))
    if not 0 < number < float("inf"):
        raise ValueError(value)
    return number


async def _serve(options: argparse.Namespace, wire: int | None) -> None:
    from .standalone.ending import Ending, leave

    ending = Ending()
    ending.listen()
    await _serve_until(ending, options, wire)
    if ending.code is not None:
        leave(ending.code)


async def _serve_until(ending: Ending, options: argparse.Namespace, wire: int | None) -> None:
    # All that is imported stays: to look for garbage in it takes a tenth of the time to start.
    gc.disable()
    from .backends.remote.answer_limits import AnswerLimits
    from .documents.images import ImageLimits
    from .server.gate import ServerOptions
    from .server.server import build_server
    from .standalone.connections import Connections, Settings
    from .tools.parts import Standalone
    from .workspace.sites import Sites

    level, levels = _levels(options.permission or _words(_env("PERMISSION")))
    settings = Settings(
        level=level,
        levels=levels,
        token=options.token or _own_token(),
        # One token for several servers is the one of those that Jupyter's files do not know.
        insist=bool(options.token) and len(options.server or ()) == 1,
        verify=not options.insecure,
        answers=AnswerLimits(options.answer_timeout, int(options.max_answer_size)),
    )
    sites = Sites()
    connections = Connections(sites, settings, logging.getLogger(__package__))
    _name(options.server or (), sites, connections)
    local = None if options.server else _local(options, sites, connections)
    sweeping = asyncio.ensure_future(connections.sweep())
    reporting = asyncio.ensure_future(_report_troubles(sites if options.server else ()))
    try:
        _check_aliases(levels, sites)
        everywhere = Level.admin if level is None else level
        highest = max([everywhere, *levels.values()])
        served = ServerOptions(
            options.toolsets, highest, options.agent_name, ImageLimits(), options.structured
        )
        server = build_server(sites, served, Standalone(connections.connect))
        gc.freeze()
        gc.enable()
        if wire is None:
            await _serve_http(server, options, ending)
        else:
            await ending.or_end_of(asyncio.ensure_future(serve_stdio(server, wire)))
    finally:
        sweeping.cancel()
        reporting.cancel()
        try:
            # A server that is out of reach must not keep the command from ending.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(sites.close(), _CLOSE_LIMIT)
        finally:
            if local is not None:
                await local.close()


def _name(servers: Sequence[str], sites: Sites, connections: Connections) -> None:
    """Have the servers that the person names."""
    named = [_alias(server) for server in servers]
    for alias, url in named:
        address = connections.trust(url)
        if alias is None and len(named) == 1:
            sites.put(connections.site("", address))
        else:
            sites.add(connections.site(alias or connections.alias_for(url), address))


async def _report_troubles(named: Iterable[Site]) -> None:
    """Tell the person which of the servers that they named cannot be used now."""
    sites = list(named)
    for site, error in zip(sites, await asyncio.gather(*(s.trouble() for s in sites)), strict=True):
        if error is not None:
            alias = f"{site.alias}: " if site.alias else ""
            _say(f"{alias}{error.happened} {error.remedy}")


def _local(options: argparse.Namespace, sites: Sites, connections: Connections) -> LocalServers:
    """Have the servers that run, or one of our own."""
    from .standalone.embedded import remove_leftovers
    from .standalone.local import LocalServers

    remove_leftovers()
    local = LocalServers(options.root, sites, connections, _say, not options.no_embedded)
    local.join()
    return local


async def _serve_http(server: Any, options: argparse.Namespace, ending: Ending) -> None:
    import uvicorn

    from .transport.http import application, bind, new_token

    class Quiet(uvicorn.Server):
        # Its own would raise the signal again before we have left in good order.
        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield

    token = options.bearer_token or new_token()
    app = application(server, token, [options.host, *(options.allowed_host or ())])
    with bind(options.host, options.port) as listener:
        config = uvicorn.Config(
            app, log_level="warning", lifespan="on", timeout_graceful_shutdown=3
        )
        http = Quiet(config)
        serving = asyncio.ensure_future(http.serve([listener]))
        while not http.started and not serving.done():
            await asyncio.sleep(0.01)
        if http.started:
            _announce(options, listener.getsockname()[1], token)
        await ending.or_end_of(serving)
        http.should_exit = True
        await serving


def _announce(options: argparse.Namespace, port: int, token: str) -> None:
    from .transport.http import bracketed

    _say(f"MCP at http://{bracketed(options.host)}:{port}/mcp")
    if options.host in ("0.0.0.0", "::", "") and not options.allowed_host:
        _say("Only this machine can use it: see --allowed-host.")
    if not options.bearer_token:
        _say(f"Authorization: Bearer {token}")


# -- further commands ------------------------------------------------------------------------


def _config(arguments: Sequence[str]) -> int:
    from .standalone.clients import CLIENTS, Launch, configuration

    parser = argparse.ArgumentParser(
        prog=f"{_PROGRAM} config",
        description="Print what goes into an MCP client so that it starts this command, or with "
        "--http so that it uses the URL of a Jupyter server that has the extension.",
        epilog="Further options are passed through: the client starts the command with them.",
        allow_abbrev=False,
    )
    parser.add_argument("client", choices=CLIENTS)
    parser.add_argument(
        "--http",
        nargs="?",
        const="",
        metavar="URL",
        help="of the server, with ?agent=NAME or ?permission=LEVEL if wanted; default: the one "
        "that runs here",
    )
    parser.add_argument(
        "--with-token", action="store_true", help="with --http: write the token itself"
    )
    options, passed_on = parser.parse_known_args(arguments)
    if options.http is None:
        if options.with_token:
            parser.error("--with-token goes with --http")
        passed = _parser().parse_args(passed_on)
        _levels(passed.permission or ())
        toolset_names(passed.toolsets)
        launch = Launch.of([*_command(), *_with_absolute_root(passed_on)], {})
        print(configuration(options.client, launch), end="")
        return 0
    if passed_on:
        parser.error(
            "with --http, limits and names are part of the URL: ?permission=read&agent=Ada"
        )
    endpoint = asyncio.run(_endpoint(options.http, options.with_token))
    print(configuration(options.client, endpoint), end="")
    return 0


def _command() -> list[str]:
    """How a client can start this very command, whatever its PATH and directory are."""
    script = Path(sys.argv[0])
    if script.stem != _PROGRAM:
        script = Path(sys.executable).with_name(_PROGRAM)
    if not script.is_file():
        return [sys.executable, "-m", f"{__package__}.cli"]
    # Not resolved: a link to the command, as pipx makes one, outlives what it leads to.
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


async def _endpoint(url: str, with_token: bool) -> Endpoint:
    """The endpoint at a URL, or of the server that runs here."""
    from .standalone.connections import Connections, Settings
    from .standalone.discovery import running_servers
    from .standalone.endpoints import endpoint_of
    from .workspace.sites import Sites

    settings = Settings(token=_own_token())
    connections = Connections(Sites(), settings, logging.getLogger(__package__))
    if url:
        return await endpoint_of(url, connections.trust(url), with_token, _say)
    running = running_servers(Path.cwd())
    if not running:
        raise ValueError("no Jupyter server runs here; start one, or give its URL: --http URL")
    found = running[0].url
    return await endpoint_of(found, connections.address(found), with_token, _say)


def _extension_settings(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
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


def _doctor(arguments: Sequence[str]) -> int:
    _check_requirements()
    from .standalone.connections import Connections, Settings
    from .standalone.discovery import running_servers
    from .standalone.doctor import examine, report
    from .workspace.sites import Sites

    parser = argparse.ArgumentParser(prog=f"{_PROGRAM} doctor", allow_abbrev=False)
    parser.add_argument("url", nargs="?", help="default: all servers that run here")
    parser.add_argument("--token")
    parser.add_argument("--insecure", action="store_true")
    options = parser.parse_args(arguments)
    if options.token and not options.url:
        parser.error("--token needs the URL of the server that it is for")
    settings = Settings(
        token=options.token or _own_token(),
        insist=bool(options.token),
        verify=not options.insecure,
    )
    connections = Connections(Sites(), settings, logging.getLogger(__package__))
    if options.url:
        addresses = [connections.trust(options.url)]
    else:
        addresses = [connections.address(server.url) for server in running_servers(Path.cwd())]
    if not addresses:
        print("No Jupyter server runs here. Start one with `jupyter lab`, or give its URL.")
        return 1

    async def examine_all() -> list[list[Check]]:
        return await asyncio.gather(*map(examine, addresses))

    examined = asyncio.run(examine_all())
    for address, checks in zip(addresses, examined, strict=True):
        if len(addresses) > 1:
            print(address.base)
        print(report(checks))
    return 1 if any(check.state == "failed" for checks in examined for check in checks) else 0


def _servers(arguments: Sequence[str]) -> int:
    from .standalone.discovery import running_servers

    argparse.ArgumentParser(prog=f"{_PROGRAM} servers", allow_abbrev=False).parse_args(arguments)
    running = running_servers(Path.cwd())
    for server in running:
        print(f"{server.url}  {server.root}")
    if not running:
        print("No Jupyter server runs here.")
    return 0


# -- parts -----------------------------------------------------------------------------------


def _check_requirements() -> None:
    if (problem := unmet_requirements()) is not None:
        raise ValueError(problem)


def _say(line: str) -> None:
    """Standard output belongs to MCP."""
    print(line, file=sys.stderr, flush=True)


def _env(name: str) -> str | None:
    return os.environ.get(_ENVIRONMENT + name) or None


def _switch(name: str) -> bool:
    value = (_env(name) or "false").lower()
    if value not in ("true", "1", "false", "0"):
        raise ValueError(f"{_ENVIRONMENT}{name} is {value!r}; give true or false")
    return value in ("true", "1")


def _words(value: str | None) -> list[str]:
    return [] if value is None else [value]


def _own_token() -> str | None:
    return _env("TOKEN") or os.environ.get("JUPYTER_TOKEN")


def _alias(server: str) -> tuple[str | None, str]:
    """`alias=url`, or a URL alone; a URL may have an equals sign in its query."""
    alias, equals, url = server.partition("=")
    return (alias, url) if equals and "/" not in alias and ":" not in alias else (None, server)


def _levels(wanted: Sequence[str]) -> tuple[Level | None, dict[str, Level]]:
    """The level of all servers, if one was given, and those of single ones."""
    everywhere: Level | None = None
    single: dict[str, Level] = {}
    for wish in wanted:
        alias, equals, level = wish.rpartition("=")
        if level not in Level.__members__:
            choices = ", ".join(Level.__members__)
            raise ValueError(f"there is no permission level {level!r}; choose from {choices}.")
        if equals:
            single[alias] = Level[level]
        else:
            everywhere = Level[level]
    return everywhere, single


def _check_aliases(levels: Iterable[str], sites: Sites) -> None:
    """A level for a server that is not there would be taken for one that holds."""
    known = [site.alias for site in sites]
    for alias in levels:
        if alias not in known:
            there = ", ".join(filter(None, known)) or "none; --server ALIAS=URL gives one"
            raise ValueError(f"--permission: no server has the alias {alias!r}; there are: {there}")


if __name__ == "__main__":
    sys.exit(main())
