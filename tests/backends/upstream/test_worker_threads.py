"""A process ends, whatever tasks its loop has left behind."""

from __future__ import annotations

import subprocess
import sys

from tests.harness.jupyter import REPOSITORY

LEFT_BEHIND = """
import asyncio
import time

import anyio.to_thread

from jupyter_collaboration_mcp.backends.upstream.worker_threads import end_waiting_threads_at_exit

{register}


async def work():
    await anyio.to_thread.run_sync(time.sleep, 0)
    loop.call_soon(loop.stop)
    await asyncio.Event().wait()  # and nobody runs it any more


loop = asyncio.new_event_loop()
task = loop.create_task(work())
loop.run_forever()
print("stopped", flush=True)
"""


def ends(register: str, within: float) -> bool:
    script = LEFT_BEHIND.format(register=register)
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", script], cwd=REPOSITORY, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == b"stopped\n"
        try:
            process.wait(within)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return False
        return True


def test_an_idle_worker_thread_does_not_keep_the_process_alive() -> None:
    assert not ends("", within=1)  # what anyio does without us
    assert ends("end_waiting_threads_at_exit()", within=60)
