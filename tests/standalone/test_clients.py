"""What is pasted into clients has their format, the whole command or URL, and no token."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from typing import Any

import pytest

from jupyter_collaboration_mcp.errors import InvalidArgument
from jupyter_collaboration_mcp.standalone.clients import (
    CLIENTS,
    Endpoint,
    Launch,
    configuration,
)
from tests.harness.jupyter import REPOSITORY

COMMAND = ["/opt/my tools/jupyter-collaboration-mcp", "--server", "http://host:8888/", 'a"b\\c é']
PLAIN = {"JUPYTER_COLLABORATION_MCP_PERMISSION": "read", "NOTE": 'a "b" é'}
SECRET = {"JUPYTER_TOKEN": "abc123secret"}

JSON_KEYS = {
    "claude-code": "mcpServers",
    "claude-desktop": "mcpServers",
    "cursor": "mcpServers",
    "vscode": "servers",
    "windsurf": "mcpServers",
    "gemini-cli": "mcpServers",
    "zed": "context_servers",
}

PLACEHOLDERS = {
    "claude-code": "${JUPYTER_TOKEN}",
    "claude-desktop": "<JUPYTER_TOKEN>",
    "cursor": "${env:JUPYTER_TOKEN}",
    "vscode": "${input:jupyter-token}",
    "windsurf": "${env:JUPYTER_TOKEN}",
    "gemini-cli": "$JUPYTER_TOKEN",
    "zed": "<JUPYTER_TOKEN>",
}


#: How an entry with a URL names it, and what else it has to have.
ENDPOINTS = {
    "claude-code": ("url", {"type": "http"}),
    "cursor": ("url", {}),
    "vscode": ("url", {"type": "http"}),
    "windsurf": ("serverUrl", {}),
    "gemini-cli": ("httpUrl", {}),
    "zed": ("url", {}),
}
URL = "http://127.0.0.1:8888/mcp?agent=Ada&permission=read"


def split(text: str) -> tuple[str, str]:
    where, rest = text.split("\n", 1)
    assert where.endswith(":")
    assert text.endswith("\n")
    return where, rest


def entry(client: str, text: str) -> Any:
    _, rest = split(text)
    return json.loads(rest)[JSON_KEYS[client]]["jupyter"]


def test_every_client_is_tested() -> None:
    assert set(CLIENTS) == {*JSON_KEYS, "codex"}


@pytest.mark.parametrize("client", JSON_KEYS)
def test_the_json_has_the_command_and_a_placeholder_for_the_token(client: str) -> None:
    text = configuration(client, Launch.of(COMMAND, {**PLAIN, **SECRET}))
    found = entry(client, text)
    assert [found["command"], *found["args"]] == COMMAND
    assert found["env"] == {**PLAIN, "JUPYTER_TOKEN": PLACEHOLDERS[client]}
    assert found.get("type", "stdio") == "stdio"


@pytest.mark.parametrize("client", sorted(set(JSON_KEYS) - {"claude-code"}))
def test_an_empty_environment_is_left_out(client: str) -> None:
    found = entry(client, configuration(client, Launch.of(["jupyter-collaboration-mcp"], {})))
    assert found["command"] == "jupyter-collaboration-mcp"
    assert found["args"] == []
    assert "env" not in found


def test_claude_code_gets_a_command_if_there_is_no_token() -> None:
    where, rest = split(configuration("claude-code", Launch.of(COMMAND, PLAIN)))
    assert "terminal" in where
    words = shlex.split(rest)
    before, after = words[: words.index("--")], words[words.index("--") + 1 :]
    assert after == COMMAND
    variables = [word for name, value in PLAIN.items() for word in ("--env", f"{name}={value}")]
    assert before == ["claude", "mcp", "add", *variables, "--transport", "stdio", "jupyter"]


def test_codex_gets_toml_and_passes_the_token_on() -> None:
    where, rest = split(configuration("codex", Launch.of(COMMAND, {**PLAIN, **SECRET})))
    assert "~/.codex/config.toml" in where
    found = tomllib.loads(rest)["mcp_servers"]["jupyter"]
    assert [found["command"], *found["args"]] == COMMAND
    assert found["env"] == PLAIN
    assert found["env_vars"] == ["JUPYTER_TOKEN"]
    plain = configuration("codex", Launch.of(COMMAND, {}))
    found = tomllib.loads(split(plain)[1])["mcp_servers"]["jupyter"]
    assert set(found) == {"command", "args"}


def test_vscode_asks_for_the_token_and_hides_it() -> None:
    _, rest = split(configuration("vscode", Launch.of(COMMAND, SECRET)))
    (asked,) = json.loads(rest)["inputs"]
    assert asked["id"] == "jupyter-token"
    assert asked["password"] is True


@pytest.mark.parametrize("client", CLIENTS)
def test_no_token_is_shown_whatever_its_source(client: str) -> None:
    server = "http://host:8888/lab?a=1&token=abc123secret&b=2"
    command = ["mcp", "--token", "abc123secret", "--token=abc123secret", "--server", server]
    for environment in ({}, SECRET, {"MY_API_KEY": "abc123secret"}):
        text = configuration(client, Launch.of(command, environment))
        assert "abc123secret" not in text
        assert "JUPYTER_TOKEN" in text or "jupyter-token" in text
        assert "http://host:8888/lab?a=1&b=2" in text
        assert "--token" not in text
    only = configuration(client, Launch.of(["mcp", "home=http://host/?token=abc123secret"], {}))
    assert "home=http://host/" in only
    assert "abc123secret" not in only
    assert "?" not in only


@pytest.mark.parametrize("client", CLIENTS)
def test_no_other_secret_is_shown_either(client: str) -> None:
    server = "a=https://ada:abc123secret@host:8888/lab"
    command = ["mcp", "--bearer-token", "abc123secret", "--bearer-token=abc123secret", server]
    text = configuration(client, Launch.of(command, {}))
    assert "abc123secret" not in text
    assert "a=https://host:8888/lab" in text
    for variable in ("JUPYTER_TOKEN", "JUPYTER_COLLABORATION_MCP_BEARER_TOKEN"):
        assert variable in text


@pytest.mark.parametrize("client", sorted(set(CLIENTS) - {"vscode"}))
def test_the_first_line_says_where_the_token_goes(client: str) -> None:
    where, _ = split(configuration(client, Launch.of(COMMAND, SECRET)))
    assert "JUPYTER_TOKEN" in where


def test_an_unknown_client_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidArgument, match="claude-code, claude-desktop"):
        configuration("emacs", Launch.of(COMMAND, {}))


@pytest.mark.parametrize("client", ENDPOINTS)
def test_each_client_gets_an_endpoint_in_its_format_with_a_token_reference(
    client: str,
) -> None:
    text = configuration(client, Endpoint(URL))
    key, more = ENDPOINTS[client]
    own = PLACEHOLDERS[client].replace("JUPYTER", "JUPYTER_MCP").replace("jupyter", "jupyter-mcp")
    assert entry(client, text) == {**more, key: URL, "headers": {"Authorization": f"Bearer {own}"}}
    assert "JUPYTER_TOKEN" not in text  # which opens all of Jupyter
    if client != "vscode":  # which asks
        assert "JUPYTER_MCP_TOKEN" in split(text)[0]


@pytest.mark.parametrize("client", sorted(set(ENDPOINTS) - {"claude-code"}))
def test_a_requested_token_is_in_the_header_of_an_endpoint(client: str) -> None:
    text = configuration(client, Endpoint(URL, "abc123secret"))
    assert entry(client, text)["headers"] == {"Authorization": "Bearer abc123secret"}
    assert "TOKEN" not in text
    assert "inputs" not in text


def test_claude_code_gets_a_command_for_an_endpoint_with_a_token() -> None:
    where, rest = split(configuration("claude-code", Endpoint(URL, "abc123secret")))
    assert "terminal" in where
    header = ["--header", "Authorization: Bearer abc123secret"]
    assert shlex.split(rest) == [
        *("claude", "mcp", "add", "--transport", "http", "jupyter", URL),
        *header,
    ]


def test_codex_gets_the_endpoint_with_a_token_variable_or_a_header() -> None:
    text = configuration("codex", Endpoint(URL))
    assert tomllib.loads(split(text)[1])["mcp_servers"]["jupyter"] == {
        "url": URL,
        "bearer_token_env_var": "JUPYTER_MCP_TOKEN",
    }
    text = configuration("codex", Endpoint(URL, 'a"b'))
    assert tomllib.loads(split(text)[1])["mcp_servers"]["jupyter"] == {
        "url": URL,
        "http_headers": {"Authorization": 'Bearer a"b'},
    }


def test_claude_desktop_is_directed_to_start_the_command_instead() -> None:
    with pytest.raises(InvalidArgument, match="takes no URLs") as refused:
        configuration("claude-desktop", Endpoint(URL))
    assert "Leave out --http" in refused.value.remedy


def test_the_clients_page_says_how_and_when_each_format_was_checked() -> None:
    page = (REPOSITORY / "docs" / "clients.md").read_text()
    rows = dict(re.findall(r"^\| `([\w-]+)` \| (.+) \|$", page, re.MULTILINE))
    assert list(rows) == list(CLIENTS)
    for row in rows.values():
        assert re.search(r"\[[^]]+\]\(https://[^)]+\)", row)
        assert re.search(r"\| \d{4}-\d{2}-\d{2}$", row)
