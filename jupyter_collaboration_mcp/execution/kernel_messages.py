"""What a kernel's messages mean for a run: its reply, its progress and its outputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..backends.protocols import kernels as base
from ..backends.protocols.kernels import KernelMessage
from ..documents.output_log import OutputLog
from .run import Run, RunState


def take_reply(run: Run, message: KernelMessage) -> None:
    """Record the reply to the request of a run."""
    run.reply = message.content
    run.timings["shell.execute_reply"] = message.date
    if started := message.metadata.get("started"):
        run.timings["shell.execute_reply.started"] = str(started)
    _take_count(run, message)


def take_progress(run: Run, message: KernelMessage) -> bool:
    """Record the progress of a run; False if the message is not about that."""
    if message.type == "status":
        state = message.content.get("execution_state")
        run.timings[f"iopub.status.{state}"] = message.date
        if state == "idle":
            run.idle = True
        elif state == "busy" and run.state is RunState.queued:
            run.become(RunState.working)  # unless it already waits for input, on another channel
    elif message.type == "execute_input":
        run.timings["iopub.execute_input"] = message.date
        _take_count(run, message)
    else:
        return False
    return True


def _take_count(run: Run, message: KernelMessage) -> None:
    if isinstance(count := message.content.get("execution_count"), int):
        run.count = count


def log_output(run: Run, message: KernelMessage) -> None:
    """Add the output in a message to the log of its run, if there is any."""
    log, content = run.log, message.content
    match message.type:
        case base.OUTPUT_MISSING:
            run.missing = str(content["reason"])
            log.print("stderr", str(content["text"]))
        case "stream":
            log.print(str(content.get("name", "stdout")), str(content.get("text", "")))
        case "display_data" | "execute_result" | "error":
            log.add(_output(message.type, content), message.size, _display_id(message))
        case "clear_output":
            log.clear(bool(content.get("wait")))


def update_display(log: OutputLog, message: KernelMessage) -> bool:
    """Update displays in a log; returns whether it has any with this id."""
    content, display_id = message.content, _display_id(message)
    if display_id is None:
        return False
    data, metadata = content.get("data", {}), content.get("metadata", {})
    return log.update(display_id, data, metadata, message.size)


def _display_id(message: KernelMessage) -> str | None:
    display_id = (message.content.get("transient") or {}).get("display_id")
    return None if display_id is None else str(display_id)


def restore_error(run: Run) -> None:
    """Take the error from the reply of a run if its outputs lack it: they arrive on another
    channel, and some of them may be missing."""
    failed = (run.reply or {}).get("status") == "error"
    if failed and not any(output["output_type"] == "error" for output in run.log.outputs()):
        run.log.add(_output("error", run.reply or {}), 0)


def _output(kind: str, content: Mapping[str, Any]) -> dict[str, Any]:
    """An output as nbformat stores it."""
    if kind == "error":
        return {
            "output_type": "error",
            "ename": str(content.get("ename", "")),
            "evalue": str(content.get("evalue", "")),
            "traceback": [str(line) for line in content.get("traceback") or ()],
        }
    output: dict[str, Any] = {
        "output_type": kind,
        "data": dict(content.get("data") or {}),
        "metadata": dict(content.get("metadata") or {}),
    }
    if kind == "execute_result":
        output["execution_count"] = content.get("execution_count")
    return output
