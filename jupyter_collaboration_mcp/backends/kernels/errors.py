"""Errors of kernels, in words for an agent, wherever the kernel runs."""

from __future__ import annotations

from ...errors import KernelUnavailable
from ...remedies import Intent


def gone(kernel_id: str) -> KernelUnavailable:
    """The kernel no longer exists."""
    return KernelUnavailable(
        f"The kernel {kernel_id} is gone.",
        "Run the cell again: a new kernel is started.",
        kernel_id=kernel_id,
    )


def ended_early(label: str, kernel_id: str) -> KernelUnavailable:
    """The kernel ended before it could be used."""
    return KernelUnavailable(
        f"The kernel {label} ended while it started.",
        Intent.LIST_KERNELS_AND_RERUN,
        kernel_id=kernel_id,
    )


def does_not_answer(label: str, kernel_id: str) -> KernelUnavailable:
    """The kernel is alive, but silent."""
    return KernelUnavailable(
        f"The kernel {label} does not answer.",
        Intent.RESTART_KERNEL,
        kernel_id=kernel_id,
    )


def not_started(name: str, reason: str) -> KernelUnavailable:
    """The server could not start a kernel of this name."""
    return KernelUnavailable(
        f"The kernel {name!r} could not be started: {reason}. Nothing was run.",
        Intent.CHOOSE_KERNEL,
        kernel=name,
    )


def not_restarted(kernel_id: str, reason: str) -> KernelUnavailable:
    """The kernel did not come back after a restart. The reason is a whole sentence."""
    return KernelUnavailable(
        f"The kernel did not come back after the restart: {reason} Its variables are lost.",
        Intent.CHANGE_KERNEL_OR_ASK,
        kernel_id=kernel_id,
    )


def gateway_silent(about: str, reason: str) -> KernelUnavailable:
    """A kernel gateway does not answer.

    Args:
        about: What it was asked about.
    """
    return KernelUnavailable(
        f"The kernel gateway of this Jupyter server does not answer about {about}: "
        f"{reason.rstrip('.')}. Nothing was run.",
        "Try again in a while; if it stays so, ask the person to look at the gateway.",
    )
