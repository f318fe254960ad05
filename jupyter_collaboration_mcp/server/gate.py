"""The gate: who calls, which tools they see, and what their call may do at most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

from ..documents.images import ImageLimits
from ..errors import PermissionRefused
from ..panics import contained
from ..tools.registry import RegisteredTool, select
from ..workspace.agent import Agent
from ..workspace.call_limits import Limits
from ..workspace.permissions import Level
from ..workspace.permits import Call, require_level
from ..workspace.sites import Sites
from .attendance import Attendance
from .call_activity import CallActivity
from .caller import SCOPE_KEY, Caller

#: Choices of tools by connections that are remembered.
_CHOICES = 100


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """What configuration decides about the server."""

    toolsets: str = "all"
    permission: Level = Level.admin
    agent_name: str | None = None
    images: ImageLimits | None = None
    """None: answers have no images."""
    structured: bool = False
    """Whether answers also have their facts as JSON, for programs. The clients that people use most
    show a model that JSON instead of the text and the pictures."""
    proposes: bool = False
    """Whether the edits of all agents go to forks."""


class Request(NamedTuple):
    """A request of an agent, from which the gate makes calls."""

    context: ServerRequestContext[Any, Any]
    caller: Caller
    agent: Agent


class Gate:
    """Makes the call that a request is, and shows each connection the tools that it may call."""

    def __init__(
        self, options: ServerOptions, tools: Sequence[RegisteredTool], sites: Sites
    ) -> None:
        self._options = options
        self._tools = tools
        self._sites = sites
        self._choices: dict[tuple[tuple[str, ...], Level], Sequence[RegisteredTool]] = {}
        self._attendance = Attendance(sites.leave)
        self.activity = CallActivity()
        self.ready = sites.ready
        self.news = sites.news

    @property
    def most_items(self) -> int:
        """Of a list in a call: as many as the cells that one may change."""
        allowed = [site.workspace.limits.cells_per_call for site in self._sites]
        return max(allowed, default=Limits().cells_per_call)

    async def __call__(
        self, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        """Show a connection the tools that it may call."""
        with contained():  # of all requests; a tool says more of its own
            result = await call_next(ctx)
        if ctx.method == "tools/list" and isinstance(result, dict):
            hidden = {tool.name for tool in self._tools} - set(self.names(ctx))
            result["tools"] = [tool for tool in result["tools"] if tool["name"] not in hidden]
        return result

    def names(self, ctx: ServerRequestContext[Any, Any]) -> list[str]:
        """The tools that a connection sees."""
        return [tool.name for tool in self._visible(_caller(ctx))]

    def tool_call(self, request: Request, tool: RegisteredTool) -> Call:
        """A call of a tool.

        Raises:
            PermissionRefused: This connection does not see the tool.
        """
        caller = request.caller
        if tool not in self._visible(caller):
            require_level(tool.declaration.level, self._level(caller))
            raise PermissionRefused(
                f"The tool {tool.name} is not among this connection's toolsets.",
                "Use the tools that tools/list shows, or ask for a connection with more toolsets.",
            )
        return self.call(request, tool.name, tool.declaration.up_to)

    def call(self, request: Request, name: str, declared: Level = Level.read) -> Call:
        """A call of anything else, such as a read of a resource.

        Args:
            declared: The most that the client was told that this does.
        """
        ctx, caller, agent = request
        self._attendance.note(ctx.session._connection, agent.key)

        async def report(progress: float, message: str) -> None:
            await ctx.session.report_progress(progress, None, message)

        level, proposes = self._level(caller), self._options.proposes or caller.options.proposes
        return Call(
            *(name, agent, level, declared, caller.authorize, caller.by_path, report),
            proposes=proposes,
        )

    def request(self, ctx: ServerRequestContext[Any, Any]) -> Request:
        """A request, and who makes it."""
        caller = _caller(ctx)
        params = ctx.session.client_params
        client = params.client_info.name if params is not None else None
        agent = Agent.named(
            caller.credential,
            caller.options.agent,
            self._options.agent_name,
            client,
            bound=caller.bound,
        )
        return Request(ctx, caller, agent)

    def structured(self, caller: Caller) -> bool:
        """Whether a connection wants the facts of answers as JSON, too."""
        asked_for = caller.options.structured
        return self._options.structured if asked_for is None else asked_for

    def _visible(self, caller: Caller) -> Sequence[RegisteredTool]:
        choice = tuple(caller.options.toolsets), self._level(caller)
        known = self._choices.get(choice)
        if known is None:
            if len(self._choices) >= _CHOICES:
                self._choices.clear()
            known = self._choices[choice] = self._choose(*choice)
        return known

    def _choose(self, toolsets: Sequence[str], level: Level) -> list[RegisteredTool]:
        tools = list(self._tools)
        for wanted in toolsets:
            tools = select(wanted, tools)
        return [tool for tool in tools if tool.declaration.level <= level]

    def _level(self, caller: Caller) -> Level:
        configured = self._options.permission
        asked_for = caller.options.permission
        return configured if asked_for is None else min(configured, asked_for)


def _caller(ctx: ServerRequestContext[Any, Any]) -> Caller:
    """Who is behind a request. One that came over no HTTP came over stdio."""
    if ctx.request is None:
        return Caller.stdio()
    scope: Mapping[str, Any] = ctx.request.scope
    caller = scope.get(SCOPE_KEY)
    if not isinstance(caller, Caller):  # else it would be taken for somebody who may do anything
        raise RuntimeError("the transport has not said who calls")
    return caller
