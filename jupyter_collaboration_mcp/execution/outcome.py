"""How a run ended, and how to report it."""

from __future__ import annotations

from typing import Any

from ..backends.protocols.kernels import Fate
from ..documents.foreign_text import quoted
from ..errors import KernelLost, RunBroken
from ..remedies import Intent
from .run import Run, RunState

#: Seconds that an interrupt has to take effect.
INTERRUPT_LIMIT = 5.0

#: What Python raises in code that is interrupted.
_INTERRUPTION = "KeyboardInterrupt"

_FATES: dict[Fate, tuple[str, str]] = {
    "died": (
        "died",
        " It crashed, exited or ran out of memory; Jupyter starts it again by itself.",
    ),
    "restarted": ("was restarted", ""),
    "gone": ("was shut down, culled or replaced", ""),
    "unreachable": (
        "cannot be reached any more",
        " Whether it still works on this is not known.",
    ),
    "alive": ("is there, but the connection to it was given up", ""),
}


def outcome(run: Run) -> RunState:
    """The state in which a run ends, according to the kernel."""
    status = (run.reply or {}).get("status")
    if status == "ok":
        return RunState.completed
    if status == "aborted" or was_interrupted(run):
        return RunState.cancelled
    return RunState.failed


def was_interrupted(run: Run) -> bool:
    """Whether code that ended with an error did so because it was interrupted.

    Coroutines and libraries turn an interrupt into other errors. If the kernel dropped its reply,
    only the output shows that a person interrupted it.
    """
    if run.interrupted is not None and run.heard - run.interrupted < INTERRUPT_LIMIT:
        return True
    if run.reply is not None:
        return run.reply.get("ename") == _INTERRUPTION
    return any(
        output.get("ename") == _INTERRUPTION
        or (output.get("name") == "stderr" and _INTERRUPTION in output["text"])
        for output in run.log.outputs()
    )


def is_stopped(run: Run | None) -> bool:
    """Whether a run was interrupted, and the kernel is done with it."""
    return run is not None and run.interrupted is not None and (run.idle or run.over)


def has_failed_predecessor(run: Run) -> bool:
    """Whether a run that this one was to follow did not succeed."""
    return run.batch.stop_on_error and any(
        before.over and before.state is not RunState.completed for before in run.batch.after
    )


def why_cancelled(run: Run) -> str:
    """Why a run was cancelled."""
    if (run.reply or {}).get("status") == "aborted":
        return "the kernel dropped it each time, because something before it failed"
    return "it was interrupted"


def kernel_lost(fate: Fate, run: Run | None) -> KernelLost:
    """The error of a run whose kernel no longer exists.

    Args:
        run: None if it had not started.
    """
    happened, more = _FATES[fate]
    when = "before this could run" if run is None else "while this ran"
    kept = "" if run is None else " What this had put out until then is kept."
    lost = "" if fate == "unreachable" else " All its variables are lost."
    next_step = (
        Intent.CHECK_KERNEL_LATER
        if fate == "unreachable"
        else "Run the cells that define what you need, then this one again."
    )
    return KernelLost(f"The kernel {happened} {when}.{more}{lost}{kept}", next_step, fate=fate)


def kernel_lost_output(fate: Fate) -> dict[str, Any]:
    """The last output of a cell whose kernel no longer exists."""
    happened, more = _FATES[fate]
    said = f"The kernel {happened} while this ran.{more}"
    name = "KernelDied" if fate == "died" else "KernelLost"
    traceback = [f"{name}: {said}"]
    return {"output_type": "error", "ename": name, "evalue": said, "traceback": traceback}


def run_broken(error: BaseException) -> RunBroken:
    """The error of a run that we could not follow to its end."""
    return RunBroken(
        f"The run could not be followed to its end: {type(error).__name__}: {quoted(error)}",
        Intent.CHECK_BEFORE_RERUN,
    )
