"""The floor under running: a kernel of the benchmark's own, asked over bare ZeroMQ."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.manager import start_new_async_kernel


class BareKernel:
    """jupyter_client at a kernel, with nothing in between."""

    def __init__(self, client: AsyncKernelClient) -> None:
        self._client = client

    async def run(self, code: str) -> None:
        """Run code and read everything that comes of it."""
        request = self._client.execute(code)
        while True:
            message = await self._client.get_iopub_msg(timeout=120)
            ours = message["parent_header"].get("msg_id") == request
            if ours and message["content"].get("execution_state") == "idle":
                break
        while True:
            reply = await self._client.get_shell_msg(timeout=120)
            if reply["parent_header"].get("msg_id") == request:
                return


@asynccontextmanager
async def bare_kernel() -> AsyncIterator[BareKernel]:
    """A Python kernel that is ready."""
    manager, client = await start_new_async_kernel(kernel_name="python3")
    try:
        yield BareKernel(client)
    finally:
        client.stop_channels()
        await manager.shutdown_kernel(now=True)
