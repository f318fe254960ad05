"""A server of our own starts quietly, is private, and never outlives us."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest

from jupyter_collaboration_mcp.backends.remote.jupyter_api import JupyterApi
from jupyter_collaboration_mcp.backends.remote.server_address import ServerAddress
from jupyter_collaboration_mcp.errors import ServerUnreachable, TokenRefused
from jupyter_collaboration_mcp.standalone import embedded
from jupyter_collaboration_mcp.standalone.discovery import running_servers
from jupyter_collaboration_mcp.standalone.embedded import EmbeddedServer
from tests.harness import notebooks
from tests.harness.collaborator import Collaborator
from tests.harness.waiting import until

from .held import gone

pytestmark = pytest.mark.anyio

PARENT = """
    import asyncio, json
    from pathlib import Path
    from jupyter_collaboration_mcp.standalone.embedded import EmbeddedServer

    async def main() -> None:
        server = EmbeddedServer()
        address = await server.start(Path({root!r}))
        print(json.dumps([address.url, server._process.pid]), flush=True)
        await asyncio.sleep(600)

    asyncio.run(main())
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An account of its own, whose configuration is as unhelpful as can be."""
    config = {
        "ServerApp": {
            "base_url": "/elsewhere/",
            "ip": "0.0.0.0",
            "jpserver_extensions": {"jupyter_server_ydoc": False, "jupyter_lsp": False},
        },
        "IdentityProvider": {"token": "known to everybody"},
        "YDocExtension": {"disable_rtc": True},
    }
    for name in ("config", "data", "runtime", "root"):
        (tmp_path / name).mkdir()
    (tmp_path / "config" / "jupyter_server_config.json").write_text(json.dumps(config))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    for name in ("CONFIG", "DATA", "RUNTIME"):
        monkeypatch.setenv(f"JUPYTER_{name}_DIR", str(tmp_path / name.lower()))
    monkeypatch.setenv("JUPYTER_TOKEN", "of another server")
    return tmp_path


@pytest.fixture
async def server(home: Path) -> AsyncIterator[EmbeddedServer]:
    server = EmbeddedServer()
    yield server
    await server.stop()


def start_parent(script: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)


def listens(url: str) -> bool:
    host, port = url.split("/")[2].split(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


@pytest.fixture
def started() -> Callable[[], list[psutil.Process]]:
    """What this process has started since; a server that other tests share may run all along."""
    before = psutil.Process().children()
    return lambda: [child for child in psutil.Process().children() if child not in before]


def is_kernel(process: psutil.Process) -> bool:
    try:
        return "ipykernel_launcher" in process.cmdline()
    except psutil.Error:  # JupyterLab has other children, too, which come and go
        return False


async def test_the_server_starts_without_the_slowest_imports(
    server: EmbeddedServer, home: Path
) -> None:
    imported = home / "imported"
    (home / "config" / "jupyter_server_config.py").write_text(
        f"import pathlib, sys\npathlib.Path({str(imported)!r}).write_text(repr(list(sys.modules)))"
    )
    await server.start(home / "root")
    assert "'jsonschema'" in imported.read_text()
    assert "'lark'" not in imported.read_text()


async def test_the_server_is_a_private_jupyterlab_with_collaboration(
    server: EmbeddedServer, home: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    root = home / "root"
    (root / "random.py").write_text("raise SystemExit('a file of the person was imported')")
    (root / "notes.txt").write_text("hello")
    address = await server.start(root)
    api = JupyterApi(address)
    try:
        assert (await api.get("api", "contents", "notes.txt"))["content"] == "hello"
        await api.get("api", "collaboration", "fork", "nowhere")
        assert address.base.startswith("http://127.0.0.1:")
        assert server.lab_url == f"{address.base}lab?token={address.token}"
        (found,) = running_servers(root)
        assert (found.url, found.token, found.root) == (address.url, address.token, root)
        for token in (None, "known to everybody", "of another server"):
            stranger = JupyterApi(ServerAddress(address.url, token))
            with pytest.raises(TokenRefused):
                await stranger.get("api", "contents")
            await stranger.close()
    finally:
        await api.close()
    process = psutil.Process(found.pid)
    assert address.token is not None
    assert address.token not in " ".join(process.cmdline())
    assert process.cwd() == str(root)
    log = server.log.read_text()
    assert "jupyter_server_ydoc | extension was successfully loaded" in log
    assert address.token not in log
    assert server.log.stat().st_mode & 0o077 == 0
    await server.stop()
    assert gone(process)
    assert not listens(address.url)
    assert not server.log.exists()
    assert running_servers() == []
    await server.stop()  # once more does nothing
    assert capfd.readouterr() == ("", "")


async def test_its_kernels_do_not_know_the_token_and_end_with_the_server(
    server: EmbeddedServer, home: Path
) -> None:
    address = await server.start(home / "root")
    api = JupyterApi(address)
    await api.request("POST", "api", "kernels", body={"name": "python3"})
    await api.close()
    (found,) = running_servers()
    (kernel,) = filter(is_kernel, psutil.Process(found.pid).children())
    assert address.token is not None
    assert address.token not in str(kernel.environ())
    await server.stop()
    await until(lambda: gone(kernel), timeout=60)


async def test_the_server_writes_nothing_into_the_directory_by_itself(
    server: EmbeddedServer, home: Path
) -> None:
    """Which need not be writable."""
    root = home / "root"
    notebooks.write(root / "a.ipynb", notebooks.notebook([notebooks.code("one", "1")]))
    address = await server.start(root)
    assert address.token is not None
    async with Collaborator(address.base, address.token, "a.ipynb", "Ana"):
        assert [file.name for file in root.iterdir()] == ["a.ipynb"]
        (store,) = (home / "runtime").glob("collaboration-mcp-*/ystore.db")
        assert store.parent.stat().st_mode & 0o077 == 0
    await server.stop()
    assert not list((home / "runtime").glob("collaboration-mcp-*"))


@pytest.mark.parametrize("when", ["running", "starting"])
async def test_the_server_ends_when_its_parent_is_killed(home: Path, when: str) -> None:
    script = textwrap.dedent(PARENT).format(root=str(home / "root"))
    parent = start_parent(script)
    try:
        if when == "running":
            assert parent.stdout is not None
            url, pid = json.loads(await asyncio.to_thread(parent.stdout.readline))
            child = psutil.Process(pid)
            assert listens(url)
        else:
            await until(lambda: psutil.Process(parent.pid).children(), timeout=60)
            (child,) = psutil.Process(parent.pid).children()
        parent.kill()
        await until(lambda: gone(child), timeout=60)
        if when == "running":
            assert not listens(url)
            assert not list((home / "runtime").glob("jpserver-*"))  # it ended in good order
    finally:
        parent.kill()
        parent.communicate()


async def test_a_server_that_cannot_start_gives_the_reason_and_its_log(
    server: EmbeddedServer, home: Path
) -> None:
    with pytest.raises(ServerUnreachable) as caught:
        await server.start(home / "root" / "missing")
    assert "no directory" in caught.value.happened
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(embedded, "_free_port", lambda: port)
            patch.setattr(embedded, "_ANSWER", 0.5)
            with pytest.raises(ServerUnreachable) as caught:
                await server.start(home / "root")
    assert str(server.log) in caught.value.happened
    assert "already in use" in caught.value.happened
    assert caught.value.detail == {"log": str(server.log)}
    assert server.log.exists()


def never_starts(home: Path) -> None:
    """Have configuration that is read for ever."""
    config = home / "config" / "jupyter_server_config.py"
    config.write_text("import time; time.sleep(600)")


async def test_a_server_that_does_not_answer_is_stopped(
    server: EmbeddedServer,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    started: Callable[[], list[psutil.Process]],
) -> None:
    never_starts(home)
    monkeypatch.setattr(embedded, "START_LIMIT", 0.2)
    with pytest.raises(ServerUnreachable, match=r"did not answer within 0\.2 s"):
        await server.start(home / "root")
    assert not started()


async def test_a_cancelled_start_leaves_nothing_behind(
    server: EmbeddedServer, home: Path, started: Callable[[], list[psutil.Process]]
) -> None:
    never_starts(home)
    starting = asyncio.create_task(server.start(home / "root"))
    await until(started)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert not started()


async def test_a_start_that_is_cancelled_as_the_server_answers_ends(
    server: EmbeddedServer,
    home: Path,
    started: Callable[[], list[psutil.Process]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    asking = asyncio.Event()

    async def get(api: JupyterApi, *parts: str) -> None:
        asking.set()
        await asked
        raise ServerUnreachable("It is starting.", "Wait.")

    monkeypatch.setattr(JupyterApi, "get", get)
    never_starts(home)
    starting = asyncio.create_task(server.start(home / "root"))
    await asking.wait()
    asked.set_result(None)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert not started()


async def test_a_server_that_does_not_stop_is_killed(
    server: EmbeddedServer, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "STOP_LIMIT", 0.2)
    await server.start(home / "root")
    (found,) = running_servers()
    process = psutil.Process(found.pid)
    os.kill(found.pid, signal.SIGSTOP)
    await server.stop()
    assert gone(process)


async def test_jupyter_server_is_started_if_jupyterlab_is_missing(
    server: EmbeddedServer, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    address = await server.start(home / "root")
    assert server.lab_url == f"{address.base}?token={address.token}"
    (found,) = running_servers()
    assert "jupyter_server" in psutil.Process(found.pid).cmdline()
