"""A request for everything that the server offers, made from its registries: what is added there is
requested by the tests that go through all of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from docs.generate import _parts as parts
from docs.generate import _tools as every_tool
from jupyter_collaboration_mcp.prompts import PROMPTS
from jupyter_collaboration_mcp.prompts.kinds import Prompt
from jupyter_collaboration_mcp.resources import RESOURCES
from jupyter_collaboration_mcp.resources.kinds import ResourceKind
from jupyter_collaboration_mcp.tools import TOOLSETS
from jupyter_collaboration_mcp.tools.registration import make_all
from jupyter_collaboration_mcp.tools.registry import RegisteredTool
from jupyter_collaboration_mcp.workspace.permissions import Level

TOOLS: Mapping[str, RegisteredTool] = {tool.name: tool for tool in every_tool()}
RESOURCE_KINDS: Mapping[str, ResourceKind] = dict(make_all(RESOURCES, parts()))
PROMPT_KINDS: Mapping[str, Prompt] = dict(make_all(PROMPTS, parts()))

#: Toolsets that only the command has.
_OF_COMMAND = {registered.name for registered in TOOLSETS if registered.standalone}

_VERSION = "2026-07-28"


@dataclass(frozen=True)
class Scene:
    """What requests are about. All of it exists."""

    notebook: str
    """A notebook with the code cell `cell-00000`."""
    text: str
    """A text file with three lines."""
    new: str
    """How paths begin at which there is nothing."""
    name: str
    """What the agent calls the notebook in the dialect `connect`."""
    session: str
    """That of the server."""
    file_id: str
    run: str
    """A run of that cell, which has put something out."""
    fork: str
    version: int
    sessions: tuple[str, str]
    """Sessions of an agent at the notebook: one to join, and one to leave."""
    user: str


_Value = Callable[[Scene], Any]

#: What each argument that is required is about; of some tools something else.
_VALUES: Mapping[str, _Value] = {
    "path": lambda scene: scene.notebook,
    "document_path": lambda scene: scene.text,
    "notebook_path": lambda scene: scene.notebook,
    "notebook_name": lambda scene: scene.name,
    "updates": lambda _: [{"cell_id": "cell-00000", "content": "changed = 1"}],
    "cells": lambda _: [{"content": "inserted = 1"}],
    "ranges": lambda _: [{"start": 0}],
    "modifications": lambda _: [{"range": {"start": 0}, "content": "changed = 2"}],
    "operations": lambda _: [{"content": "more"}],
    "cell_ids": lambda _: ["cell-00000"],
    "cell_id": lambda _: "cell-00000",
    "cell_index": lambda _: 0,
    "cell_type": lambda _: "code",
    "cell_content": lambda _: "said = 1",
    "position": lambda _: 0,
    "title": lambda _: "A fork",
    "fork": lambda scene: scene.fork,
    "from_version": lambda scene: scene.version,
    "version": lambda scene: scene.version,
    "name": lambda _: "A version",
    "newPath": lambda scene: f"{scene.new}-renamed",
    "copyPath": lambda scene: f"{scene.new}-copied",
    "kernel_name": lambda _: "python3",
    "code": lambda _: "6 * 7",
    "run_id": lambda scene: scene.run,
    "text": lambda _: "an answer",
    "user_id": lambda scene: scene.user,
    "activity_type": lambda _: "test",
    "description": lambda _: "Looking around",
    "session_id": lambda scene: scene.sessions[0],
    "url": lambda _: "http://127.0.0.1:9/",
    "alias": lambda _: "nowhere",
}

_TEXT: Mapping[str, _Value] = {"path": lambda scene: scene.text}

_OF_TOOLS: Mapping[str, Mapping[str, _Value]] = {
    "get_document": _TEXT,
    "create_document_session": _TEXT,
    "batch_update_document": _TEXT,
    "batch_insert_text": {**_TEXT, "operations": lambda _: [{"text": "more", "position": 0}]},
    "batch_delete_text": {**_TEXT, "operations": lambda _: [{"position": 0, "length": 1}]},
    "create_document": {"path": lambda scene: f"{scene.new}.ipynb"},
    "connect_notebook": {"mode": lambda _: "reconnect"},
    "move_notebook_cells": {"to_index": lambda _: 0},
    "batch_delete_notebook_cells": {"cell_ids": lambda _: ["cell-00001"]},
    "update_cursor_position": {"position": lambda _: {"line": 0, "column": 0}},
    "leave_session": {"session_id": lambda scene: scene.sessions[1]},
    "delete_nb_cells": {"ranges": lambda _: [{"start": 1}]},
    "delete_cell": {"cell_index": lambda _: 1},
}

#: What asks for more than the level of a tool, where that is not `exec`; and for which level.
_MORE: Mapping[str, tuple[Mapping[str, _Value], Level]] = {
    "export_document": (
        {"export_path": lambda scene: f"{scene.new}-exported.md"},
        Level.write,
    ),
    "connect_notebook": (
        {
            "notebook_name": lambda _: "created",
            "notebook_path": lambda scene: f"{scene.new}-created.ipynb",
            "mode": lambda _: "create",
        },
        Level.write,
    ),
}


def tools(standalone: bool) -> list[RegisteredTool]:
    """The tools that one of the two ways to a server offers."""
    return [each for each in TOOLS.values() if standalone or each.toolset not in _OF_COMMAND]


def arguments_of(tool: RegisteredTool, scene: Scene) -> dict[str, Any]:
    """Arguments of a call, those that are required, with which the call asks for as little as the
    tool can."""
    values = _OF_TOOLS.get(tool.name, {})
    names = list(dict.fromkeys([*tool.schema.get("required", ()), *values]))
    if missing := [name for name in names if name not in values and name not in _VALUES]:
        raise AssertionError(f"{tool.name}: say in _VALUES what {', '.join(missing)} is about")
    given = {name: values.get(name, _VALUES.get(name))(scene) for name in names}  # type: ignore[misc]
    return {**given, "exec": False} if "exec" in tool.schema["properties"] else given


def more_of(tool: RegisteredTool, scene: Scene) -> tuple[dict[str, Any], Level] | None:
    """The same for a call that asks for more than the level of the tool, and the level that it
    needs; None if no call does."""
    declared = tool.declaration
    if declared.up_to is declared.level:
        return None
    if "exec" in tool.schema["properties"]:
        return {**arguments_of(tool, scene), "exec": True}, Level.execute
    if tool.name not in _MORE:
        raise AssertionError(f"{tool.name}: say in _MORE what asks for {declared.up_to.name}")
    values, level = _MORE[tool.name]
    more = {name: value(scene) for name, value in values.items()}
    return {**arguments_of(tool, scene), **more}, level


def uri_of(kind: ResourceKind, scene: Scene) -> str:
    """The URI of a resource of some kind."""
    in_templates = kind.template.startswith("notebook://templates/")
    values = {
        "session": scene.session,
        "notebook": scene.file_id,
        "format": "json",
        "cell": "cell-00000",
        "name": "eda" if in_templates else "cell-00000.py",
        "run": scene.run,
        "n": "0",
    }
    plain = re.sub(r"\{\?[^}]*\}", "", kind.template)
    return re.sub(r"\{(\w+)\}", lambda found: quote(values[found[1]], safe=""), plain)


def prompt_arguments(prompt: Prompt, scene: Scene) -> dict[str, str]:
    """Arguments of a prompt: all that name something."""
    values = {
        "path": scene.notebook,
        "cell": "cell-00000",
        "since": str(scene.version),
        "file": scene.text,
    }
    required = [each.name for each in prompt.arguments if each.required]
    if missing := [name for name in required if name not in values]:
        raise AssertionError(f"say what {', '.join(missing)} is about")
    return {each.name: values[each.name] for each in prompt.arguments if each.name in values}


def completions(scene: Scene) -> Iterator[dict[str, Any]]:
    """The parameters of requests that complete each variable and argument."""
    for kind in RESOURCE_KINDS.values():
        for variable in re.findall(r"\{\??(\w+)", kind.template):
            given = {"session": scene.session, "notebook": scene.file_id, "cell": "cell-00000"}
            given["run"] = scene.run
            given.pop(variable, None)
            yield _completion({"type": "ref/resource", "uri": kind.template}, variable, given)
    for name, prompt in PROMPT_KINDS.items():
        given = prompt_arguments(prompt, scene)
        for argument in prompt.arguments:
            others = {key: value for key, value in given.items() if key != argument.name}
            yield _completion({"type": "ref/prompt", "name": name}, argument.name, others)


def _completion(ref: dict[str, str], name: str, given: dict[str, str]) -> dict[str, Any]:
    return {
        "ref": ref,
        "argument": {"name": name, "value": ""},
        "context": {"arguments": given},
    }


@dataclass(frozen=True)
class Request:
    """A request of the protocol."""

    name: str
    """What it is for, in a test that fails."""
    method: str
    params: dict[str, Any]

    def body(self, sessions: bool = False) -> dict[str, Any]:
        """As a client sends it.

        Args:
            sessions: In the older era, where a header names the session.
        """
        meta = {
            "io.modelcontextprotocol/protocolVersion": _VERSION,
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        params = self.params if sessions else {**self.params, "_meta": meta}
        return {"jsonrpc": "2.0", "id": 1, "method": self.method, "params": params}

    @property
    def headers(self) -> dict[str, str]:
        """What the newer era wants beside the body."""
        named = self.params.get("name") or self.params.get("uri")
        headers = {"MCP-Protocol-Version": _VERSION, "Mcp-Method": self.method}
        return {**headers, "Mcp-Name": named} if named else headers


def requests(scene: Scene, standalone: bool) -> Iterator[Request]:
    """A request for each tool, resource, prompt, subscription, list and completion."""
    for tool in tools(standalone):
        params: dict[str, Any] = {"name": tool.name, "arguments": arguments_of(tool, scene)}
        yield Request(tool.name, "tools/call", params)
    for name, kind in RESOURCE_KINDS.items():
        uri = uri_of(kind, scene)
        yield Request(f"read {name}", "resources/read", {"uri": uri})
        yield Request(f"subscribe to {name}", "resources/subscribe", {"uri": uri})
        wanted = {"resourceSubscriptions": [uri]}
        yield Request(f"listen to {name}", "subscriptions/listen", {"notifications": wanted})
    for name, prompt in PROMPT_KINDS.items():
        arguments = prompt_arguments(prompt, scene)
        yield Request(name, "prompts/get", {"name": name, "arguments": arguments})
    for method in ("tools/list", "resources/list", "prompts/list", "resources/templates/list"):
        yield Request(method, method, {})
    for params in completions(scene):
        yield Request(f"complete {params['ref']}", "completion/complete", params)
