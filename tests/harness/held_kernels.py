"""A kernel manager of a Jupyter server that starts kernels when a test lets it."""

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
