"""Errors of runs and kernels."""

from __future__ import annotations

from .base import CollaborationError


class ExecutionError(CollaborationError):
    code = "execution_error"


class NotCode(ExecutionError):
    code = "not_code"


class KernelUnavailable(ExecutionError):
    code = "kernel_unavailable"


class KernelBusy(ExecutionError):
    code = "kernel_busy"


class KernelLost(ExecutionError):
    code = "kernel_lost"


class InterruptIgnored(ExecutionError):
    code = "interrupt_ignored"


class RunNotFound(ExecutionError):
    code = "run_not_found"


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
