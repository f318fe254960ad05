"""Which running kernel is that of a document, or of a fork of one."""

from __future__ import annotations

from ..backends.protocols.forks import kernel_file
from ..backends.protocols.kernels import KernelInfo, Kernels
from ..backends.protocols.room_ids import RoomId


async def kernel_of(kernels: Kernels, room_id: RoomId, path: str) -> KernelInfo | None:
    """The kernel of a document, if it has one.

    Args:
        path: Of the room, which may not be the one under which the document was opened.
    """
    info = await kernels.find(path)
    if info is None and room_id.is_fork:
        return await kernel_of_fork(kernels, room_id.file_id)
    return info


async def kernel_of_fork(kernels: Kernels, fork_id: str) -> KernelInfo | None:
    """The kernel of a fork, whose root may have been in another folder when it was started."""
    name = kernel_file(fork_id)
    running = await kernels.running()
    return next((each for each in running if (each.path or "").split("/")[-1] == name), None)
