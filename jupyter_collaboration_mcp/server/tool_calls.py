"""Calls of tools: errors, also those of arguments, are answers that an agent can act on."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp_types import CallToolResult

from ..collaboration.activity.activity import now
from ..errors import CollaborationError, InternalError
from ..panics import contained
from ..tools import limits
from ..tools.arguments import check_names
from ..tools.limits import Echoes
from ..tools.registry import Answer, RegisteredTool
from ..workspace.permits import Call
from .call_activity import OK
from .call_log import log_call
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
        running = self._run(tool, arguments, request)
        result = await log_call(tool, request.agent, arguments, running, caller.after_answer)
        facts = result.structured_content if self._gate.structured(caller) else None
        result.structured_content = None if facts is None else compute(facts)
        return result

    async def _run(
        self, tool: RegisteredTool, arguments: dict[str, Any], request: Request
    ) -> CallToolResult:
        began = now()
        echoes = Echoes({})
        call: Call | None = None
        error: CollaborationError | None
        facts: Mapping[str, Any] | None = None
        try:
            given = tool.respelled(arguments)
            if texts := tool.json_texts(given):
                await limits.check_json(texts.values())
                given = tool.parsed(given, texts)
            check_names(tool.name, given, tool.schema)
            limits.check(given, self._gate.most_items)
            echoes = Echoes(given)
            validated = tool.validated(given)
            call = self._gate.tool_call(request, tool)
            await self._gate.ready()
            answer = await _perform(tool, call, validated)
            answer = add_news(answer, self._gate.news(call.agent.key))
            result, error, facts = success(answer, echoes, tool.wording), answer.error, answer.facts
        except CollaborationError as raised:
            result, error = failure(raised, echoes, tool.wording), raised
        except Exception as raised:
            _log.exception("%s failed", tool.name)
            error = InternalError.of(raised)
            result = failure(error, echoes, tool.wording)
        if call is not None:  # it was let in
            outcome, level = OK if error is None else error.code, tool.declaration.level
            record = self._gate.activity.record
            request.caller.after_answer(partial(record, call, level, began, outcome, facts))
        return result


async def _perform(tool: RegisteredTool, call: Call, arguments: Mapping[str, Any]) -> Answer:
    with contained():
        async with call.recheck_before_answer():
            return await tool.function(call, **arguments)
