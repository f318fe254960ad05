"""A command that is forked behaves as one that was started."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import forking


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A forked process that serves until it is ended, and its port."""
    command = [*forking.command("http.server"), "--bind=127.0.0.1", "0"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = re.search(r"port (\d+)", process.stdout.readline())
        assert found is not None
        yield process, int(found[1])
        process.kill()


def test_a_forked_command_says_and_returns_what_its_module_does(tmp_path: Path) -> None:
    def ended(*command: str) -> tuple[int, str, str]:
        done = subprocess.run(
            [*command, "-", "two"], cwd=tmp_path, input="[1, 2", capture_output=True, text=True
        )
        return done.returncode, done.stdout, done.stderr

    forked = ended(*forking.command("json.tool"))
    assert forked == ended(sys.executable, "-m", "json.tool")
    assert forked[0] == 1


def test_a_forked_command_has_the_environment_and_directory_of_who_starts_it(
    tmp_path: Path,
) -> None:
    (tmp_path / "shown.py").write_text("import os; print(os.getcwd(), os.environ['MARK'])")
    env = {"PYTHONPATH": str(tmp_path), "MARK": "this one"}
    shown = subprocess.check_output(forking.command("shown"), cwd=tmp_path, env=env, text=True)
    assert shown == f"{tmp_path} this one\n"


def test_a_signal_reaches_a_forked_command(serving: tuple[subprocess.Popen[str], int]) -> None:
    process, port = serving
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == -signal.SIGTERM
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


def test_a_forked_command_ends_with_the_process_that_was_started(
    serving: tuple[subprocess.Popen[str], int],
) -> None:
    process, port = serving
    assert process.stdout is not None
    process.kill()
    process.stdout.read()  # until the fork has closed it, too
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))
