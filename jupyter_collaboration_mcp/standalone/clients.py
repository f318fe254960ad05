"""What a person pastes into an MCP client: to start the standalone command, or to use the endpoint
of a Jupyter server that has the extension.

It never contains Jupyter's own token: an endpoint gets one that the server has made for this agent.
Where there is none, a client that can read one from its environment is configured to; otherwise the
first line says where the token goes. docs/clients.md says which documentation each format was
checked against, and when.
"""

from __future__ import annotations

import contextlib
import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import InvalidArgument

#: The name that the server has in the client.
_NAME = "jupyter"

_TOKEN = "JUPYTER_TOKEN"

#: That of an agent, which opens nothing but its endpoint.
AGENT_TOKEN = "JUPYTER_MCP_TOKEN"

_SECRET_NAME = re.compile(r"TOKEN|PASSWORD|SECRET|KEY", re.IGNORECASE)
_TOKEN_IN_URL = re.compile(r"(?<=[?&])token=[^&#\s]*&?")
_PASSWORD_IN_URL = re.compile(r"(?<=://)[^/?#\s]*@")

#: The environment variables that replace secret options.
_VARIABLES = {
    "--token": _TOKEN,
    "--bearer-token": "JUPYTER_COLLABORATION_MCP_BEARER_TOKEN",
}


@dataclass(frozen=True, slots=True)
class Launch:
    """The command that a client starts; secrets are known by name only."""

    command: str
    arguments: Sequence[str]
    plain: Mapping[str, str]
    secrets: Sequence[str]

    @classmethod
    def of(cls, command: Sequence[str], environment: Mapping[str, str]) -> Launch:
        """What starts the command.

        Args:
            command: The command and its arguments; tokens in them are left out.
            environment: Variables for the command; of secrets only the name is used.
        """
        first, *given = command
        arguments, needed = _without_secrets(given)
        named = [name for name in environment if _SECRET_NAME.search(name)]
        secrets = list(dict.fromkeys([*named, *needed]))
        plain = {name: value for name, value in environment.items() if name not in secrets}
        return cls(first, arguments, plain, secrets)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The endpoint of a Jupyter server that a client uses itself."""

    url: str
    token: str | None = None
    """One of the agent's own; None if the client gets it from elsewhere."""

    @property
    def secrets(self) -> list[str]:
        """The variables that replace what is not shown."""
        return [] if self.token else [AGENT_TOKEN]

    def headers(self, secret: Callable[[str], str]) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token or secret(AGENT_TOKEN)}"}


Server = Launch | Endpoint


def configuration(client: str, server: Server) -> str:
    """The text for a client; its first line says where the rest goes.

    Raises:
        InvalidArgument: There is no such client, or it cannot use endpoints.
    """
    if client not in _WRITERS:
        raise InvalidArgument(
            f"Unknown MCP client {client!r}.", f"Choose one of {', '.join(CLIENTS)}."
        )
    return _WRITERS[client](server).rstrip("\n") + "\n"


@dataclass(frozen=True, slots=True)
class _JsonFile:
    """A client that is configured by JSON with a table of servers."""

    where: str
    key: str
    secret: Callable[[str], str]
    """What stands for the value of a secret."""
    from_environment: bool = True
    """Whether the client fills it in from its environment; otherwise the person does."""
    launch: Mapping[str, str] | None = None
    """Further fields of an entry with a command; below, of one with a URL."""
    endpoint: Mapping[str, str] | None = None
    url: str = "url"
    """The key of the URL."""

    def __call__(self, server: Server) -> str:
        whole = {self.key: {_NAME: self.entry(server)}}
        return f"Into {self.where}{self._advice(server.secrets)}:\n{_json(whole)}"

    def entry(self, server: Server) -> dict[str, Any]:
        if isinstance(server, Endpoint):
            return {
                **(self.endpoint or {}),
                self.url: server.url,
                "headers": server.headers(self.secret),
            }
        environment = {**server.plain, **{name: self.secret(name) for name in server.secrets}}
        entry = {
            **(self.launch or {}),
            "command": server.command,
            "args": list(server.arguments),
        }
        return {**entry, "env": environment} if environment else entry

    def _advice(self, secrets: Sequence[str]) -> str:
        if self.from_environment or not secrets:
            return _from_environment(secrets)
        return f", and write the token in place of {', '.join(map(self.secret, secrets))}"


def _blank(name: str) -> str:
    return f"<{name}>"


_MCP_JSON = _JsonFile(
    "`.mcp.json` in your project",
    "mcpServers",
    lambda name: f"${{{name}}}",
    launch={"type": "stdio"},
    endpoint={"type": "http"},
)


def _claude_code(server: Server) -> str:
    if server.secrets:  # only in this file are variables filled in for sure
        return _MCP_JSON(server)
    if isinstance(server, Endpoint):
        header = [f"{name}: {value}" for name, value in server.headers(_blank).items()]
        added = ["--transport", "http", _NAME, server.url, "--header", *header]
        return f"Run in a terminal:\n{shlex.join(['claude', 'mcp', 'add', *added])}"
    variables = [
        word for name, value in server.plain.items() for word in ("--env", f"{name}={value}")
    ]
    # After --env, which takes all words up to the next option.
    added = ["claude", "mcp", "add", *variables, "--transport", "stdio", _NAME]
    return f"Run in a terminal:\n{shlex.join([*added, '--', server.command, *server.arguments])}"


