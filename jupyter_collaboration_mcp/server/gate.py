"""The gate: who calls, which tools they see, and what their call may do at most."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR
from pydantic import ValidationError

from ..backends.disk.template_files import TemplateFiles
from ..collaboration.edits import no_step
from ..documents.images import ImageLimits
from ..errors import AgentHeld, CollaborationError, PermissionRefused, RateLimited
from ..panics import contained
from ..remedies import Intent
from ..tools import DEFAULT
from ..tools.dialects import Dialect
from ..tools.registry import RegisteredTool, select
from ..tools.wording import WORDING
from ..workspace.agent import Agent
from ..workspace.call_limits import Limits
from ..workspace.permissions import Level
from ..workspace.permits import Call, require_level
from ..workspace.sites import Sites
from .attendance import Attendance
from .call_activity import CallActivity
from .call_feed import Feed, NoFeed
from .call_log import log_call
from .call_record import OK, CallRecord, CallRecords, Observer
from .caller import SCOPE_KEY, Caller
from .rates import RateLimits, Rates
from .redaction import Redactor
from .results import error_text, fault
from .tracing import annotate

#: Of a list in a call, where no server says it.
_CELLS_PER_CALL = Limits().cells_per_call

#: Choices of tools by connections that are remembered.
_CHOICES = 100

#: Requests whose results describe the tools.
_ABOUT = ("tools/list", "initialize", "server/discover")
#: Requests beside calls of tools that count as calls of an agent. The others cost next to nothing.
_COUNTED = frozenset(
    {
        "completion/complete",
        "prompts/get",
        "resources/list",
        "resources/read",
        "resources/subscribe",
        "subscriptions/listen",
    }
)

#: What people call requests that are no calls of tools.
_TITLES = {"resources/read": "Read a resource", "prompts/get": "Fill in a prompt"}

#: The error code for an agent that is too fast, where an answer cannot say so.
RATE_LIMITED = -32003

#: The error code for an agent that people have stopped, where an answer cannot say so.
HELD = -32004


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """What configuration decides about the server."""

    toolsets: str = DEFAULT
    permission: Level = Level.admin
    agent_name: str | None = None
    images: ImageLimits | None = None
    """None: answers have no images."""
    structured: bool = False
    """Whether answers also have their facts as JSON, for programs. The clients that people use most
    show a model that JSON instead of the text and the pictures."""
    proposes: bool = False
    """Whether the edits of all agents go to forks."""
    templates: TemplateFiles = field(default_factory=TemplateFiles)
    """What notebooks can be made from."""
    redactor: Redactor = field(default_factory=Redactor)
    """What is masked before an agent sees it."""
    rates: RateLimits = field(default_factory=RateLimits)
    observers: Sequence[Observer] = ()
    """What else is made of the record of each call."""
    panel: Feed | None = None
    """Shows people the calls, and knows which agents they hold."""


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
        self._choices: dict[tuple[tuple[str, ...], Level], Mapping[str, RegisteredTool]] = {}
        self._attendance = Attendance(sites.leave)
        self._panel = options.panel or NoFeed()
        observers = [self._panel.end, CallActivity().record, log_call, *options.observers]
        self.calls = CallRecords(observers, at_end=annotate, at_start=self._panel.begin)
        """Records what becomes of calls."""
        self.rates = Rates(options.rates)
        self.news = sites.news

    async def ready(self) -> None:
        """Wait for a server that is being started, and for what people let agents do."""
        await self._sites.ready()
        await self._panel.ready()

    @property
    def most_items(self) -> int:
        """Of a list in a call: as many as the cells that one may change."""
        allowed = [site.workspace.limits.cells_per_call for site in self._sites]
        return max(allowed, default=_CELLS_PER_CALL)

    async def __call__(
        self, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        """Show a connection the tools that it may call, and refuse those who are too fast."""
        if ctx.method in _COUNTED:
            self._count(ctx)
        try:
            with contained():  # of all requests; a tool says more of its own
                result = await call_next(ctx)
        except (MCPError, ValidationError):
            raise
        except CollaborationError as error:
            raise MCPError(INTERNAL_ERROR, error_text(error, WORDING), error.detail) from error
        except Exception as error:  # clients of the older era would be told what it says
            raise fault(f"answer {ctx.method}") from error
        if isinstance(result, dict) and ctx.method in _ABOUT:
            self._adapt(result, self._visible(_caller(ctx)))
        return result

    def _adapt(self, result: dict[str, Any], visible: Mapping[str, RegisteredTool]) -> None:
        """Show the tools of a connection as it uses them, and what a model is told about them."""
        if "tools" in result:
            chosen = {name: tool.schema for name, tool in visible.items()}
            usual = {tool.name: tool.schema for tool in self._tools}
            hidden = usual.keys() - chosen.keys()
            result["tools"] = [
                {**tool, "inputSchema": chosen[name]}
                if name in chosen and chosen[name] is not usual[name]
                else tool
                for tool in result["tools"]
                if (name := tool["name"]) not in hidden
            ]
        if "instructions" in result and (dialects := _dialects(visible.values())):
            result["instructions"] = "\n\n".join(each.instructions for each in dialects)

    def wording(self, ctx: ServerRequestContext[Any, Any]) -> Mapping[Intent, str]:
        """How a connection is told what it can do about an error that no tool has raised."""
        dialects = _dialects(self._visible(_caller(ctx)).values())
        return dialects[0].wording if dialects else WORDING

    def names(self, ctx: ServerRequestContext[Any, Any]) -> list[str]:
        """The tools that a connection sees."""
        return list(self._visible(_caller(ctx)))

    def knows(self, ctx: ServerRequestContext[Any, Any], tool: RegisteredTool) -> bool:
        """Whether a connection may hear of a tool: of those of a dialect only if it has chosen it.

        To others it is a name that they know from elsewhere, and they are told what it is here.
        """
        if tool.dialect is None:
            return True
        visible = self._visible(_caller(ctx)).values()
        chosen = {each.dialect.name for each in visible if each.dialect is not None}
        return tool.dialect.name in chosen

    def spoken(self, caller: Caller, tool: RegisteredTool) -> RegisteredTool:
        """A tool as a connection uses it: perhaps in a dialect."""
        return self._visible(caller).get(tool.name, tool)

    def _count(self, ctx: ServerRequestContext[Any, Any]) -> None:
        request = self.request(ctx)
        try:
            self._panel.require(request.agent, Level.read)
            self.rates.call(request.agent.key)
        except (RateLimited, AgentHeld) as error:
            record = CallRecord(
                agent=request.agent,
                name=ctx.method,
                outcome=error.code,
                error=error,
                allowed=self.level(request.caller),
            )
            self.calls.tell(record)
            said = error_text(error, self.wording(ctx))
            code = HELD if isinstance(error, AgentHeld) else RATE_LIMITED
            raise MCPError(code, said, error.detail) from error

    def tool_call(
        self,
        request: Request,
        tool: RegisteredTool,
        arguments: Mapping[str, Any],
        size: int,
        record: CallRecord | None = None,
    ) -> Call:
        """A call of a tool.

        Args:
            arguments: As the tool takes them.
            size: Bytes of the texts in them.
            record: The record of the call, if it has one.

        Raises:
            PermissionRefused: This connection does not see the tool.
            AgentHeld: A person has paused or stopped the agent.
            RateLimited: The agent runs or writes too much.
        """
        caller = request.caller
        self._panel.require(request.agent, tool.declaration.level)
        if tool.name not in self._visible(caller):
            require_level(tool.declaration.level, self.level(caller))
            raise PermissionRefused(
                f"The tool {tool.name} is not among this connection's toolsets.",
                "Use the tools that tools/list shows, or ask for a connection with more toolsets.",
            )
        if tool.declaration.runs and arguments.get("exec", True):
            self.rates.run(request.agent.key)
        if tool.declaration.level >= Level.write:  # one that runs code may insert the cell for it
            self.rates.write(request.agent.key, size)
        return self.call(request, tool.name, tool.declaration.up_to, record)

    def call(
        self,
        request: Request,
        name: str,
        declared: Level = Level.read,
        record: CallRecord | None = None,
    ) -> Call:
        """A call of anything else, such as a read of a resource.

        Args:
            declared: The most that the client was told that this does.
            record: As above.
        """
        ctx, caller, agent = request
        self._attendance.note(ctx.session._connection, agent.key)

        async def report(progress: float, message: str) -> None:
            shown, _ = self._options.redactor.mask(message)
            await ctx.session.report_progress(progress, None, shown)

        by_path = caller.by_path or bool(caller.rules)
        level, proposes = self.level(caller), self._options.proposes or caller.options.proposes
        return Call(
            *(name, agent, level, declared, caller.authorize, by_path, report),
            proposes=proposes,
            rules=caller.rules,
            reached=caller.reached,
            hold=partial(self._panel.require, agent),
            on_step=no_step if record is None else partial(self._panel.step, record),
        )

    @asynccontextmanager
    async def following(
        self, ctx: ServerRequestContext[Any, Any], method: str, path: str
    ) -> AsyncIterator[Call]:
        """A call of anything else that is recorded, and checked again before its answer.

        Args:
            path: What it is about, as the client named it.
        """
        request = self.request(ctx)
        record = CallRecord(
            agent=request.agent,
            name=method,
            arguments={"path": path},
            title=_TITLES.get(method, ""),
            kind="read" if method == "resources/read" else "other",
            allowed=self.level(request.caller),
        )
        with self.calls.following(record, request.caller):
            call = self.call(request, method, record=record)
            record.visits = call.visits
            async with call.recheck_before_answer():
                yield call
            record.outcome = OK

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

    def _visible(self, caller: Caller) -> Mapping[str, RegisteredTool]:
        """The tools that a connection sees, by name, in the order in which they are listed."""
        choice = tuple(caller.options.toolsets), self.level(caller)
        known = self._choices.get(choice)
        if known is None:
            if len(self._choices) >= _CHOICES:
                self._choices.clear()
            known = self._choices[choice] = self._choose(*choice)
        return known

    def _choose(self, toolsets: Sequence[str], level: Level) -> dict[str, RegisteredTool]:
        tools = list(self._tools)
        # Where nothing else is configured, a connection can choose a dialect.
        for wanted in toolsets or (self._options.toolsets,):
            tools = select(wanted, tools)
        return {tool.name: tool for tool in tools if tool.declaration.level <= level}

    def level(self, caller: Caller) -> Level:
        """The most that a connection may do."""
        configured = self._options.permission
        asked_for = caller.options.permission
        return configured if asked_for is None else min(configured, asked_for)


def _dialects(tools: Iterable[RegisteredTool]) -> list[Dialect]:
    """The dialects that all these tools speak; none if one of them speaks none."""
    spoken: dict[str, Dialect] = {}
    for tool in tools:
        if tool.dialect is None:
            return []
        spoken.setdefault(tool.dialect.name, tool.dialect)
    return list(spoken.values())


def _caller(ctx: ServerRequestContext[Any, Any]) -> Caller:
    """Who is behind a request. One that came over no HTTP came over stdio."""
    if ctx.request is None:
        return Caller.stdio()
    scope: Mapping[str, Any] = ctx.request.scope
    caller = scope.get(SCOPE_KEY)
    if not isinstance(caller, Caller):  # else it would be taken for somebody who may do anything
        raise RuntimeError("the transport has not said who calls")
    return caller
