"""Copying a file or a folder from an open descriptor, so that exactly what was permitted is copied.

A path could lead elsewhere by the time it is opened again.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from pathlib import Path

from ..protocols.files import CHECKPOINTS
from .open_files import open_within

#: Bytes that are copied at a time.
_CHUNK = 1_000_000


def copy_opened(file: int, target: Path, names: frozenset[str] | None) -> None:
    """Copy an open file or folder with its times and modes, without Jupyter's checkpoints.

    Args:
        names: What may be copied of a folder, as relative paths; None for all of it. Links are
            copied as links.

    Raises:
        FileExistsError: The target exists.
        OSError: It cannot be copied.
    """
    mode = os.fstat(file).st_mode
    if stat.S_ISDIR(mode):
        _copy_folder(file, target, names, "")
    elif stat.S_ISREG(mode):
        _copy_file(file, target)
    else:
        raise shutil.SpecialFileError(f"{target.name!r} is neither a file nor a folder")


def _copy_folder(folder: int, target: Path, names: frozenset[str] | None, within: str) -> None:
    target.mkdir()
    for name in os.listdir(folder):
        path = f"{within}{name}"
        if name == CHECKPOINTS or (names is not None and path not in names):
            continue
        if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            (target / name).symlink_to(os.readlink(name, dir_fd=folder))
            continue
        file = open_within(folder, name)
        try:
            if stat.S_ISDIR(os.fstat(file).st_mode):
                _copy_folder(file, target / name, names, f"{path}/")
            else:
                copy_opened(file, target / name, names)
        finally:
            os.close(file)
    _copy_facts(folder, target)


def _copy_file(file: int, target: Path) -> None:
    with open(file, "rb", closefd=False) as source, target.open("xb") as copy:
        shutil.copyfileobj(source, copy, _CHUNK)
    _copy_facts(file, target)


def _copy_facts(file: int, target: Path) -> None:
    """Copy times, attributes and modes, as `shutil.copystat` does by path."""
    facts = os.fstat(file)
    os.utime(target, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    if hasattr(os, "listxattr"):
        with contextlib.suppress(OSError):  # another file system may not support them
            for name in os.listxattr(file):
                os.setxattr(target, name, os.getxattr(file, name))
    target.chmod(stat.S_IMODE(facts.st_mode))