_DESKTOP_JSON = _JsonFile(
    "`claude_desktop_config.json` (Settings > Developer > Edit Config)",
    "mcpServers",
    _blank,
    from_environment=False,
)


def require_endpoints(client: str) -> None:
    """Refuse a client that only starts commands.

    Raises:
        InvalidArgument: It is one.
    """
    if client == "claude-desktop":
        raise InvalidArgument(
            "Claude Desktop takes no URLs in its configuration file, and its connectors, which "
            "are set up in the app, send no Jupyter token.",
            "Leave out --http: Claude Desktop then starts the command, which finds the server.",
        )


def _claude_desktop(server: Server) -> str:
    if isinstance(server, Endpoint):
        require_endpoints("claude-desktop")
    return _DESKTOP_JSON(server)


def _input_id(name: str) -> str:
    return name.lower().replace("_", "-")


_VSCODE_JSON = _JsonFile(
    "",
    "servers",
    lambda name: f"${{input:{_input_id(name)}}}",
    launch={"type": "stdio"},
    endpoint={"type": "http"},
)


def _vscode(server: Server) -> str:
    whole: dict[str, Any] = {"servers": {_NAME: _VSCODE_JSON.entry(server)}}
    if server.secrets:
        inputs = [
            {
                "type": "promptString",
                "id": _input_id(name),
                "description": name.replace("_", " ").capitalize(),
                "password": True,
            }
            for name in server.secrets
        ]
        whole = {"inputs": inputs, **whole}
    asks = "; VS Code asks for the token once" if server.secrets else ""
    return f"Into `.vscode/mcp.json` in your project{asks}:\n{_json(whole)}"


def _codex(server: Server) -> str:
    lines = [f"[mcp_servers.{_NAME}]"]
    if isinstance(server, Endpoint):
        lines.append(f"url = {_toml(server.url)}")
        if server.token:
            pairs = ", ".join(f"{k} = {_toml(v)}" for k, v in server.headers(_blank).items())
            lines.append(f"http_headers = {{ {pairs} }}")
        else:
            lines.append(f"bearer_token_env_var = {_toml(AGENT_TOKEN)}")
    else:
        lines += [f"command = {_toml(server.command)}", f"args = {_toml(list(server.arguments))}"]
        if server.secrets:
            lines.append(f"env_vars = {_toml(list(server.secrets))}")
        if server.plain:
            lines += ["", f"[mcp_servers.{_NAME}.env]"]
            lines += [f"{_toml(name)} = {_toml(value)}" for name, value in server.plain.items()]
    text = "\n".join(lines)
    return f"Into `~/.codex/config.toml`{_from_environment(server.secrets)}:\n{text}"


_WRITERS: dict[str, Callable[[Server], str]] = {
    "claude-code": _claude_code,
    "claude-desktop": _claude_desktop,
    "cursor": _JsonFile(
        "`.cursor/mcp.json` in your project, or `~/.cursor/mcp.json`",
        "mcpServers",
        lambda name: f"${{env:{name}}}",
        launch={"type": "stdio"},
    ),
    "vscode": _vscode,
    "windsurf": _JsonFile(
        "`~/.codeium/windsurf/mcp_config.json`",
        "mcpServers",
        lambda name: f"${{env:{name}}}",
        url="serverUrl",
    ),
    "codex": _codex,
    "gemini-cli": _JsonFile(
        "`.gemini/settings.json` in your project, or `~/.gemini/settings.json`",
        "mcpServers",
        lambda name: f"${name}",
        url="httpUrl",
    ),
    "zed": _JsonFile(
        "Zed's `settings.json` (zed: open settings file)",
        "context_servers",
        _blank,
        from_environment=False,
    ),
}

#: Names that are not written as other words are.
_SPELT = {"vscode": "VS Code", "gemini-cli": "Gemini CLI"}

CLIENTS: tuple[str, ...] = tuple(_WRITERS)


def endpoint_clients() -> dict[str, str]:
    """The clients that can use the endpoint of a server, by id, with the names that people know."""
    found = {}
    for client in CLIENTS:
        with contextlib.suppress(InvalidArgument):
            configuration(client, Endpoint("http://localhost/mcp", "token"))
            found[client] = _SPELT.get(client, client.replace("-", " ").title())
    return found


def _without_secrets(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The arguments without tokens and passwords, and the variables that stand in for them."""
    kept: list[str] = []
    needed: list[str] = []
    words = iter(arguments)
    for word in words:
        option, equals, _ = word.partition("=")
        if option in _VARIABLES:
            needed.append(_VARIABLES[option])
            if not equals:
                next(words, None)
            continue
        bare = without_secrets(word)
        kept.append(bare)
        if bare != word:
            needed.append(_TOKEN)
    return kept, needed


def without_secrets(url: str) -> str:
    """A URL without a token and a password."""
    bare = _TOKEN_IN_URL.sub("", url)
    return _PASSWORD_IN_URL.sub("", bare if bare == url else bare.rstrip("?&"))


def _from_environment(secrets: Sequence[str]) -> str:
    names = ", ".join(secrets)
    return f"; start the client with {names} in its environment" if names else ""


def _json(whole: Mapping[str, Any]) -> str:
    return json.dumps(whole, indent=2, ensure_ascii=False)


def _toml(value: str | list[str]) -> str:
    """A string or a list of them; written as JSON they are TOML, too."""
    return json.dumps(value, ensure_ascii=False)
