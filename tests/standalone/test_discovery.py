"""Running servers are found by the files that Jupyter leaves, whatever else lies there."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jupyter_collaboration_mcp.standalone.discovery import (
    EMBEDDED_BASE,
    is_alive,
    is_here,
    root_at,
    running_servers,
    token_for,
)
from tests.conftest import MakeServer


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / "runtime"
    directory.mkdir()
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(directory))
    return directory


@pytest.fixture
def port() -> Iterator[int]:
    """Something listens there."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


class Files:
    """Runtime files, written as Jupyter would."""

    def __init__(self, runtime: Path, port: int) -> None:
        self.runtime, self.port, self.count = runtime, port, 0

    def write(self, root: str | Path = "/", prefix: str = "jpserver", **changes: Any) -> Path:
        self.count += 1
        port = changes.pop("port", self.port)
        base_url = changes.get("base_url", "/")
        info = {
            "base_url": base_url,
            "hostname": "localhost",
            "password": False,
            "pid": os.getpid(),
            "port": port,
            "root_dir": str(root),
            "secure": False,
            "sock": "",
            "token": f"token{self.count}",
            "url": f"http://localhost:{port}{base_url}",
            "version": "2.21.1",
            **changes,
        }
        file = self.runtime / f"{prefix}-{self.count}.json"
        file.write_text(
            json.dumps({key: value for key, value in info.items() if value is not None})
        )
        os.utime(file, (1000 + self.count, 1000 + self.count))
        return file


@pytest.fixture
def files(runtime: Path, port: int) -> Files:
    return Files(runtime, port)


def test_a_server_is_found_with_everything_in_its_file(files: Files, tmp_path: Path) -> None:
    files.write(tmp_path, base_url="/user/ana/")
    (server,) = running_servers()
    assert server.url == f"http://localhost:{files.port}/user/ana/"
    assert server.token == "token1"
    assert server.root == tmp_path
    assert server.pid == os.getpid()
    assert server.started == 1001


def test_nothing_is_found_if_no_server_ever_ran(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "missing"))
    assert running_servers() == []
    assert token_for("http://localhost:8888/") is None


def test_a_server_without_a_token_has_none(files: Files) -> None:
    files.write(token="")
    assert running_servers()[0].token is None


def test_servers_of_the_old_notebook_are_found(files: Files, tmp_path: Path) -> None:
    files.write(prefix="nbserver", root_dir=None, notebook_dir=str(tmp_path))
    assert running_servers()[0].root == tmp_path


def test_the_deepest_enclosing_root_comes_first_then_the_newest_server(
    files: Files, tmp_path: Path
) -> None:
    inner = tmp_path / "project" / "notebooks"
    inner.mkdir(parents=True)
    for root in (tmp_path / "project", tmp_path, tmp_path / "proj", "/elsewhere", inner / "below"):
        files.write(root)
    roots = [server.root for server in running_servers(inner)]
    assert roots == [
        tmp_path / "project",
        tmp_path,
        inner / "below",
        Path("/elsewhere"),
        tmp_path / "proj",
    ]
    assert [server.started for server in running_servers()] == [1005, 1004, 1003, 1002, 1001]


def test_a_server_of_another_command_is_found_only_from_within_its_root(
    files: Files, tmp_path: Path
) -> None:
    files.write(tmp_path / "theirs", base_url=EMBEDDED_BASE)
    files.write(tmp_path / "a person's")
    assert [server.embedded for server in running_servers()] == [False, True]
    assert [server.embedded for server in running_servers(tmp_path)] == [False]
    below = running_servers(tmp_path / "theirs" / "below")
    assert [server.embedded for server in below] == [True, False]
    assert token_for(f"http://localhost:{files.port}{EMBEDDED_BASE}") == "token1"


def test_links_on_the_way_to_the_directory_do_not_matter(files: Files, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    files.write(tmp_path / "link")
    files.write("/elsewhere")
    assert running_servers(tmp_path / "real")[0].root == tmp_path / "link"


def ended_pid() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_a_zombie_process_is_not_alive() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert is_alive(process.pid)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it ends, and stays a zombie
        assert not is_alive(process.pid)
    finally:
        process.communicate()


@pytest.mark.parametrize(
    "changes",
    [
        {"pid": "dead"},
        {"pid": None},
        {"pid": 0},
        {"pid": -1},
        {"pid": True},
        {"pid": 2**80},
        {"pid": "12"},
        {"sock": "/tmp/jupyter.sock", "url": "http+unix://%2Ftmp%2Fjupyter.sock/"},
        {"url": "http+unix://%2Ftmp%2Fjupyter.sock/"},
        {"url": "nonsense"},
        {"url": "http://localhost:99999999/"},
        {"url": 5},
        {"root_dir": None},
        {"root_dir": 5},
        {"port": "deaf"},
    ],
    ids=str,
)
def test_a_file_without_a_reachable_server_is_skipped_and_left_alone(
    files: Files, changes: dict[str, Any]
) -> None:
    if changes.get("pid") == "dead":
        changes = {"pid": ended_pid()}
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))  # so that nobody else listens there meanwhile
        if changes.get("port") == "deaf":
            changes = {"port": deaf.getsockname()[1]}
        file = files.write(**changes)
        assert running_servers() == []
    assert file.exists()


