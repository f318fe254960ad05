"""The command ends when it is told to, whoever holds its standard input, and leaves nothing."""

from __future__ import annotations

import asyncio
import re
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest

from tests.harness.waiting import until

from .held import Command, gone

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(240)]

NOWHERE = "--server=http://127.0.0.1:9/"


@pytest.fixture
def commands() -> Iterator[list[Command]]:
    started: list[Command] = []
    yield started
    for command in started:
        command.close()


SIGNALS = pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["int", "term"]
)


@SIGNALS
async def test_a_stdio_command_ends_on_a_signal_although_its_input_stays_open(
    tmp_path: Path, commands: list[Command], number: int, code: int
) -> None:
    command = Command(tmp_path, NOWHERE)
    commands.append(command)
    await command.answers()
    command.process.send_signal(number)
    await command.ends_with(code)


@SIGNALS
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_the_embedded_server_and_its_kernels_end_with_the_command(
    tmp_path: Path, commands: list[Command], transport: str, number: int, code: int
) -> None:
    command = Command(tmp_path, f"--transport={transport}", "--bearer-token=b")
    commands.append(command)
    await until(lambda: "Jupyter runs at" in command.said, timeout=60)
    if transport == "stdio":
        await command.answers()
    else:
        await until(lambda: "MCP at" in command.said, timeout=60)
    children = command.children()
    assert children
    command.process.send_signal(number)
    await command.ends_with(code)
    await until(lambda: all(map(gone, children)), timeout=60)
    assert command.left() == []
    assert re.search(r"Jupyter runs at http://127\.0\.0\.1:\d+/\S+", command.said)


async def test_a_server_that_is_still_starting_is_not_left_behind(
    tmp_path: Path, commands: list[Command]
) -> None:
    command = Command(tmp_path)
    commands.append(command)
    await until(command.children, timeout=60)
    await command.answers()
    children = command.children()
    command.process.send_signal(signal.SIGTERM)
    await command.ends_with(143)
    await until(lambda: all(map(gone, children)), timeout=60)
    assert command.left() == []


async def test_a_second_signal_ends_the_command_at_once(
    tmp_path: Path, commands: list[Command]
) -> None:
    command = Command(tmp_path, "--transport=http", "--bearer-token=b")
    commands.append(command)
    await until(lambda: "Jupyter runs at" in command.said and "MCP at" in command.said, timeout=60)
    found = re.search(r"MCP at http://127\.0\.0\.1:(\d+)", command.said)
    assert found is not None
    (server,) = psutil.Process(command.process.pid).children()
    server.suspend()  # so that the first signal has to wait for it
    command.process.send_signal(signal.SIGINT)
    await until(lambda: not _listens(int(found[1])))
    assert command.process.poll() is None
    command.process.send_signal(signal.SIGINT)
    assert await asyncio.to_thread(command.process.wait, 60) == 130
    # Had it waited for the server, it would have killed it in the end.
    assert server.status() == psutil.STATUS_STOPPED
    server.resume()
    await until(lambda: gone(server), timeout=60)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


async def test_files_of_a_killed_command_are_removed_by_the_next(
    tmp_path: Path, commands: list[Command]
) -> None:
    killed = Command(tmp_path)
    commands.append(killed)
    await until(lambda: "Jupyter runs at" in killed.said, timeout=60)
    children = killed.children()
    killed.process.kill()
    killed.process.wait()
    await until(lambda: all(map(gone, children)), timeout=60)
    assert any(name.endswith(f"-{killed.process.pid}.log") for name in killed.left())
    other = tmp_path / "runtime" / "collaboration-mcp-notes.log"
    other.write_text("of somebody else")
    following = Command(tmp_path, "--no-embedded")
    commands.append(following)
    await following.answers()
    assert following.left() == [other.name]
