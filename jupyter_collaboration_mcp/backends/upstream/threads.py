"""Ends threads that would keep a stopped server from ending.

A thread of anyio's ends when the task ends that first used it. jupyter-server-ydoc leaves tasks
behind that write to its store when it is stopped; no loop runs them any more, so their threads
wait for work for ever, and the process waits for them.
"""

from __future__ import annotations

import threading

_registered = threading.Event()


def end_with_the_process() -> None:
    """Have threads that only wait for work end when the interpreter does."""
    if not _registered.is_set():
        _registered.set()
        # As concurrent.futures does it: before the interpreter waits for threads, not after.
        threading._register_atexit(_end_waiting)  # type: ignore[attr-defined]


def _end_waiting() -> None:
    for thread in threading.enumerate():
        if type(thread).__name__ == "WorkerThread" and type(thread).__module__.startswith("anyio"):
            thread.queue.put_nowait(None)  # type: ignore[attr-defined]
