"""How a method becomes a tool: its level, its toolsets, its true annotations, a lean schema."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import NoneType
from typing import Any, TypeVar, get_args

from mcp.server.mcpserver.utilities.func_metadata import FuncMetadata, func_metadata
from mcp_types import ToolAnnotations

from ..documents.images import Picture
from ..errors import CollaborationError, InvalidArgument
from ..workspace.agent import Agent
from ..workspace.permissions import Level

#: All toolsets, in the order in which their tools are listed. `core` cuts across them.
TOOLSETS = ("notebook", "document", "files", "kernel", "server")

_MARK = "_tool_declaration"

_Method = TypeVar("_Method", bound=Callable[..., Awaitable["Answer"]])


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a tool: who calls, and how to ask whether it may."""

    agent: Agent
    authorize: Callable[[Level, str | None], Awaitable[None]]
    """Refuses what the connection's level or Jupyter's authorizer does not allow on a path."""
    by_path: bool
    """Whether an authorizer may decide otherwise for another path."""
    rechecks: list[Callable[[], Awaitable[None]]]
    """Called before the answer is given: what it is from may have changed since it was opened."""
    report: Callable[[float, str], Awaitable[None]]
    """Tells a client that wants to know how far it is; also keeps it from giving up."""

    @asynccontextmanager
    async def rechecked(self) -> AsyncIterator[None]:
        """Give no answer, nor an error that may quote something, that may not be given any more."""
        try:
            yield
        finally:
            for recheck in self.rechecks:
                await recheck()


@dataclass(frozen=True, slots=True)
class Link:
    """A resource that has more than the answer."""

    uri: str
    name: str
    mime: str = "text/plain"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a tool says: a text for a model, and the same facts for a program."""

    text: str
    facts: dict[str, Any]
    pictures: Sequence[Picture] = ()
    links: Sequence[Link] = ()
    error: CollaborationError | None = None
    """What went wrong, where there is more to say than an error can."""


@dataclass(frozen=True, slots=True)
class Declaration:
    """What a tool says of itself."""

    title: str
    level: Level
    core: bool
    annotations: ToolAnnotations


@dataclass(frozen=True, slots=True)
class RegisteredTool:
    """A tool, ready to be served."""

    name: str
    toolset: str
    description: str
    declaration: Declaration
    function: Callable[..., Awaitable[Answer]]
    arguments: FuncMetadata
    schema: dict[str, Any]

    def parsed(self, given: dict[str, Any]) -> dict[str, Any]:
        """The arguments of a call, as they were meant.

        Some clients send a list as the JSON of it, and the SDK undoes that. It does so for every
        argument that is not always a text, so that a text that is JSON would not arrive as such.
        """
        fields = self.arguments.arg_model.model_fields
        texts = {
            name: value
            for name, value in given.items()
            if isinstance(value, str)
            and name in fields
            and set(get_args(fields[name].annotation)) == {str, NoneType}
        }
        return {**self.arguments.pre_parse_json(given), **texts}

    def validated(self, parsed: dict[str, Any]) -> dict[str, Any]:
        """The arguments of a call, as the function wants them."""
        return self.arguments.arg_model.model_validate(parsed).model_dump_one_level()


def tool(
    title: str,
    level: Level,
    *,
    core: bool = False,
    destructive: bool = False,
    idempotent: bool = False,
    reads: bool | None = None,
) -> Callable[[_Method], _Method]:
    """Declare a method as a tool. Its docstring is what the model reads.

    Args:
        reads: Whether it changes nothing; by default that is what the level says.
    """

    def mark(method: _Method) -> _Method:
        read_only = level is Level.read if reads is None else reads
        annotations = ToolAnnotations(
            title=title,
            read_only_hint=read_only,
            destructive_hint=None if read_only else destructive,
            idempotent_hint=None if read_only else idempotent,
            open_world_hint=False,
        )
        setattr(method, _MARK, Declaration(title, level, core, annotations))
        return method

    return mark


def collect(toolset: str, owner: object) -> list[RegisteredTool]:
    """The tools among an object's methods, in the order of their definition."""
    return [
        _register(toolset, getattr(owner, name))
        for name, member in vars(type(owner)).items()
        if hasattr(member, _MARK)
    ]


def select(wanted: str, tools: Iterable[RegisteredTool]) -> list[RegisteredTool]:
    """The tools of a comma-separated choice of toolsets.

    Raises:
        InvalidArgument: There is no such toolset.
    """
    names = {name.strip() for name in wanted.split(",") if name.strip()}
    if unknown := names - {*TOOLSETS, "core", "all"}:
        raise InvalidArgument(
            f"There is no toolset {', '.join(sorted(unknown))}.",
            f"Choose from all, core, {', '.join(TOOLSETS)}.",
        )
    return [
        tool
        for tool in tools
        if "all" in names or tool.toolset in names or ("core" in names and tool.declaration.core)
    ]


def _register(toolset: str, method: Callable[..., Awaitable[Answer]]) -> RegisteredTool:
    arguments = func_metadata(method, skip_names=["call"], structured_output=False)
    # A misspelt argument must not be ignored: the call would do something else than was meant.
    arguments.arg_model.model_config["extra"] = "forbid"
    arguments.arg_model.model_rebuild(force=True)
    return RegisteredTool(
        name=method.__name__,
        toolset=toolset,
        description=" ".join(inspect.cleandoc(method.__doc__ or "").split()),
        declaration=getattr(method, _MARK),
        function=method,
        arguments=arguments,
        schema=lean(arguments.arg_model.model_json_schema()),
    )


def lean(schema: dict[str, Any]) -> dict[str, Any]:
    """A JSON schema without what a model does not need: titles, nulls, references."""
    definitions = schema.pop("$defs", {})
    lean_schema: dict[str, Any] = _lean(schema, definitions)
    return lean_schema


def _lean(node: Any, definitions: dict[str, Any]) -> Any:
    if isinstance(node, list):
        return [_lean(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        target = definitions[node["$ref"].rpartition("/")[2]]
        return _lean({**target, **{k: v for k, v in node.items() if k != "$ref"}}, definitions)
    kept: dict[str, Any] = {}
    for key, value in node.items():
        if key == "properties":
            kept[key] = {name: _lean(child, definitions) for name, child in value.items()}
        elif key == "anyOf":
            kept |= _union([_lean(c, definitions) for c in value if c != {"type": "null"}])
        elif key != "title" and (key, value) not in _NEEDLESS:
            kept[key] = _lean(value, definitions)
    return kept


_NEEDLESS = (
    ("default", None),
    ("additionalProperties", True),
    # Refused all the same; saying so in every schema costs tokens.
    ("additionalProperties", False),
)


def _union(choices: list[dict[str, Any]]) -> dict[str, Any]:
    if len(choices) == 1:
        return choices[0]
    merged: dict[str, Any] = {}
    for choice in choices:
        merged |= choice
    return merged | {"type": [choice["type"] for choice in choices]}
