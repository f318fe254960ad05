"""Ends threads that would keep a stopped server from exiting."""

from __future__ import annotations

import threading

from .workaround import Server, Workaround, missing_fields

_registered = threading.Event()


class WorkerThreads(Workaround):
    name = "worker_threads"
    package = "anyio"
    fault = (
        "A worker thread ends only when the task ends that first used it. jupyter-server-ydoc "
        "leaves tasks behind that write to its store when it is stopped; no loop runs them any "
        "more, so their threads wait for work for ever, and the process waits for the threads."
    )
    patches = ("threading._register_atexit", "WorkerThread.queue")
    without = "a Jupyter server that is stopped may never end"

    def check(self, server: Server) -> list[str]:
        from anyio._backends._asyncio import WorkerThread

        found = missing_fields(WorkerThread, "queue")
        if not hasattr(threading, "_register_atexit"):
            found.append("threading has no _register_atexit")
        return found

    def apply(self, server: Server) -> None:
        end_waiting_threads_at_exit()


def end_waiting_threads_at_exit() -> None:
    """Make threads that only wait for work end when the interpreter does."""
    if not _registered.is_set():
        _registered.set()
        # Like concurrent.futures: before the interpreter waits for threads, not after.
        threading._register_atexit(_end_waiting)  # type: ignore[attr-defined]


def _end_waiting() -> None:
    for thread in threading.enumerate():
        if type(thread).__name__ == "WorkerThread" and type(thread).__module__.startswith("anyio"):
            thread.queue.put_nowait(None)  # type: ignore[attr-defined]
