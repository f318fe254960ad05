"""`python -m bench.watchers URL TOKEN MODE COUNT URI`: many clients that watch one document.

They are in a process of their own, so that what they receive costs the benchmark nothing. It prints
a line when all have subscribed; when its input ends, it prints how many notifications have come.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any
from urllib.parse import urlencode

from mcp import Client

from tests.harness.agents import AgentClient
from tests.harness.subscribers import subscribed


async def main(url: str, token: str, mode: str, count: int, uri: str) -> None:
    async with AsyncExitStack() as stack:
        heard = [
            await stack.enter_async_context(subscribed(_connect(url, token, number), mode, [uri]))
            for number in range(count)
        ]
        print(flush=True)
        await asyncio.to_thread(sys.stdin.read)
        print(sum(len(each.uris) for each in heard), flush=True)
        os._exit(0)  # a hundred streams end with complaints of the SDK


def _connect(url: str, token: str, number: int) -> Any:
    @asynccontextmanager
    async def connect(mode: str, on_message: Any) -> AsyncIterator[AgentClient]:
        asked = urlencode({"token": token, "agent": f"Watcher {number}"})
        async with Client(f"{url}mcp?{asked}", mode=mode, message_handler=on_message) as client:
            yield AgentClient(client)

    return connect


if __name__ == "__main__":
    url, token, mode, count, uri = sys.argv[1:]
    asyncio.run(main(url, token, mode, int(count), uri))
