"""How a method becomes a tool: its level, its toolsets, its true annotations, a lean schema."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from types import NoneType
from typing import Any, TypeVar, get_args

from mcp.server.mcpserver.utilities.func_metadata import FuncMetadata, func_metadata
from mcp_types import ToolAnnotations
from pydantic import ValidationError

from ..documents.images import Picture
from ..errors import CollaborationError
from ..remedies import Intent
from ..workspace.permissions import Level
from . import DEFAULT, TOOLSETS, toolset_names
from .arguments import invalid, respelled
from .dialects import Dialect, adapted
from .parts import Parts
from .registration import Registration, make_all
from .wording import WORDING

_MARK = "_tool_declaration"

#: Bytes of content in an answer unless the caller wants more, so that all of it stays below 40,000:
#: Codex and Gemini CLI show a model no more. At most so many of content, and of all of it: Claude
#: Code shows 50,000. Most text is ASCII, of which a byte is a character.
DEFAULT_LENGTH, MOST_CONTENT, MOST_LENGTH = 38_500, 45_000, 48_000

_Method = TypeVar("_Method", bound=Callable[..., Awaitable["Answer"]])


@dataclass(frozen=True, slots=True)
class Link:
    """A resource that has more than the answer."""

    uri: str
    name: str
    mime: str = "text/plain"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a tool answers: a text for a model, and the same facts for a program."""

    text: str
    facts: dict[str, Any]
    """A callable value computes its fact on demand: that takes long, and few connections ask."""
    pictures: Sequence[Picture] = ()
    links: Sequence[Link] = ()
    error: CollaborationError | None = None
    """What went wrong, where there is more to say than an error can."""
    beside: str | None = None
    """What follows in a block of its own, where programs parse the text; None: they do not."""


#: Makes another answer of an answer to a call with some arguments.
Render = Callable[[Answer, Mapping[str, Any]], Answer]


@dataclass(frozen=True, slots=True)
class Borrowed:
    """How a dialect uses a tool of another toolset: what it does is the same."""

    render: Render | None = None
    """The answer as the dialect's users expect it, if they expect it otherwise."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Arguments whose defaults differ."""
    said: Mapping[str, str] = field(default_factory=dict)
    """What is said about arguments, where the usual words name a tool that the dialect lacks."""


@dataclass(frozen=True, slots=True)
class Declaration:
    """What a tool declares about itself."""

    title: str
    level: Level
    """What a connection needs to see the tool."""
    up_to: Level
    """What some of its arguments need: at most this is asked for while it works."""
    core: bool
    annotations: ToolAnnotations
    runs: bool = False
    """Whether it starts runs of code; if it has an argument `exec`, only where that is true."""


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
    wording: Mapping[Intent, str]
    """How its toolset words what an agent can do about an error."""

    not_only_text: Collection[str]
    """The arguments that may be something else than a text."""

    dialect: Dialect | None = None
    """The dialect in which a connection uses it, if any."""
    borrowed: Mapping[str, tuple[Dialect, Borrowed]] = field(default_factory=dict)
    """By name, the dialects that use this tool of another toolset."""
    render: Render | None = None
    """The answer as the dialect's users expect it, if they expect it otherwise."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Arguments whose defaults differ in the dialect."""

    def spoken(self, name: str) -> RegisteredTool:
        """The tool as a dialect uses it."""
        dialect, how = self.borrowed[name]
        return replace(
            self,
            wording=dialect.wording,
            schema=adapted(self.schema, how.defaults, how.said),
            dialect=dialect,
            borrowed={},
            render=how.render,
            defaults=how.defaults,
        )

    def respelled(self, given: dict[str, Any]) -> dict[str, Any]:
        """The arguments of a call, under the names that the schema has."""
        named: dict[str, Any] = respelled(given, self.schema)
        return named

    def json_texts(self, given: Mapping[str, Any]) -> dict[str, str]:
        """The arguments of a call that may be the JSON of what was meant; for `parsed`."""
        return {
            name: value
            for name, value in given.items()
            if isinstance(value, str) and name in self.not_only_text
        }

    def parsed(self, given: Mapping[str, Any], texts: dict[str, str]) -> dict[str, Any]:
        """The arguments of a call, as they were meant.

        Some clients send a list as the JSON of it, and the SDK undoes that. It does so for every
        argument that is not always a text, so that a text that is JSON would not arrive as such.
        """
        return self.respelled({**given, **self.arguments.pre_parse_json(texts)})

    def validated(self, parsed: dict[str, Any]) -> dict[str, Any]:
        """The arguments of a call, as the function takes them.

        Raises:
            InvalidArgument: They do not match the schema.
        """
        try:
            given = {**self.defaults, **parsed}
            return self.arguments.arg_model.model_validate(given).model_dump_one_level()
        except ValidationError as error:
            raise invalid(self.name, error, self.schema) from error


