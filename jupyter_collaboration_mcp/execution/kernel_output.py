"""Outputs in the messages of a kernel."""

from __future__ import annotations

from typing import Any

from ..backends.base import KernelMessage
from ..documents.output_log import OutputLog


def log_output(log: OutputLog, message: KernelMessage) -> None:
    """Put what a message shows into a log, if it shows anything."""
    content = message.content
    match message.type:
        case "stream":
            log.print(str(content.get("name", "stdout")), str(content.get("text", "")))
        case "display_data" | "execute_result" | "error":
            log.add(_output(message), message.size, _display_id(message))
        case "clear_output":
            log.clear(bool(content.get("wait")))


def update_display(log: OutputLog, message: KernelMessage) -> bool:
    """Give displays in a log another content; says whether there are any of this id."""
    content, display_id = message.content, _display_id(message)
    if display_id is None:
        return False
    data, metadata = content.get("data", {}), content.get("metadata", {})
    return log.update(display_id, data, metadata, message.size)


def _display_id(message: KernelMessage) -> str | None:
    display_id = (message.content.get("transient") or {}).get("display_id")
    return None if display_id is None else str(display_id)


def _output(message: KernelMessage) -> dict[str, Any]:
    """An output as nbformat stores it."""
    content = message.content
    if message.type == "error":
        return {
            "output_type": "error",
            "ename": str(content.get("ename", "")),
            "evalue": str(content.get("evalue", "")),
            "traceback": [str(line) for line in content.get("traceback") or ()],
        }
    output: dict[str, Any] = {
        "output_type": message.type,
        "data": dict(content.get("data") or {}),
        "metadata": dict(content.get("metadata") or {}),
    }
    if message.type == "execute_result":
        output["execution_count"] = content.get("execution_count")
    return output
