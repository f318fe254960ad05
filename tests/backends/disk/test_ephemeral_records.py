"""What a process leaves for the next one to remove, if it is killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from jupyter_collaboration_mcp.backends.disk.ephemeral_records import EphemeralRecords

_KILLED = """
import os, pathlib, signal
from jupyter_collaboration_mcp.backends.disk.ephemeral_records import EphemeralRecords
records = EphemeralRecords(pathlib.Path({directory!r}))
records.add("a", {{"path": "a.ipynb"}})
records.add("b", {{"path": "b.ipynb"}})
records.drop("a")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_records_of_a_killed_process_are_adopted_once(tmp_path: Path) -> None:
    killed = [sys.executable, "-c", _KILLED.format(directory=str(tmp_path / "records"))]
    subprocess.run(killed, check=False, timeout=60)
    (file,) = (tmp_path / "records").iterdir()
    with file.open("a") as opened:
        opened.write('{"key": "c", "pa')  # cut off
    first, second = (EphemeralRecords(tmp_path / "records") for _ in range(2))
    assert first.left()
    assert first.adopt() == {"b": {"path": "b.ipynb"}}
    assert second.adopt() == {}
    first.close()
    assert second.adopt() == {"b": {"path": "b.ipynb"}}  # what the first has not removed
    second.drop("b")
    second.close()
    assert not (tmp_path / "records").exists()


def test_records_of_a_living_process_are_its_own(tmp_path: Path) -> None:
    living, other = EphemeralRecords(tmp_path), EphemeralRecords(tmp_path)
    assert not living.left()
    living.add("a", {"path": "a.ipynb"})
    assert not living.left()
    assert other.left()
    assert other.adopt() == {}
    living.drop("a")
    living.drop("a")
    living.close()
    assert list(tmp_path.iterdir()) == [] if tmp_path.exists() else True
    assert other.adopt() == {}


def test_where_nothing_can_be_written_the_caller_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    records = EphemeralRecords(tmp_path / "file")
    with pytest.raises(OSError, match=r"."):
        records.add("a", {})
    records.close()
