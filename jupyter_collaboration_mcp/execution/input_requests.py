"""Code that requests input: who may answer, and what happens if nobody does."""

from __future__ import annotations

import time

from ..backends.protocols.kernels import KernelMessage
from ..documents.foreign_text import inline, quoted
from ..errors import InputMissing, NoInputWanted, SecretRefused
from ..remedies import Intent
from .run import Run, RunState


def take_input_request(run: Run, message: KernelMessage) -> bool:
    """Make a run wait for input; False if it asks for a secret, and must be interrupted."""
    prompt = str(message.content.get("prompt", ""))
    if message.content.get("password"):
        run.error = SecretRefused(
            f"The code asked for a secret ({inline(prompt.strip() or 'getpass')}), and agents "
            "are not given any; it was interrupted.",
            "Let the person run this cell in JupyterLab, or read the secret from the "
            "environment of the kernel.",
        )
        return False
    run.prompt = prompt
    run.waiting_since = time.monotonic()
    run.become(RunState.input_required)
    return True


def take_answer(run: Run, text: str) -> None:
    """Continue a run. As in JupyterLab, question and answer stay in the output."""
    run.log.print("stdout", f"{run.prompt or ''}{text}\n")
    run.prompt = None
    run.heard = time.monotonic()
    run.become(RunState.working)


def wants_no_input(run: Run) -> NoInputWanted:
    """The error for an answer to a run that is not waiting for one."""
    return NoInputWanted(
        f"{run.id} does not wait for an answer; it is {run.state}.",
        Intent.CHECK_RUN,
        run_id=run.id,
        state=run.state.value,
    )


def input_missing(run: Run, limit: float) -> InputMissing:
    """The error of a run whose question nobody answered in time."""
    return InputMissing(
        f"The code asked {quoted(run.prompt or '')} and nobody answered for {limit:g} s; it was "
        "interrupted.",
        Intent.RERUN_AND_ANSWER,
    )
