"""Each thing that can be wrong with a server is named, with one line that says what to do."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx2
import pytest
from jupyter_server.auth.security import passwd

from jupyter_collaboration_mcp.backends.remote.server_address import ServerAddress
from jupyter_collaboration_mcp.cli import main
from jupyter_collaboration_mcp.standalone import doctor
from jupyter_collaboration_mcp.standalone.doctor import Check, examine, report
from tests.conftest import MakeServer
from tests.harness.jupyter import JupyterProcess

pytestmark = pytest.mark.anyio

ALL = [
    "reachable",
    "jupyter",
    "token",
    "collaboration",
    "browser",
    "extension",
    "contents",
    "kernels",
    "websocket",
]


@pytest.fixture(scope="module")
async def plain(make_server: MakeServer, anyio_backend: str) -> AsyncIterator[JupyterProcess]:
    """A Jupyter server as most people have it, with a base URL."""
    absent = {"jupyter_server_ydoc": False, "jupyter_collaboration_mcp": False}
    async with make_server(extensions=absent, base_url="/hub/ana/") as process:
        yield process


class Foreign(BaseHTTPRequestHandler):
    """Answers as `answer` says, whatever the question."""

    answer: tuple[int, str, bytes] = (200, "text/html", b"<html>Hello</html>")

    def do_GET(self) -> None:
        status, kind, body = self.answer
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None: ...


@pytest.fixture
def foreign() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Foreign) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{http.server_port}/"
        http.shutdown()


def of(server: JupyterProcess, token: str | None = None) -> ServerAddress:
    return ServerAddress(server.url, server.token if token is None else token)


def found(checks: list[Check]) -> dict[str, Check]:
    """By name; each that is not ok has to have a remedy, and all are one line."""
    for check in checks:
        assert (check.state == "ok") == (check.remedy is None), check
        assert "\n" not in check.said + (check.remedy or ""), check
        assert "Ask the person" not in (check.remedy or ""), check  # it is they who read this
    return {check.name: check for check in checks}


async def test_a_healthy_server_passes_and_is_left_unchanged(server: JupyterProcess) -> None:
    (server.root / "notes.txt").write_text("hello")
    before, log = sorted(server.root.rglob("*")), len(server.log)
    checks = await examine(of(server))
    assert [check.name for check in checks] == ALL
    assert {check.state for check in checks} == {"ok"}, report(checks)
    by_name = found(checks)
    assert "Jupyter Server 2." in by_name["jupyter"].said
    assert f"at {server.url}mcp: jupyter-collaboration-mcp" in by_name["extension"].said
    assert "python3" in by_name["kernels"].said
    assert "no JupyterLab" in by_name["browser"].said
    assert sorted(server.root.rglob("*")) == before
    assert "room" not in server.log[log:].lower()
    assert server.token not in report(checks)


async def test_the_report_says_how_to_install_missing_collaboration(plain: JupyterProcess) -> None:
    checks = found(await examine(of(plain)))
    assert list(checks) == ALL
    assert [name for name in ALL if checks[name].state != "ok"] == ["collaboration"]
    assert checks["collaboration"].state == "warning"
    assert "file mode" in checks["collaboration"].said
    assert "pip install jupyter-collaboration" in str(checks["collaboration"].remedy)
    assert "extension enable" in str(checks["collaboration"].remedy)
    assert "does not serve MCP" in checks["extension"].said


async def test_a_wrong_token_ends_the_examination(plain: JupyterProcess) -> None:
    checks = found(await examine(of(plain, "wrong")))
    assert list(checks) == ALL[:3]
    assert checks["token"].state == "failed"
    assert "does not accept" in checks["token"].said
    assert "jupyter server list" in str(checks["token"].remedy)


async def test_a_missing_token_is_reported(plain: JupyterProcess) -> None:
    checks = found(await examine(ServerAddress(plain.url)))
    assert checks["token"].said == "The server requires a token."


async def test_a_password_only_server_is_reported_to_need_a_token_and_that_fix_works(
    make_server: MakeServer,
) -> None:
    hashed = passwd("hush")  # type: ignore[no-untyped-call]
    password = f"--PasswordIdentityProvider.hashed_password={hashed}"
    absent = {"jupyter_server_ydoc": False, "jupyter_collaboration_mcp": False}
    async with make_server(password, extensions=absent, token="") as server:
        for token in (None, "wrong"):
            check = found(await examine(ServerAddress(server.url, token)))["token"]
            assert (check.state, check.said) == (
                "failed",
                "The server has a password and no token, and agents need a token.",
            )
            assert "JUPYTER_TOKEN" in str(check.remedy)
            assert "jupyter server list" not in str(check.remedy)
    async with (
        make_server(password, extensions=absent, token="of-my-choice") as server,
        httpx2.AsyncClient() as browser,
    ):
        assert found(await examine(of(server)))["token"].state == "ok"
        wrong = found(await examine(of(server, "wrong")))["token"]
        assert "jupyter server list" in str(wrong.remedy)
        # As the remedy says, the password keeps working.
        await browser.get(f"{server.url}login")
        form = {"password": "hush", "_xsrf": browser.cookies["_xsrf"]}
        assert (await browser.post(f"{server.url}login", data=form)).status_code == 302
        assert (await browser.get(f"{server.url}api/status")).status_code == 200


async def test_a_missing_base_url_is_not_a_wrong_token(plain: JupyterProcess) -> None:
    address = ServerAddress(f"http://127.0.0.1:{plain.port}/", plain.token)
    checks = found(await examine(address))
    assert list(checks) == ["reachable", "jupyter"]
    assert "base URL" in str(checks["jupyter"].remedy)


async def test_an_address_without_a_server_is_reported() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}/"  # kept from others, not listened at
        checks = found(await examine(ServerAddress(url, "token")))
    assert list(checks) == ["reachable"]
    assert checks["reachable"].state == "failed"
    assert url in checks["reachable"].said


async def test_a_server_that_never_answers_times_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert doctor._LIMIT <= 10
    monkeypatch.setattr(doctor, "_LIMIT", 0.3)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        checks = found(await examine(ServerAddress(url, "token")))
    assert list(checks) == ["reachable"]
    assert checks["reachable"].state == "failed"
    assert "did not answer" in checks["reachable"].said


async def test_a_given_token_overrides_the_one_in_the_file(
    plain: JupyterProcess, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(plain.home / "runtime"))
    for arguments, code in (([], 0), (["--token", "wrong"], 1)):
        assert await asyncio.to_thread(main, ["doctor", plain.url, *arguments]) == code
    assert "does not accept the token" in capsys.readouterr().out


@pytest.mark.parametrize(
    "answer",
    [
        (200, "text/html", b"<html>Hello</html>"),
        (200, "application/json", b"{}"),
        (200, "application/json", b"[1]"),
        (404, "application/json", b'{"message": "no"}'),
        (500, "text/plain", b"oops"),
    ],
)
async def test_something_other_than_jupyter_is_reported(
    foreign: str, answer: tuple[int, str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Foreign, "answer", answer)
    checks = found(await examine(ServerAddress(foreign, "token")))
    assert list(checks) == ["reachable", "jupyter"]
    assert checks["reachable"].state == "ok"
    assert "not a Jupyter server" in checks["jupyter"].said


async def test_an_old_jupyter_is_reported_as_too_old(
    foreign: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Foreign, "answer", (200, "application/json", b'{"version": "1.24.0"}'))
    checks = found(await examine(ServerAddress(foreign)))
    assert checks["jupyter"].state == "failed"
    assert "1.24.0" in checks["jupyter"].said


async def test_https_for_an_http_server_is_reported(foreign: str) -> None:
    checks = found(await examine(ServerAddress(foreign.replace("http", "https"))))
    assert checks["reachable"].remedy == "Use http:// instead of https://."


@pytest.mark.parametrize("url", ["localhost:8888", "", "http://", "http://host:port/", "ftp://a/"])
async def test_an_invalid_address_is_reported(url: str) -> None:
    checks = found(await examine(ServerAddress(url)))
    assert "not the URL of a server" in checks["reachable"].said


async def test_a_missing_token_is_fine_if_none_is_required(
    make_server: MakeServer,
) -> None:
    async with make_server(
        "--YDocExtension.disable_rtc=True",
        "--ServerApp.allow_unauthenticated_access=True",
        token="",
        extensions={"jupyterlab": True},
    ) as server:
        checks = found(await examine(ServerAddress(server.url)))
    assert checks["token"].said == "The server requires no token."
    assert [name for name in ALL if checks[name].state != "ok"] == ["browser", "extension"]
    assert "status 403" in checks["extension"].said
    assert "JUPYTER_TOKEN" in str(checks["extension"].remedy)
    assert "disable_rtc" in str(checks["browser"].remedy)


async def test_a_jupyterlab_with_collaboration_is_ok(make_server: MakeServer) -> None:
    async with make_server(extensions={"jupyterlab": True}) as server:
        checks = found(await examine(of(server)))
    assert checks["browser"].said.startswith("JupyterLab 4.")
    assert checks["browser"].state == "ok"


def test_a_report_has_a_line_for_each_check_and_the_remedy_below() -> None:
    text = report(
        [
            Check("reachable", "ok", "It answers."),
            Check("token", "failed", "No.", "Do this."),
        ]
    )
    assert text.splitlines() == [
        "ok       reachable      It answers.",
        "failed   token          No.",
        "                        -> Do this.",
    ]
