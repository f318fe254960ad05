"""What this process has to remove, on disk, so that another one does it if this one is killed.

Each process has a file of its own in a shared directory, and holds its lock while it lives: a file
that can be locked is that of a process that has ended. Everything here blocks.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import Iterable, Mapping
from io import TextIOWrapper
from pathlib import Path
from typing import Any

from .locks import CAN_LOCK, lock

#: Bytes of a file of records that are read.
_LARGEST = 10_000_000


class EphemeralRecords:
    """The records of one process. Each is a line; the last line of a record counts."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._path = directory / f"{os.getpid()}-{secrets.token_hex(4)}.jsonl"
        self._held: TextIOWrapper | None = None
        self._records: dict[str, Mapping[str, Any]] = {}

    def add(self, key: str, record: Mapping[str, Any]) -> None:
        """Remember something.

        Raises:
            OSError: It cannot be written.
        """
        self._write([{"key": key, **record}])
        self._records[key] = record

    def drop(self, key: str) -> None:
        """Forget something. If that cannot be written, whoever reads it finds nothing to remove."""
        if self._records.pop(key, None) is None:
            return
        with contextlib.suppress(OSError):
            self._write([{"key": key, "gone": True}])
            if not self._records and self._held is not None:
                os.ftruncate(self._held.fileno(), 0)

    def left(self) -> bool:
        """Whether there may be records of processes that have ended; cheap."""
        try:
            return any(file != self._path for file in self._directory.glob("*.jsonl"))
        except OSError:
            return False

    def adopt(self) -> dict[str, Mapping[str, Any]]:
        """Take over the records of processes that have ended."""
        adopted: dict[str, Mapping[str, Any]] = {}
        if not CAN_LOCK:  # it cannot be known which have ended
            return adopted
        for file in sorted(self._directory.glob("*.jsonl")):
            if file == self._path:
                continue
            with contextlib.suppress(OSError), lock(file):
                found = _read(file)
                self._write([{"key": key, **record} for key, record in found.items()])
                self._records.update(found)
                adopted.update(found)
                file.unlink()
        return adopted

    def close(self) -> None:
        """Release the file; it stays if there is something left to remove."""
        held, self._held = self._held, None
        if held is not None:
            if not self._records:
                self._path.unlink(missing_ok=True)
            held.close()
            with contextlib.suppress(OSError):
                self._directory.rmdir()  # if it is empty

    def _write(self, lines: Iterable[Mapping[str, Any]]) -> None:
        if self._held is None:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._held = lock(self._path)
        text = "".join(f"{json.dumps(line)}\n" for line in lines)
        os.lseek(self._held.fileno(), 0, os.SEEK_END)
        os.write(self._held.fileno(), text.encode())


def _read(file: Path) -> dict[str, Mapping[str, Any]]:
    """The records in a file; a line that a crash has cut off is none."""
    records: dict[str, Mapping[str, Any]] = {}
    with file.open(encoding="utf-8", errors="replace") as opened:
        for line in opened.read(_LARGEST).splitlines():
            with contextlib.suppress(ValueError, KeyError, TypeError):
                record = json.loads(line)
                key = str(record.pop("key"))
                if record.get("gone"):
                    records.pop(key, None)
                else:
                    records[key] = record
    return records
