"""One line in the log for each call of a tool that can change or run something."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from ..documents.foreign_text import PATH, inline
from ..tools.registry import RegisteredTool
from ..workspace.agent import Agent
from ..workspace.permissions import Level

#: Its lines are INFO. It has nothing of a call but the path: neither code, nor text, nor URLs.
CALLS = "jupyter_collaboration_mcp.calls"

_log = logging.getLogger(CALLS)

_Result = TypeVar("_Result")


async def log_call(
    tool: RegisteredTool,
    agent: Agent,
    arguments: Mapping[str, Any],
    result: Awaitable[_Result],
    after_answer: Callable[[Callable[[], None]], None],
) -> _Result:
    """Wait for the result of a call and log who asked for what, how it ended, and how long it took.

    Calls that only read are not logged.

    Args:
        after_answer: Writes the line once the answer has left.
    """
    if tool.declaration.up_to is Level.read:
        return await result
    began, outcome = time.perf_counter(), "failed"
    try:
        answer = await result
        outcome = _outcome(answer)
        return answer
    except asyncio.CancelledError:
        outcome = "cancelled"
        raise
    finally:
        took = (time.perf_counter() - began) * 1000
        after_answer(partial(_write_line, agent, tool.name, arguments, outcome, took))


def _write_line(
    agent: Agent, tool: str, arguments: Mapping[str, Any], outcome: str, took: float
) -> None:
    path = inline({n.lower(): v for n, v in arguments.items()}.get("path", "-"), PATH)
    who = f"{inline(agent.name)} <{inline(agent.credential)}>"
    _log.info("%s %s %s: %s in %.0f ms", who, tool, path, outcome, took)


def _outcome(result: Any) -> str:
    """`ok` or the code of the error, and what became of runs: code that fails is no error."""
    facts = getattr(result, "structured_content", None) or {}
    failed = getattr(result, "is_error", False)
    code = str(facts.get("error", {}).get("code", "error")) if failed else "ok"
    runs = facts.get("runs")
    if not runs:
        return code
    states = Counter(run["state"] for run in runs)
    return ", ".join([code, *(f"{count} run {state}" for state, count in states.items())])