def tool(
    title: str,
    level: Level,
    *,
    up_to: Level | None = None,
    core: bool = False,
    only_adds: bool = False,
    idempotent: bool = False,
    reads: bool = False,
    shows: bool = False,
    runs: bool | None = None,
) -> Callable[[_Method], _Method]:
    """Declare a method as a tool. Its docstring is what the model reads.

    The hints follow from the levels: clients decide by them what runs without asking a person.

    Args:
        up_to: The level that some arguments need, such as `exec`; by default `level`.
        only_adds: Whether it leaves everything that is there as it is.
        reads: Whether it changes nothing, although its level allows more.
        shows: Whether it changes what others see of the agent, and nothing else.
        runs: Whether it starts runs of code; by default if it may execute and does not only read.
    """
    most = level if up_to is None else up_to
    if runs is None:
        runs = most is Level.execute and not reads

    def mark(method: _Method) -> _Method:
        if shows:
            annotations = ToolAnnotations(
                title=title,
                read_only_hint=False,
                destructive_hint=False,
                idempotent_hint=idempotent,
                open_world_hint=False,
            )
        else:
            annotations = _annotations(title, most, only_adds, idempotent, reads)
        setattr(method, _MARK, Declaration(title, level, most, core, annotations, runs))
        return method

    return mark


def _annotations(
    title: str, most: Level, only_adds: bool, idempotent: bool, reads: bool
) -> ToolAnnotations:
    if reads or most is Level.read:
        return ToolAnnotations(title=title, read_only_hint=True, open_world_hint=False)
    # Code can do anything, and something else the second time.
    runs = most is Level.execute
    return ToolAnnotations(
        title=title,
        read_only_hint=False,
        destructive_hint=runs or not only_adds,
        idempotent_hint=idempotent and not runs,
        open_world_hint=most >= Level.execute,
    )


def all_tools(
    parts: Parts, toolsets: Iterable[Registration[object]] = TOOLSETS
) -> list[RegisteredTool]:
    """Every tool, in the order in which a client lists them."""
    made = make_all(toolsets, parts)
    tools = [each for toolset, owner in made for each in collect(toolset, owner)]
    lent: dict[str, dict[str, tuple[Dialect, Borrowed]]] = {}
    for _, owner in made:
        for name, how in getattr(owner, "borrowed", {}).items():
            dialect: Dialect = owner.dialect  # type: ignore[attr-defined]
            lent.setdefault(name, {})[dialect.name] = dialect, how
    return [replace(each, borrowed=lent.get(each.name, {})) for each in tools]


def collect(toolset: str, owner: object) -> list[RegisteredTool]:
    """The tools among an object's methods, in the order of their definition.

    A toolset with names of its own for what the others do is a `dialect`.
    """
    dialect: Dialect | None = getattr(owner, "dialect", None)
    return [
        _register(toolset, getattr(owner, name), _taken(member), dialect)
        for name, member in vars(type(owner)).items()
        if hasattr(member, _MARK)
    ]


def select(wanted: str, tools: Iterable[RegisteredTool]) -> list[RegisteredTool]:
    """The tools of a comma-separated choice of toolsets.

    What only a dialect chooses is spoken in that dialect.

    Raises:
        InvalidArgument: There is no such toolset.
    """
    names = toolset_names(wanted)
    return [chosen for tool in tools if (chosen := _chosen(tool, names)) is not None]


def _chosen(tool: RegisteredTool, names: Collection[str]) -> RegisteredTool | None:
    usual = DEFAULT in names and (tool.dialect is None or tool.toolset != tool.dialect.name)
    core = "core" in names and tool.declaration.core
    if "all" in names or tool.toolset in names or usual or core:
        return tool
    if tool.dialect is not None and tool.dialect.name in names:
        return tool
    speaker = next((name for name in sorted(tool.borrowed) if name in names), None)
    return None if speaker is None else tool.spoken(speaker)


def _register(
    toolset: str,
    method: Callable[..., Awaitable[Answer]],
    taken: _Taken,
    dialect: Dialect | None,
) -> RegisteredTool:
    return RegisteredTool(
        name=method.__name__,
        toolset=toolset,
        description=" ".join(inspect.cleandoc(method.__doc__ or "").split()),
        declaration=getattr(method, _MARK),
        function=method,
        arguments=taken.metadata,
        schema=taken.schema,
        wording=WORDING if dialect is None else dialect.wording,
        dialect=dialect,
        not_only_text=taken.not_only_text,
    )


@dataclass(frozen=True, slots=True)
class _Taken:
    """What a tool takes."""

    metadata: FuncMetadata
    schema: dict[str, Any]
    not_only_text: Collection[str]


@cache
def _taken(function: Callable[..., object]) -> _Taken:
    """What a tool takes, which its function alone decides: made once for all servers of a process.

    For all tools together that takes longer than anything else that building a server does.
    """
    metadata = func_metadata(function, skip_names=["self", "call"], structured_output=False)
    model = metadata.arg_model
    # A misspelt argument must not be ignored: the call would do something else than was meant.
    model.model_config["extra"] = "forbid"
    model.model_rebuild(force=True)
    not_only_text = frozenset(
        name
        for name, field in model.model_fields.items()
        if field.annotation is not str and set(get_args(field.annotation)) != {str, NoneType}
    )
    return _Taken(metadata, lean(model.model_json_schema()), not_only_text)


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
        elif key not in _UNSAID and (key, value) not in _NEEDLESS:
            kept[key] = _lean(value, definitions)
    return kept


#: Limits are checked, and an error names them.
_UNSAID = ("title", "minimum", "maximum")

_NEEDLESS = (
    ("default", None),
    # What a model expects of a switch or a text that it leaves out.
    ("default", False),
    ("default", ""),
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
