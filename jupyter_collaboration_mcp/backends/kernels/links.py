"""The links of one server: one for each kernel, shared by all callers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from ...owned_tasks import OwnedTasks
from .conversation import KernelConversation


class KernelLinks:
    """Opens a link to a kernel once, and closes it when it is no longer useful."""

    def __init__(self) -> None:
        self._links: dict[str, KernelConversation] = {}
        self._opening: dict[str, asyncio.Task[KernelConversation]] = {}
        self._tasks = OwnedTasks()

    def get(self, kernel_id: str) -> KernelConversation | None:
        """The link to a kernel, if there is one; it may be over."""
        return self._links.get(kernel_id)

    async def connect(
        self,
        kernel_id: str,
        open_link: Callable[[], Coroutine[Any, Any, KernelConversation]],
    ) -> KernelConversation:
        """Return the link to a kernel; open one if there is none, once for all concurrent callers.

        Raises:
            Exception: Whatever `open_link` raises.
        """
        await self.close_dead()
        if (link := self._links.get(kernel_id)) is not None:
            return link
        task = self._opening.get(kernel_id)
        if task is None:
            task = self._tasks.start(self._open(kernel_id, open_link))
            self._opening[kernel_id] = task
            task.add_done_callback(lambda _: self._opening.pop(kernel_id, None))
        return await asyncio.shield(task)

    async def _open(
        self,
        kernel_id: str,
        open_link: Callable[[], Coroutine[Any, Any, KernelConversation]],
    ) -> KernelConversation:
        link = self._links[kernel_id] = await open_link()
        return link

    async def close_dead(self) -> None:
        """Close links to kernels that are gone, which would try to reach them forever."""
        for kernel_id, link in list(self._links.items()):
            if link.over:
                await self.drop(kernel_id)

    async def drop(self, kernel_id: str) -> None:
        """Close the link to a kernel, if there is one."""
        if (link := self._links.pop(kernel_id, None)) is not None:
            await link.close()

    def take(self, kernel_id: str) -> KernelConversation | None:
        """Hand over the link to a kernel to a caller that closes it."""
        return self._links.pop(kernel_id, None)

    async def close(self) -> None:
        """Close all links."""
        await self._tasks.close()
        for kernel_id in list(self._links):
            await self.drop(kernel_id)
