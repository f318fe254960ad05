"""Kernel managers of a Jupyter server: one that a test holds at each start, and a deaf one."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from jupyter_server.services.kernels.kernelmanager import AsyncMappingKernelManager


class HeldKernels(AsyncMappingKernelManager):
    """Waits at the gate of the environment variable `HELD_KERNELS`, as `Gate` names its files."""

    async def start_kernel(self, **options: Any) -> str:  # type: ignore[override]
        gate = Path(os.environ["HELD_KERNELS"])
        gate.with_suffix(".reached").touch()
        while not gate.exists():
            await asyncio.sleep(0.01)
        return str(await super().start_kernel(**options))


class DeafKernels(AsyncMappingKernelManager):
    """Misses all that kernels report about their state, as it may miss the first of it."""

    def start_watching_activity(self, kernel_id: str) -> None:
        super().start_watching_activity(kernel_id)  # type: ignore[no-untyped-call]
        self._kernels[kernel_id]._activity_stream.on_recv(lambda message: None)
