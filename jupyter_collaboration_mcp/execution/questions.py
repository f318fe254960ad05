"""Questions to a kernel that are not runs: they leave no output, no history and no count."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import Any

from ..backends.protocols.kernels import KernelLink, KernelMessage
from ..errors import KernelLost, KernelUnavailable
from ..remedies import Intent

#: Questions that are remembered: the kernel may still work on one after its timeout.
_REMEMBERED = 50


class Questions:
    """The questions to one kernel process, apart from all runs."""

    def __init__(self, link: KernelLink) -> None:
        self._link = link
        self._unanswered: dict[str, _Question] = {}
        self._asked: deque[str] = deque()

    def __contains__(self, request: object) -> bool:
        """Whether a request is one of the latest questions, answered or not."""
        return request in self._asked

    async def ask(self, expressions: Mapping[str, str], timeout: float) -> dict[str, Any]:
        """Evaluate expressions silently; returns the content of the kernel's reply.

        Raises:
            KernelUnavailable: The kernel did not answer in time.
            KernelLost: It is gone.
        """
        request = self._link.execute(
            "",
            silent=True,
            store_history=False,
            allow_stdin=False,
            user_expressions=expressions,
        )
        question = self._unanswered[request] = _Question()
        if len(self._asked) == _REMEMBERED:
            self._link.forget(self._asked.popleft())
        self._asked.append(request)
        try:
            async with asyncio.timeout(timeout):
                content = await question.answer
        except TimeoutError as error:
            raise KernelUnavailable(
                f"The kernel did not answer within {timeout:g} s.",
                Intent.CHECK_KERNEL,
            ) from error
        finally:
            del self._unanswered[request]
        return dict(content)

    def receive(self, message: KernelMessage) -> None:
        """Handle a message about any request."""
        if (question := self._unanswered.get(message.parent)) is not None:
            question.receive(message)

    def fail(self, error: KernelLost) -> None:
        """Fail all questions: the kernel will answer none of them."""
        for question in self._unanswered.values():
            if not question.answer.done():
                question.answer.set_exception(error)


class _Question:
    def __init__(self) -> None:
        self.answer: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()
        self._reply: Mapping[str, Any] | None = None
        self._idle = False

    def receive(self, message: KernelMessage) -> None:
        """Handle a message. The kernel reports on another channel that it is done."""
        if message.type == "execute_reply":
            self._reply = message.content
        elif message.type == "status":
            self._idle = self._idle or message.content.get("execution_state") == "idle"
        if self._reply is not None and self._idle and not self.answer.done():
            self.answer.set_result(self._reply)
