"""One line in the log for each call of a tool that can change or run something."""

from __future__ import annotations

import logging

from ..documents.foreign_text import PATH, inline
from ..workspace.permissions import Level
from .call_record import CallRecord, without_query

#: Its lines are INFO. It has nothing of a call but the path: neither code, nor text, nor URLs.
CALLS = "jupyter_collaboration_mcp.calls"

_log = logging.getLogger(CALLS)


def log_call(record: CallRecord) -> None:
    """Log who asked for what, how it ended, and how long it took.

    Calls that only read are not logged.
    """
    if record.up_to is Level.read:
        return
    path = record.named_path
    if isinstance(path, str):
        path = without_query(path)
    shown = "-" if path is None else inline(path, PATH)
    who = f"{inline(record.agent.name)} <{inline(record.agent.credential)}>"
    # Code that fails is no error of the call.
    runs = [f"{count} run {state}" for state, count in record.runs.items()]
    outcome = ", ".join([record.outcome, *runs])
    _log.info("%s %s %s: %s in %.0f ms", who, record.name, shown, outcome, record.seconds * 1000)
