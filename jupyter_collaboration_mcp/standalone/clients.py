"""What a person pastes into an MCP client so that it starts the standalone command.

No token is in it: a client that can take one from its environment is told to, and otherwise the
first line says where the token goes.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import InvalidArgument

#: The name that the server has in the client.
_NAME = "jupyter"

_SECRET_NAME = re.compile(r"TOKEN|PASSWORD|SECRET|KEY", re.IGNORECASE)
_TOKEN_IN_URL = re.compile(r"(?<=[?&])token=[^&#\s]*&?")
_PASSWORD_IN_URL = re.compile(r"(?<=://)[^/?#\s]*@")

#: The variable from which the command takes what is not to stand among its arguments.
_VARIABLES = {
    "--token": "JUPYTER_TOKEN",
    "--bearer-token": "JUPYTER_COLLABORATION_MCP_BEARER_TOKEN",
}


@dataclass(frozen=True, slots=True)
class _Launch:
    """The command, with secrets known by name only."""

    command: str
    arguments: list[str]
    plain: dict[str, str]
    secrets: list[str]

    def entry(self, secret: Callable[[str], str]) -> dict[str, Any]:
        """As most clients want it; `secret` gives what stands for the value of a secret."""
        environment = {**self.plain, **{name: secret(name) for name in self.secrets}}
        entry: dict[str, Any] = {"command": self.command, "args": self.arguments}
        return {**entry, "env": environment} if environment else entry


def configuration(client: str, command: Sequence[str], environment: Mapping[str, str]) -> str:
    """The text for a client; its first line says where the rest goes.

    Args:
        client: One of `CLIENTS`.
        command: The command and its arguments; tokens in them are left out.
        environment: Variables for the command; of secrets only the name is used.

    Raises:
        InvalidArgument: There is no such client.
    """
    if client not in _WRITERS:
        raise InvalidArgument(
            f"No MCP client is known as {client!r}.", f"Choose one of {', '.join(CLIENTS)}."
        )
    return _WRITERS[client](_launch(command, environment)).rstrip("\n") + "\n"


def _claude_code(launch: _Launch) -> str:
    if launch.secrets:  # only in this file are variables filled in for sure
        entry = {"type": "stdio", **launch.entry(lambda name: f"${{{name}}}")}
        return _pasted("`.mcp.json` in your project", {"mcpServers": {_NAME: entry}}, launch)
    variables = [
        word for name, value in launch.plain.items() for word in ("--env", f"{name}={value}")
    ]
    # After --env, which takes all words up to the next option.
    added = ["claude", "mcp", "add", *variables, "--transport", "stdio", _NAME]
    return f"Run in a terminal:\n{shlex.join([*added, '--', launch.command, *launch.arguments])}"


def _claude_desktop(launch: _Launch) -> str:
    where = "`claude_desktop_config.json` (Settings > Developer > Edit Config)"
    return _pasted(where, {"mcpServers": {_NAME: launch.entry(_blank)}}, launch, by_hand=True)


def _cursor(launch: _Launch) -> str:
    entry = {"type": "stdio", **launch.entry(lambda name: f"${{env:{name}}}")}
    where = "`.cursor/mcp.json` in your project, or `~/.cursor/mcp.json`"
    return _pasted(where, {"mcpServers": {_NAME: entry}}, launch)


def _vscode(launch: _Launch) -> str:
    def identifier(name: str) -> str:
        return name.lower().replace("_", "-")

    entry = {"type": "stdio", **launch.entry(lambda name: f"${{input:{identifier(name)}}}")}
    whole: dict[str, Any] = {"servers": {_NAME: entry}}
    if launch.secrets:
        inputs = [
            {
                "type": "promptString",
                "id": identifier(name),
                "description": name.replace("_", " ").capitalize(),
                "password": True,
            }
            for name in launch.secrets
        ]
        whole = {"inputs": inputs, **whole}
    asks = "; VS Code asks for the token once" if launch.secrets else ""
    return f"Into `.vscode/mcp.json` in your project{asks}:\n{_dumped(whole)}"


def _windsurf(launch: _Launch) -> str:
    entry = launch.entry(lambda name: f"${{env:{name}}}")
    where = "`~/.codeium/windsurf/mcp_config.json`"
    return _pasted(where, {"mcpServers": {_NAME: entry}}, launch)


def _codex(launch: _Launch) -> str:
    lines = [
        f"[mcp_servers.{_NAME}]",
        f"command = {_toml(launch.command)}",
        f"args = {_toml(launch.arguments)}",
    ]
    if launch.secrets:
        lines.append(f"env_vars = {_toml(launch.secrets)}")
    if launch.plain:
        lines += ["", f"[mcp_servers.{_NAME}.env]"]
        lines += [f"{_toml(name)} = {_toml(value)}" for name, value in launch.plain.items()]
    text = "\n".join(lines)
    return f"Into `~/.codex/config.toml`{_from_environment(launch)}:\n{text}"


def _gemini_cli(launch: _Launch) -> str:
    entry = launch.entry(lambda name: f"${name}")
    where = "`.gemini/settings.json` in your project, or `~/.gemini/settings.json`"
    return _pasted(where, {"mcpServers": {_NAME: entry}}, launch)


def _zed(launch: _Launch) -> str:
    where = "Zed's `settings.json` (zed: open settings file)"
    return _pasted(where, {"context_servers": {_NAME: launch.entry(_blank)}}, launch, by_hand=True)


_WRITERS: dict[str, Callable[[_Launch], str]] = {
    "claude-code": _claude_code,
    "claude-desktop": _claude_desktop,
    "cursor": _cursor,
    "vscode": _vscode,
    "windsurf": _windsurf,
    "codex": _codex,
    "gemini-cli": _gemini_cli,
    "zed": _zed,
}

CLIENTS: tuple[str, ...] = tuple(_WRITERS)


def _launch(command: Sequence[str], environment: Mapping[str, str]) -> _Launch:
    first, *given = command
    arguments, needed = _without_secrets(given)
    named = [name for name in environment if _SECRET_NAME.search(name)]
    secrets = list(dict.fromkeys([*named, *needed]))
    plain = {name: value for name, value in environment.items() if name not in secrets}
    return _Launch(first, arguments, plain, secrets)


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
        bare = _TOKEN_IN_URL.sub("", word)
        bare = _PASSWORD_IN_URL.sub("", bare if bare == word else bare.rstrip("?&"))
        kept.append(bare)
        if bare != word:
            needed.append("JUPYTER_TOKEN")
    return kept, needed


def _pasted(where: str, whole: Mapping[str, Any], launch: _Launch, by_hand: bool = False) -> str:
    secrets = launch.secrets
    blanks = f", and write the token in place of {', '.join(map(_blank, secrets))}"
    told = (blanks if secrets else "") if by_hand else _from_environment(launch)
    return f"Into {where}{told}:\n{_dumped(whole)}"


def _from_environment(launch: _Launch) -> str:
    names = ", ".join(launch.secrets)
    return f"; start the client with {names} in its environment" if names else ""


def _blank(name: str) -> str:
    return f"<{name}>"


def _dumped(whole: Mapping[str, Any]) -> str:
    return json.dumps(whole, indent=2, ensure_ascii=False)


def _toml(value: str | list[str]) -> str:
    """A string or a list of them; written as JSON they are TOML, too."""
    return json.dumps(value, ensure_ascii=False)
