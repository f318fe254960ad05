"""Servers that are not simply there: certificates, proxies, odd addresses, no token, no rooms."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import os
import threading
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from jupyter_server.auth.security import passwd

from jupyter_collaboration_mcp.backends.remote.answer_limits import AnswerLimits
from jupyter_collaboration_mcp.backends.remote.backend import RemoteBackend
from jupyter_collaboration_mcp.backends.remote.http_client import xsrf_token
from jupyter_collaboration_mcp.backends.remote.jupyter_api import JupyterApi
from jupyter_collaboration_mcp.backends.remote.server_address import ServerAddress
from jupyter_collaboration_mcp.errors import ServerUnreachable
from jupyter_collaboration_mcp.standalone.doctor import examine
from tests.conftest import MakeServer
from tests.harness import forking, notebooks
from tests.harness.agents import AgentClient, over_stdio
from tests.harness.http_proxy import HANG_UP, SILENCE, ForwardProxy, Front
from tests.harness.jupyter import JupyterProcess
from tests.harness.standalone import environment
from tests.harness.tls import Certificate
from tests.harness.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]

STOCK = {"jupyter_collaboration_mcp": False}
FILES = {**STOCK, "jupyter_server_ydoc": False}
PATH = "work.ipynb"

#: Who asks by any name is let in; and what is written is soon saved, for which tests wait.
ANYWHERE = (
    "--ServerApp.allow_remote_access=True",
    "--YDocExtension.document_save_delay=0.1",
)
SESSION, ROOM = "PUT api/collaboration/session", "GET api/collaboration/room"

#: A name that only a proxy can resolve, and one of this machine that does not look like it.
ELSEWHERE, HERE = "jupyter.test", "127.1"


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.lower().endswith("_proxy") or name == "SSL_CERT_FILE":
            monkeypatch.delenv(name)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return Certificate.made_in(tmp_path_factory.mktemp("tls"), ELSEWHERE)


@pytest.fixture(scope="module")
async def secret(
    make_server: MakeServer, certificate: Certificate, anyio_backend: str
) -> AsyncIterator[JupyterProcess]:
    """A server with a certificate that nobody trusts."""
    async with make_server(*ANYWHERE, extensions=STOCK, certificate=certificate) as process:
        yield process


@pytest.fixture(scope="module")
async def plain(make_server: MakeServer, anyio_backend: str) -> AsyncIterator[JupyterProcess]:
    """A server that does not mind by which name it is called."""
    async with make_server(*ANYWHERE, extensions=STOCK) as process:
        yield process


_numbers = itertools.count()


def write(server: JupyterProcess) -> Path:
    """A new notebook: the room of one that another test has edited lives on for a while."""
    cells = [notebooks.code("one", "20 + 22"), notebooks.markdown("two", "text")]
    file = Path(server.root) / f"work-{next(_numbers)}.ipynb"
    notebooks.write(file, notebooks.notebook(cells))
    return file


async def works(ada: AgentClient, file: Path) -> dict[str, Any]:
    """See that an agent reads, edits and runs, and that the server has what it wrote."""
    path = file.name
    assert await ada.sources(path) == ["20 + 22", "text"]
    facts: dict[str, Any] = await ada.write(path, "two", "other text")
    ran = await ada.ask("execute_notebook_cell", path=path, cell_id="one", timeout=60)
    assert ran["runs"][0]["state"] == "completed"
    assert ran["runs"][0]["outputs"][0]["text"] == "42"
    await until(lambda: notebooks.sources(file) == ["20 + 22", "other text"])
    return facts


async def refused(ada: AgentClient, tool: str, **arguments: Any) -> dict[str, Any]:
    """An error that is a line, and a line that says what to do."""
    error = await ada.refused(tool, **arguments)
    for line in (error["message"], error["next_step"]):
        assert "\n" not in line
        assert line.endswith(".")
        assert ".." not in line.replace("../", "")
    return error


# -- certificates --------------------------------------------------------------------------


async def test_an_untrusted_certificate_is_refused_with_a_next_step(
    secret: JupyterProcess, tmp_path: Path
) -> None:
    path = write(secret).name
    async with over_stdio(tmp_path, f"--server={secret.url}", JUPYTER_TOKEN=secret.token) as ada:
        elsewhere = {"url": f"{secret.url}elsewhere", "alias": "again"}
        for tool, arguments in (("get_notebook", {"path": path}), ("connect_server", elsewhere)):
            error = await refused(ada, tool, **arguments)
            assert error["code"] == "server_unreachable"
            assert "certificate" in error["message"]
            assert "SSL_CERT_FILE" in error["next_step"]
            assert "--insecure" in error["next_step"]
            assert error["next_step"].startswith("Ask the person to do this: Set SSL_CERT_FILE")
    (check,) = await examine(ServerAddress(secret.url, secret.token))
    assert str(check.remedy).startswith("Set SSL_CERT_FILE")  # the person reads it themselves


async def test_insecure_accepts_any_certificate(secret: JupyterProcess, tmp_path: Path) -> None:
    file = write(secret)
    async with over_stdio(
        tmp_path, f"--server={secret.url}", "--insecure", JUPYTER_TOKEN=secret.token
    ) as ada:
        await works(ada, file)


async def test_a_trusted_certificate_is_accepted_for_the_names_in_it(
    secret: JupyterProcess, certificate: Certificate, tmp_path: Path
) -> None:
    file = write(secret)
    async with over_stdio(
        tmp_path,
        f"--server={secret.url}",
        JUPYTER_TOKEN=secret.token,
        SSL_CERT_FILE=str(certificate.file),
    ) as ada:
        await works(ada, file)
        error = await refused(ada, "connect_server", url=f"https://{HERE}:{secret.port}/other")
        assert "certificate" in error["message"]


async def test_http_for_an_https_server_is_reported(secret: JupyterProcess, tmp_path: Path) -> None:
    address = f"http://127.0.0.1:{secret.port}/"
    async with over_stdio(tmp_path, f"--server={address}", JUPYTER_TOKEN=secret.token) as ada:
        error = await refused(ada, "get_notebook", path=PATH)
        assert error["code"] == "server_unreachable"
        assert "http:// or https://" in error["next_step"]


# -- addresses and tokens ------------------------------------------------------------------


@pytest.mark.parametrize("base", ["/user/ada@x.org/", "/user/ada%40x.org/", "/user/a%20b/"])
async def test_odd_characters_in_base_url_and_token_are_preserved(
    make_server: MakeServer, tmp_path: Path, base: str
) -> None:
    token = "a+b/c=d%20&e"
    async with make_server(extensions=STOCK, base_url=base, token=token) as server:
        file = write(server)
        typed = server.url.replace("%20", " ")  # as people do
        async with over_stdio(tmp_path, f"--server={typed}?token={quote(token, safe='')}") as ada:
            await works(ada, file)


async def test_a_missing_base_url_is_not_mistaken_for_an_empty_server(
    make_server: MakeServer, tmp_path: Path
) -> None:
    async with make_server(extensions=STOCK, base_url="/user/ada/") as server:
        path = write(server).name
        address = f"http://127.0.0.1:{server.port}/"
        async with over_stdio(tmp_path, f"--server={address}", JUPYTER_TOKEN=server.token) as ada:
            for tool, arguments in (
                ("get_notebook", {"path": path}),
                ("list_notebooks", {}),
                ("list_kernels", {}),
                ("connect_server", {"url": f"{address}elsewhere", "alias": "again"}),
            ):
                error = await refused(ada, tool, **arguments)
                assert error["code"] == "not_jupyter"
                assert "base URL" in error["next_step"]


async def test_secrets_in_an_address_are_never_shown(plain: JupyterProcess, tmp_path: Path) -> None:
    address = f"http://ada:hush@127.0.0.1:{plain.port}/?token={plain.token}"
    async with over_stdio(tmp_path, f"--server=one={address}") as ada:
        await ada.ask("disconnect_server", alias="one")
        connected = await ada.say("connect_server", url=address, alias="again")
        listed = await ada.say("list_servers")
        assert (await ada.ask("list_servers"))["servers"][0]["state"] == "ok"
        wrong = address.replace(plain.token, "hush%0A1")
        said = [str(await refused(ada, "connect_server", url=wrong, alias="wrong"))]
        for text in (connected, listed, *said):
            assert "hush" not in text
            assert plain.token not in text


@pytest.mark.parametrize("extensions", [STOCK, FILES], ids=["rooms", "files"])
async def test_a_server_without_a_token_is_usable_whatever_token_is_set(
    make_server: MakeServer, tmp_path: Path, extensions: dict[str, bool]
) -> None:
    async with make_server(extensions=extensions, token="") as server:
        variables: list[dict[str, Any]] = [{}, {"JUPYTER_TOKEN": "of-another-server"}]
        for given in variables:
            file = write(server)
            async with over_stdio(tmp_path, f"--server={server.url}", cwd=tmp_path, **given) as ada:
                facts = await works(ada, file)
                assert facts.get("mode") == ("file" if extensions is FILES else None)


async def test_a_cookie_of_a_proxy_in_front_is_not_taken_for_the_servers_own(
    make_server: MakeServer,
) -> None:
    async with make_server(extensions=STOCK, token="", base_url="/user/ada") as server:
        api = JupyterApi(ServerAddress(server.url, None))
        try:
            host = "127.0.0.1"
            api._http.cookies.set("_xsrf", "of the hub", domain=host, path="/elsewhere/")
            file = write(server)
            for _ in range(2):
                model = {"path": f"copy-{next(_numbers)}.ipynb"}
                await api.request("PATCH", "api", "contents", file.name, body=model)
                file = file.with_name(model["path"])
            assert file.exists()
            api._http.cookies.set("_xsrf", "of the hub", domain=host, path="/")
            assert xsrf_token(api._http, server.url) != "of the hub"
        finally:
            await api.close()


async def test_the_error_for_a_password_only_server_asks_for_a_token(
    make_server: MakeServer, tmp_path: Path
) -> None:
    hashed = passwd("hush")  # type: ignore[no-untyped-call]
    password = f"--PasswordIdentityProvider.hashed_password={hashed}"
    async with make_server(password, extensions=STOCK, token="") as server:
        path = write(server).name
        async with over_stdio(tmp_path, f"--server={server.url}") as ada:
            said = [await refused(ada, "get_notebook", path=path)]
            await ada.ask("disconnect_server", alias="")
            said.append(await refused(ada, "connect_server", url=server.url, alias="again"))
            for error in said:
                assert error["code"] == "token_refused"
                assert "none is known" in error["message"]
                assert "password" in error["next_step"]


# -- proxies -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scheme", "variable"),
    [("http", "HTTP_PROXY"), ("http", "ALL_PROXY"), ("https", "HTTPS_PROXY")],
)
async def test_a_server_behind_a_proxy_is_reached_through_it(
    plain: JupyterProcess,
    secret: JupyterProcess,
    certificate: Certificate,
    tmp_path: Path,
    scheme: str,
    variable: str,
) -> None:
    server = plain if scheme == "http" else secret
    file = write(server)
    async with ForwardProxy(ELSEWHERE) as proxy:
        more: dict[str, Any] = {variable: proxy.url, "SSL_CERT_FILE": str(certificate.file)}
        address = f"{scheme}://{ELSEWHERE}:{server.port}/"
        async with over_stdio(
            tmp_path, f"--server={address}", cwd=tmp_path, JUPYTER_TOKEN=server.token, **more
        ) as ada:
            await works(ada, file)
        tunnels = [asked for asked in proxy.asked if asked.startswith("CONNECT ")]
        assert len(tunnels) >= 2  # of the room and of the kernel
        if scheme == "http":
            assert any(asked.startswith(f"GET {address}api/") for asked in proxy.asked)
        else:
            assert tunnels == proxy.asked


@pytest.mark.parametrize(
    ("host", "variables"),
    [
        ("127.0.0.1", {"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"}),
        ("localhost", {"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"}),
        (HERE, {"HTTPS_PROXY"}),
        (HERE, {"HTTP_PROXY", "NO_PROXY"}),
    ],
    ids=["loopback", "localhost", "only-for-https", "no-proxy"],
)
async def test_a_proxy_for_other_hosts_is_not_used(
    plain: JupyterProcess, tmp_path: Path, host: str, variables: set[str]
) -> None:
    file = write(plain)
    async with ForwardProxy(HERE) as proxy:
        more: dict[str, Any] = {
            name: HERE if name == "NO_PROXY" else proxy.url for name in variables
        }
        address = f"http://{host}:{plain.port}/"
        async with over_stdio(
            tmp_path, f"--server={address}", cwd=tmp_path, JUPYTER_TOKEN=plain.token, **more
        ) as ada:
            await works(ada, file)
        assert proxy.asked == []


async def test_a_failing_proxy_is_named(tmp_path: Path) -> None:
    async with ForwardProxy() as proxy:
        address = proxy.url.replace("//", "//ada:hush@")
        async with over_stdio(tmp_path, f"--server=http://{ELSEWHERE}/", HTTP_PROXY=address) as ada:
            for tool, arguments in (
                ("get_notebook", {"path": PATH}),
                ("connect_server", {"url": f"http://{ELSEWHERE}:1/", "alias": "again"}),
            ):
                error = await refused(ada, tool, **arguments)
                assert error["code"] == "server_unreachable"
                assert f"through the proxy 127.0.0.1:{proxy.port}" in error["message"]
                assert "NO_PROXY" in error["next_step"]
                assert "hush" not in str(error)


# -- what is no server ---------------------------------------------------------------------


class Foreign(BaseHTTPRequestHandler):
    """Something else than Jupyter, which notes what it is asked."""

    answer = (200, b"<html>Hello</html>")
    asked: list[tuple[str, str]]

    def do_GET(self) -> None:
        self.asked.append((self.command, self.path))
        status, body = self.answer
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("do_"):
            return self.do_GET
        raise AttributeError(name)

    def log_message(self, *arguments: object) -> None: ...


@pytest.fixture
def foreign() -> Iterator[str]:
    Foreign.asked = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Foreign) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{http.server_port}/"
        http.shutdown()


@pytest.mark.parametrize(
    "answer",
    [(200, b"<html>Hello</html>"), (404, b"not here"), (200, b'{"status": "ok"}')],
    ids=["page", "404", "json"],
)
async def test_a_foreign_service_receives_nothing_but_api_requests(
    foreign: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: tuple[int, bytes]
) -> None:
    monkeypatch.setattr(Foreign, "answer", answer)
    async with over_stdio(tmp_path, f"--server={foreign}base/lab/tree/x", JUPYTER_TOKEN="t") as ada:
        error = await refused(ada, "connect_server", url=f"{foreign}other", alias="other")
        assert error["code"] == "not_jupyter"
        assert "base URL" in error["next_step"]
        assert [server["state"] for server in (await ada.ask("list_servers"))["servers"]] == [
            "not_jupyter"
        ]
        for tool, arguments in (
            ("get_notebook", {"path": PATH}),
            ("list_notebooks", {}),
            ("execute_notebook_cell", {"path": PATH, "cell_id": "one"}),
        ):
            assert (await refused(ada, tool, **arguments))["code"] == "not_jupyter"
        assert {method for method, _ in Foreign.asked} == {"GET"}
        assert all(path.startswith(("/base/api/", "/other/api/")) for _, path in Foreign.asked)


async def test_an_invalid_address_is_refused(tmp_path: Path) -> None:
    async with over_stdio(tmp_path, "--server=http://127.0.0.1:9/") as ada:
        for url, code in (
            ("ftp://somewhere/", "invalid_argument"),
            ("http://", "invalid_argument"),
            ("localhost:8888", "invalid_argument"),
            ("http://host:port/", "invalid_argument"),
            ("http://127.0.0.1:99999/", "invalid_argument"),
            ("http://[::1/", "invalid_argument"),
            ("http://☃.example/", "server_unreachable"),
            ("http://127.0.0.1:9/", "unknown_server"),
            ("http://127.0.0.1:10/", "server_unreachable"),
        ):
            assert (await refused(ada, "connect_server", url=url, alias="x"))["code"] == code
        assert len((await ada.ask("list_servers"))["servers"]) == 1


@pytest.mark.parametrize(
    ("arguments", "more", "said"),
    [
        (["--server=http://[::1/"], {}, "is not the URL of a server"),
        (["--server=1x=http://127.0.0.1:9/"], {}, "'1x' cannot be an alias"),
        (["--server=http://127.0.0.1:9/", "--toolsets=every"], {}, "no toolset every"),
        (["--server=http://127.0.0.1:9/"], {"JUPYTER_TOKEN": "hush\n\x01"}, "JUPYTER_TOKEN"),
        (["--server=http://elsewhere.test/"], {"ALL_PROXY": "socks5://x:1"}, "NO_PROXY"),
        (["doctor", "ftp://somewhere/"], {}, "is not the URL of a server"),
    ],
    ids=["address", "alias", "toolset", "token", "proxy", "doctor"],
)
async def test_a_command_that_cannot_start_exits_with_one_line(
    tmp_path: Path, arguments: list[str], more: dict[str, str], said: str
) -> None:
    words = await last_words(tmp_path, *arguments, **more)
    assert said in words
    assert "hush" not in words
    assert "Ask the person" not in words  # it is they who read this


async def last_words(home: Path, *arguments: str, **more: str) -> str:
    """What the command says when it ends because it cannot begin: one line, nothing else."""
    process = await asyncio.create_subprocess_exec(
        *(*forking.command("jupyter_collaboration_mcp.cli"), *arguments),
        env=environment(home, **more),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    said, complaints = await asyncio.wait_for(process.communicate(), 60)
    assert (process.returncode, said) == (2, b"")
    (line,) = complaints.decode().splitlines()
    return line


async def test_paths_outside_the_root_and_used_aliases_reach_no_server(
    plain: JupyterProcess, tmp_path: Path
) -> None:
    async with (
        Front(plain.url, {}) as front,
        over_stdio(
            tmp_path,
            f"--server=one={front.url}",
            f"--server=other={front.url}",
            JUPYTER_TOKEN=plain.token,
        ) as ada,
    ):
        await until(lambda: front.asked == ["GET /api/status"] * 2)  # at the start, each once
        asked = list(front.asked)
        taken = await refused(ada, "connect_server", url=f"{front.url}else", alias="other")
        assert (taken["code"], taken["alias"]) == ("unknown_server", "other")
        for path in ("../x.ipynb", "a/../../x.ipynb", "%2e%2e%2fx.ipynb", "%252e%252e/x.ipynb"):
            for place in (path, f"other:{path}"):
                error = await refused(ada, "get_notebook", path=place)
                assert error["code"] == "path_refused"
        assert front.asked == asked
        unknown = await refused(ada, "get_notebook", path=f"nowhere:{PATH}")
        assert unknown["code"] == "document_not_found"
        assert "'nowhere'" in unknown["message"]


# -- files are used only where there are no rooms ------------------------------------------


async def test_a_file_whose_room_may_be_live_is_never_written_directly(
    plain: JupyterProcess, tmp_path: Path
) -> None:
    file = write(plain)
    before = file.read_bytes()
    async with (
        Front(plain.url, {}) as front,
        over_stdio(tmp_path, f"--server={front.url}", JUPYTER_TOKEN=plain.token) as ada,
    ):
        for answers, code in (
            ({SESSION: 500}, "room_unavailable"),
            ({SESSION: 503}, "server_unreachable"),
            ({SESSION: 403}, "token_refused"),
            ({SESSION: 404}, "room_unavailable"),  # while there are rooms
            ({SESSION: 404, ROOM: 500}, "room_unavailable"),
            ({SESSION: 404, ROOM: HANG_UP}, "server_unreachable"),
            ({SESSION: 405, ROOM: 404}, "room_unavailable"),
            ({SESSION: HANG_UP}, "server_unreachable"),
        ):
            front.answers = answers
            updates = [{"cell_id": "two", "content": "behind their backs"}]
            for tool, arguments in (
                ("get_notebook", {}),
                ("batch_update_notebook_cells", {"updates": updates, "exec": False}),
            ):
                assert (await refused(ada, tool, path=file.name, **arguments))["code"] == code
        assert not any(asked.startswith("PUT /api/contents") for asked in front.asked)
        assert file.read_bytes() == before
        front.answers = {}
        assert "mode" not in await works(ada, file)


async def test_a_server_that_does_not_answer_about_rooms_is_not_used_in_file_mode(
    plain: JupyterProcess,
) -> None:
    path = write(plain).name
    async with Front(plain.url, {SESSION: SILENCE}) as front:
        api = JupyterApi(ServerAddress(front.url, plain.token), AnswerLimits(seconds=0.5))
        with pytest.raises(ServerUnreachable):
            await RemoteBackend(api, logging.getLogger("test")).identify(path)
        await api.close()


async def test_a_read_only_user_gets_an_error_and_no_file_mode(
    make_server: MakeServer, tmp_path: Path
) -> None:
    authorizer = "--ServerApp.authorizer_class=tests.transport.extension.ReadOnlyAuthorizer"
    async with make_server(authorizer, extensions=STOCK) as server:
        path = write(server).name
        async with over_stdio(
            tmp_path, f"--server={server.url}", JUPYTER_TOKEN=server.token
        ) as ada:
            error = await refused(ada, "get_notebook", path=path)
            assert error["code"] == "token_refused"
            assert "not authorized to write" in error["message"]
            assert "permission" in error["next_step"]


async def test_a_server_that_gains_collaboration_is_used_through_rooms(
    make_server: MakeServer, tmp_path: Path
) -> None:
    async with make_server(extensions=FILES) as server:
        file = write(server)
        async with over_stdio(
            tmp_path, f"--server={server.url}", JUPYTER_TOKEN=server.token
        ) as ada:
            assert (await ada.ask("get_notebook", path=file.name))["mode"] == "file"
            await server.terminate()
            config = server.home / "config" / "jupyter_server_config.json"
            whole = json.loads(config.read_text())
            whole["ServerApp"]["jpserver_extensions"]["jupyter_server_ydoc"] = True
            config.write_text(json.dumps(whole))
            await server.start()
            assert "mode" not in await works(ada, file)


async def test_a_file_is_read_again_after_a_failed_save(
    make_server: MakeServer, tmp_path: Path
) -> None:
    async with make_server(extensions=FILES) as server, Front(server.url, {}) as front:
        file = write(server)
        async with over_stdio(tmp_path, f"--server={front.url}", JUPYTER_TOKEN=server.token) as ada:
            await ada.ask("get_notebook", path=file.name)
            update = {"cell_id": "two", "old_text": "text", "new_text": "text, more"}
            edit = {"path": file.name, "updates": [update], "exec": False}
            for status in (HANG_UP, 500):
                front.answers = {"PUT api/contents": status}
                error = await refused(ada, "batch_update_notebook_cells", **edit)
                assert error["code"] == "room_unavailable"
                assert await ada.sources(file.name) == ["20 + 22", "text"]
            front.answers = {}
            facts = await ada.ask("batch_update_notebook_cells", **edit)
            assert "others" not in facts
            assert notebooks.sources(file) == ["20 + 22", "text, more"]


async def test_concurrent_edits_of_a_file_are_all_saved(
    make_server: MakeServer, tmp_path: Path
) -> None:
    async with make_server(extensions=FILES) as server:
        file = Path(server.root) / PATH
        notebooks.write(file, notebooks.numbered(5))
        async with over_stdio(
            tmp_path, f"--server={server.url}", JUPYTER_TOKEN=server.token
        ) as ada:
            await ada.ask("get_notebook", path=PATH)
            await asyncio.gather(*(ada.write(PATH, f"cell-{n:05d}", f"y = {n}") for n in range(5)))
            assert notebooks.sources(file) == [f"y = {n}" for n in range(5)]
