"""What one thread has freed, another can use."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.harness.jupyter import REPOSITORY

COUNT = """
import ctypes
import threading

from jupyter_collaboration_mcp.backends.upstream.thread_arenas import share_one_heap

{apply}
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
together = threading.Barrier(5)


def allocate():
    together.wait()
    assert libc.malloc(1_000)
    together.wait()


threads = [threading.Thread(target=allocate) for _ in range(4)]
for thread in threads:
    thread.start()
together.wait()
together.wait()
for thread in threads:
    thread.join()
libc.fdopen.restype = ctypes.c_void_p
libc.malloc_info(0, ctypes.c_void_p(libc.fdopen(1, b"w")))
libc.fflush(None)
"""


def heaps(apply: str, **environment: str) -> int:
    variables = {name: value for name, value in os.environ.items() if "MALLOC" not in name}
    done = subprocess.run(
        [sys.executable, "-c", COUNT.format(apply=apply)],
        cwd=REPOSITORY,
        env={**variables, **environment},
        capture_output=True,
        check=True,
    )
    return done.stdout.count(b"<heap ")


@pytest.mark.skipif(sys.platform != "linux", reason="about glibc")
def test_threads_share_one_heap_unless_a_person_has_decided_otherwise() -> None:
    assert heaps("") > 1
    assert heaps("share_one_heap()") == 1
    assert heaps("share_one_heap()", MALLOC_ARENA_MAX="3") > 1
