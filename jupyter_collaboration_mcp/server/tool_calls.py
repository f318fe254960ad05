"""Calls of tools: errors, also those of arguments, are answers that an agent can act on."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp_types import CallToolResult

from ..collaboration.panel.entries import CallKind
from ..errors import CollaborationError, InternalError
from ..panics import contained
from ..tools import limits
from ..tools.arguments import check_names
from ..tools.limits import Echoes
from ..tools.registry import Answer, RegisteredTool
from ..workspace.permissions import Level
from ..workspace.permits import Call
from .call_record import OK, CallRecord
from .gate import Gate, Request
from .results import add_news, compute, failure, success

_log = logging.getLogger(__name__)


class ToolCalls:
    """Answers calls of tools. What is recorded about a call is written after its answer."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    async def answer(
        self, tool: RegisteredTool, arguments: dict[str, Any], ctx: ServerRequestContext[Any, Any]
    ) -> CallToolResult:
        """The result of a call, also where it fails."""
        request = self._gate.request(ctx)
        caller = request.caller
        tool = self._gate.spoken(caller, tool)
        record = CallRecord(
            agent=request.agent,
            name=tool.name,
            level=tool.declaration.level,
            up_to=tool.declaration.up_to,
            arguments=arguments,
            title=tool.declaration.title,
            kind=_kind(tool),
            allowed=self._gate.level(caller),
        )
        with self._gate.calls.following(record, caller):
            result = await self._run(tool, arguments, request, record)
        facts = result.structured_content if self._gate.structured(caller) else None
        result.structured_content = None if facts is None else compute(facts)
        return result

    async def _run(
        self,
        tool: RegisteredTool,
        arguments: dict[str, Any],
        request: Request,
        record: CallRecord,
    ) -> CallToolResult:
        echoes = Echoes({})
        error: CollaborationError | None
        try:
            self._gate.rates.call(request.agent.key)
            if (taken := self._taken_as_they_are(tool, arguments)) is not None:
                echoes = Echoes(arguments)
            else:
                given = await _understood(tool, arguments)
                size = limits.check(given, self._gate.most_items)
                echoes = Echoes(given)
                taken = tool.validated(given), size
            validated, size = taken
            call = self._gate.tool_call(request, tool, validated, size, record)
            record.visits = call.visits
            await self._gate.ready()
            answer = await _perform(tool, call, validated)
            answer = answer if tool.render is None else tool.render(answer, validated)
            answer = add_news(answer, self._gate.news(request.agent.key))
            result, error = success(answer, echoes, tool.wording), answer.error
            record.facts = answer.facts
        except CollaborationError as raised:
            result, error = failure(raised, echoes, tool.wording), raised
        except Exception as raised:
            _log.exception("%s failed", tool.name)
            error = InternalError.of(raised)
            result = failure(error, echoes, tool.wording)
        record.outcome, record.error = OK if error is None else error.code, error
        if tool.declaration.runs:
            self._gate.rates.ran(request.agent.key, sum(record.runs.values()))
        return result

    def _taken_as_they_are(
        self, tool: RegisteredTool, arguments: dict[str, Any]
    ) -> tuple[dict[str, Any], int] | None:
        """The arguments of a call as the function takes them, and the bytes of the texts in them.

        None if they have to be understood first, or something is wrong with them: few have.
        """
        if tool.json_texts(arguments):
            return None
        try:
            size = limits.check(arguments, self._gate.most_items)
            return tool.validated(arguments), size
        except CollaborationError:
            return None


async def _understood(tool: RegisteredTool, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call as they were meant.

    Raises:
        TooLarge: They have too many values.
        InvalidArgument: There are no such arguments, or some are missing.
    """
    given = tool.respelled(arguments)
    if texts := tool.json_texts(given):
        await limits.check_json(texts.values())
        given = tool.parsed(given, texts)
    check_names(tool.name, given, tool.schema)
    return given


def _kind(tool: RegisteredTool) -> CallKind:
    """What people take a call for, by what it needs at least."""
    declared = tool.declaration
    if declared.level is Level.write:
        return "file" if tool.toolset == "files" else "edit"
    if declared.level is Level.execute:
        return "run"
    reads = declared.level is Level.read and declared.annotations.read_only_hint
    return "read" if reads else "other"


async def _perform(tool: RegisteredTool, call: Call, arguments: Mapping[str, Any]) -> Answer:
    with contained():
        async with call.recheck_before_answer():
            return await tool.function(call, **arguments)
