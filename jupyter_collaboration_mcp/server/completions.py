"""Completion of what a person types: variables of URIs of resources, and arguments of prompts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CompleteRequestParams,
    CompleteResult,
    Completion,
    PromptReference,
)

from ..errors import CollaborationError
from ..panics import contained
from ..prompts.kinds import Prompt
from ..resources.kinds import ResourceKind
from ..workspace.permits import Call
from .gate import Gate
from .resource_requests import Context

#: Values in one answer, as the protocol has it.
_MOST = 100

#: Seconds; a person is typing.
_PATIENCE = 3.0

Complete = Callable[[Call, str, str, Mapping[str, str]], Awaitable[Sequence[str]]]
"""Finds values of a variable that begin in some way, given those of others."""


class Completions:
    """Answers requests for completion."""

    def __init__(
        self,
        gate: Gate,
        kinds: Sequence[tuple[str, ResourceKind]],
        prompts: Sequence[tuple[str, Prompt]],
    ) -> None:
        self._gate = gate
        self._templates: dict[str, Complete] = {kind.template: kind.complete for _, kind in kinds}
        self._prompts: dict[str, Complete] = {name: each.complete for name, each in prompts}

    async def complete(self, ctx: Context, params: CompleteRequestParams) -> CompleteResult:
        """The values that fit what was typed so far, of what the caller may read."""
        complete = self._find(params)
        call = self._gate.call(self._gate.request(ctx), "completion/complete")
        given = (params.context.arguments or {}) if params.context is not None else {}
        found: Sequence[str]
        try:
            with contained():
                async with asyncio.timeout(_PATIENCE), call.recheck_before_answer():
                    await self._gate.ready()
                    found = await complete(call, params.argument.name, params.argument.value, given)
        except (CollaborationError, TimeoutError):
            found = ()  # what is given leads nowhere: the request that follows says why
        values = list(dict.fromkeys(found))
        more = len(values) > _MOST
        return CompleteResult(
            completion=Completion(values=values[:_MOST], total=len(values), has_more=more)
        )

    def _find(self, params: CompleteRequestParams) -> Complete:
        ref = params.ref
        if isinstance(ref, PromptReference):
            found, named = self._prompts.get(ref.name), ref.name
        else:
            found, named = self._templates.get(ref.uri), ref.uri
        if found is None:
            raise MCPError(code=INVALID_PARAMS, message=f"There is no {named[:300]!r} to complete.")
        return found
