"""Has all threads of the server allocate from one heap, so that freed memory is used again."""

from __future__ import annotations

import ctypes
import os

from .workaround import Server, Workaround

#: From glibc's malloc.h.
_M_ARENA_MAX = -8

#: What a person who has decided about this has set.
_SET_BY_PEOPLE = ("MALLOC_ARENA_MAX", "GLIBC_TUNABLES")


class ThreadArenas(Workaround):
    name = "thread_arenas"
    package = "glibc"
    fault = (
        "Threads allocate from heaps of their own, up to eight for each processor, and what is "
        "freed in one is of no use to the others. That is made for threads which work at the same "
        "time; those of Python take turns. Where `MALLOC_ARENA_MAX` or `GLIBC_TUNABLES` is set, "
        "this is left as it is."
    )
    patches = ("mallopt(M_ARENA_MAX)",)
    without = "a server keeps some megabytes more once many agents have worked at the same time"

    def check(self, server: Server) -> list[str]:
        if not _is_needed() or hasattr(ctypes.CDLL(None), "mallopt"):
            return []
        return ["glibc has no mallopt"]

    def apply(self, server: Server) -> None:
        share_one_heap()


def share_one_heap() -> None:
    """Let threads that start from now on use the heap of the main thread."""
    if _is_needed():
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


def _is_needed() -> bool:
    """Whether the process runs on glibc, and nobody has decided about its heaps."""
    try:
        library = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (AttributeError, ValueError, OSError):  # not Unix, or another C library
        return False
    return library.startswith("glibc") and not any(map(os.environ.get, _SET_BY_PEOPLE))
