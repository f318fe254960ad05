"""What the SDK's OpenTelemetry spans say of a call beside its method and tool.

The SDK makes a span of each request, which is the current one while it is served. Where nobody
collects spans it records nothing, and neither do we.
"""

from __future__ import annotations

from opentelemetry.trace import get_current_span

from .call_record import CallRecord

_PREFIX = "jupyter_collaboration_mcp"


def annotate(record: CallRecord) -> None:
    """Add the documents, the agent and the outcome to the span of a call that is over."""
    span = get_current_span()
    if not span.is_recording():
        return
    span.set_attributes(
        {
            f"{_PREFIX}.agent": record.agent.name,
            f"{_PREFIX}.credential": record.agent.credential,
            f"{_PREFIX}.outcome": record.outcome,
        }
    )
    if paths := record.paths:
        span.set_attribute(f"{_PREFIX}.document", paths[0])
