"""Errors of runs and kernels."""

from __future__ import annotations

from collections.abc import Sequence

from ..remedies import Intent, Remedy
from .base import CollaborationError


class ExecutionError(CollaborationError):
    code = "execution_error"


class NotCode(ExecutionError):
    code = "not_code"


class KernelUnavailable(ExecutionError):
    code = "kernel_unavailable"

    @classmethod
    def not_installed(
        cls, what: str, name: str, installed: Sequence[str], listed: str
    ) -> KernelUnavailable:
        """Args:
        listed: The names of those that are installed, made safe to put into a sentence.
        """
        return cls(
            f"{what} {name!r} is not installed here. Nothing was started.",
            Remedy(Intent.CHANGE_KERNEL, {"kernels": listed or "none is installed"}),
            kernel=name,
            installed=list(installed),
        )


class KernelBusy(ExecutionError):
    code = "kernel_busy"


class KernelLost(ExecutionError):
    code = "kernel_lost"


class InterruptIgnored(ExecutionError):
    code = "interrupt_ignored"


class RunNotFound(ExecutionError):
    code = "run_not_found"

    @classmethod
    def among_last(cls, count: int, run_id: str) -> RunNotFound:
        return cls(
            f"There is no run {run_id!r}: the last {count} are remembered, until the server "
            "restarts.",
            Intent.READ_OUTPUTS,
            run_id=run_id,
        )


class RunBroken(ExecutionError):
    code = "run_broken"


class InputMissing(ExecutionError):
    code = "input_missing"


class NoInputWanted(ExecutionError):
    code = "no_input_wanted"


class SecretRefused(ExecutionError):
    code = "secret_refused"


class OutputGone(ExecutionError):
    code = "output_gone"