def test_malformed_runtime_files_do_no_harm(files: Files, runtime: Path) -> None:
    contents = (b"", b"{", b"[]", b"5", b"null", b"{}", b"\xff\xfe", b"[" * 100_000)
    for number, content in enumerate(contents):
        (runtime / f"jpserver-odd{number}.json").write_bytes(content)
    (runtime / "jpserver-directory.json").mkdir()
    (runtime / "jpserver-dangling.json").symlink_to(runtime / "missing")
    os.mkfifo(runtime / "jpserver-pipe.json")
    (runtime / "jpserver-5-open.html").write_text("<html>")
    (runtime / "kernel-5.json").write_text("{}")
    files.write()
    assert len(running_servers()) == 1
    assert len(list(runtime.iterdir())) == len(contents) + 6


@pytest.mark.skipif(os.geteuid() == 0, reason="root can read everything")
def test_a_file_that_cannot_be_read_is_left_out(files: Files) -> None:
    files.write().chmod(stat.S_IWUSR)
    assert running_servers() == []


def test_a_server_on_all_interfaces_is_reached_on_this_machine(files: Files) -> None:
    files.write(hostname="0.0.0.0", url=f"http://some-machine.invalid:{files.port}/base/")
    (server,) = running_servers()
    assert server.url == f"http://127.0.0.1:{files.port}/base/"
    assert token_for(f"http://0.0.0.0:{files.port}/base/") == "token1"
    assert token_for(f"http://{socket.gethostname()}:{files.port}/base/") == "token1"


def test_a_server_with_a_certificate_keeps_its_host_name(files: Files) -> None:
    files.write(secure=True, url=f"https://localhost:{files.port}/")
    assert running_servers()[0].url == f"https://localhost:{files.port}/"
    assert token_for(f"https://127.0.0.1:{files.port}") == "token1"
    assert token_for(f"http://127.0.0.1:{files.port}") is None


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST", "127.0.0.1", "0.0.0.0", "[::1]"])
@pytest.mark.parametrize("path", ["/base", "/base/", "/base/lab/tree/a.ipynb?x=1"])
def test_a_token_is_found_under_any_name_of_this_machine(
    files: Files, host: str, path: str
) -> None:
    files.write(base_url="/base/")
    assert token_for(f"http://{host}:{files.port}{path}") == "token1"


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org:{port}/base/",
        "http://localhost:1/base/",
        "http://localhost/base/",
        "http://localhost:{port}/",
        "http://localhost:{port}/basement/",
        "https://localhost:{port}/base/",
        "http://localhost:port/",
        "http://[::1/",
        "",
    ],
)
def test_no_token_is_given_to_any_other_address(files: Files, url: str) -> None:
    files.write(base_url="/base/")
    assert token_for(url.format(port=files.port)) is None


def test_the_longest_base_url_decides(files: Files) -> None:
    files.write(base_url="/a/b/")
    files.write(base_url="/a/")
    assert token_for(f"http://localhost:{files.port}/a/b/lab") == "token1"
    assert token_for(f"http://localhost:{files.port}/a/c") == "token2"


def test_the_root_of_a_server_is_known_by_its_address(files: Files, tmp_path: Path) -> None:
    files.write(tmp_path / "a", base_url="/a/")
    files.write(tmp_path / "b", base_url="/b/")
    assert root_at(f"http://127.0.0.1:{files.port}/b/") == tmp_path / "b"
    assert root_at(f"http://127.0.0.1:{files.port}/c/") is None


@pytest.mark.parametrize(
    ("host", "here"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("127.1", True),
        ("[::1]", True),
        (socket.gethostname(), True),
        ("example.org", False),
        ("192.0.2.1", False),
    ],
)
def test_an_address_leads_to_this_machine_or_elsewhere(host: str, here: bool) -> None:
    assert is_here(f"http://{host}:8888/") is here


@pytest.mark.anyio
async def test_a_real_server_is_found_while_it_runs(
    make_server: MakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with make_server(base_url="/hub/") as server:
        monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(server.home / "runtime"))
        (found,) = running_servers(server.root)
        assert found.url == server.url
        assert found.token == server.token
        assert found.root == server.root
        assert found.pid == server.pid
        assert token_for(f"http://localhost:{server.port}/hub/lab") == server.token
        server.kill()  # which leaves its file
        assert list((server.home / "runtime").glob("jpserver-*.json"))
        assert running_servers() == []


def test_the_standalone_modules_load_nothing_heavy() -> None:
    code = (
        "import sys;"
        "from jupyter_collaboration_mcp.standalone import clients, discovery, doctor, embedded;"
        "print({'jupyter_server', 'mcp', 'httpx2', 'websockets', 'traitlets'} & set(sys.modules))"
    )
    command = [sys.executable, "-c", code]
    assert subprocess.run(command, capture_output=True, text=True).stdout.strip() == "set()"
