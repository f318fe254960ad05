"""A real JupyterHub: the Hub, its proxy, and servers of users, each in processes of their own.

The proxy runs beside the Hub, not below it, so that either can be killed and restarted alone. The
servers of users are forks, which start in a fraction of the time.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlencode

import httpx
import httpx2
import psutil  # type: ignore[import-untyped]
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from . import forking
from .agents import MODERN, AgentClient
from .jupyter import QUICK_START, REPOSITORY, hold_port
from .waiting import until

LEVEL_SCOPE = "custom:jupyter-collaboration-mcp:"

_PROXY = REPOSITORY / "tests" / "node" / "node_modules" / "configurable-http-proxy"

_EXTENSIONS = {
    "jupyter_lsp": False,
    "jupyter_server_terminals": False,
    "jupyterlab": False,
    "notebook_shim": False,
}

#: How a Hub is configured; the rest is in `values`.
_CONFIG = """
import json
from pathlib import Path

values = json.loads(Path(__file__).with_name("values.json").read_text())
c = get_config()
for section, settings in values.items():
    for name, value in settings.items():
        setattr(c[section], name, value)
"""


@dataclass(frozen=True)
class HubServer:
    """A server of a user, for whoever holds a token; has what tests ask of a `JupyterProcess`."""

    hub: Hub
    url: str
    token: str
    root: Path

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"token {self.token}"}

    async def status(self) -> int:
        """The status of its answer to `/api/status`."""
        return (await self.hub.http.get(f"{self.url}api/status", headers=self.headers)).status_code


class Hub:
    """A JupyterHub with some users, started and stopped as a context.

    Args:
        users: Their names; each has a home directory, which their server serves.
        settings: More of the Hub's configuration, by class and name.
        environment: More variables for the servers of users.
        service: Arguments of our service; None: the Hub has none.
    """

    def __init__(
        self,
        *users: str,
        settings: Mapping[str, Mapping[str, Any]] | None = None,
        environment: Mapping[str, str] | None = None,
        service: Sequence[str] | None = None,
    ) -> None:
        self.users = users
        self._folder = tempfile.TemporaryDirectory(prefix="hub-", ignore_cleanup_errors=True)
        self.home = Path(self._folder.name)
        self._held = [hold_port() for _ in range(4)]
        self.port, self._api_port, self._hub_port, self._service_port = (
            port for _, port in self._held
        )
        self.url = f"http://127.0.0.1:{self.port}/"
        self._secret = secrets.token_hex(32)
        self._admin = secrets.token_hex(32)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._environment = environment or {}
        self._write(settings or {}, service)
        self.http = httpx.AsyncClient(trust_env=False, timeout=60)

    @property
    def service_url(self) -> str:
        return f"{self.url}services/mcp/"

    def root(self, user: str) -> Path:
        """The directory that the servers of a user serve."""
        return self.home / "home" / user

    def log(self, name: str = "hub") -> str:
        file = self.home / f"{name}.log"
        return file.read_text(errors="replace") if file.exists() else ""

    # -- processes ---------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        try:
            self.start_proxy()
            await self.start_hub()
            await self._proxied()
        except BaseException as error:
            error.add_note(f"The Hub's log ends with:\n{self.log()[-6000:]}\n{self.log('proxy')}")
            await self._stop()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None:
            error.add_note(f"The Hub's log ends with:\n{self.log()[-6000:]}")
        await self._stop()

    def start_proxy(self) -> None:
        node = shutil.which("node", path=str(Path(sys.executable).parent)) or "node"
        self._start(
            "proxy",
            [
                node,
                str(_PROXY / "bin" / "configurable-http-proxy"),
                "--ip=127.0.0.1",
                f"--port={self.port}",
                "--api-ip=127.0.0.1",
                f"--api-port={self._api_port}",
                f"--default-target=http://127.0.0.1:{self._hub_port}",
                f"--error-target=http://127.0.0.1:{self._hub_port}/hub/error",
            ],
        )

    async def start_hub(self) -> None:
        """Start the Hub and wait until it answers; servers of users that still run are kept."""
        self._start("hub", [sys.executable, "-m", "jupyterhub", "-f", str(self._config)])
        await self._until_answered(f"http://127.0.0.1:{self._hub_port}/hub/health", "hub")

    def kill(self, name: str) -> None:
        """End the Hub or the proxy as a crash would."""
        process = self._processes.pop(name)
        process.kill()
        process.wait()

    async def _proxied(self) -> None:
        """Wait until the proxy leads to the Hub."""
        await self._until_answered(f"{self.url}hub/health", "proxy")

    def _start(self, name: str, command: list[str]) -> None:
        with (self.home / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                command,
                cwd=self.home,
                env={
                    **{k: v for k, v in os.environ.items() if not k.startswith(_FOREIGN)},
                    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
                    "CONFIGPROXY_AUTH_TOKEN": self._secret,
                    "HUB_HOME": str(self.home),
                    "PYTHONPATH": os.pathsep.join([str(QUICK_START), str(REPOSITORY)]),
                },
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    async def _until_answered(self, url: str, name: str) -> None:
        async with asyncio.timeout(60):
            while True:
                with contextlib.suppress(httpx.HTTPError):
                    if (await self.http.get(url)).status_code == 200:
                        return
                if self._processes[name].poll() is not None:
                    raise RuntimeError(f"It ended:\n{self.log(name)}")
                await asyncio.sleep(0.02)

    async def _stop(self) -> None:
        await self.http.aclose()
        for name in list(self._processes):
            self.kill(name)
        await asyncio.to_thread(self._end_all)

    def _end_all(self) -> None:
        """End the servers of users, their kernels and the service."""
        left = [process for process in psutil.process_iter() if self._is_ours(process)]
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)
        psutil.wait_procs(left, timeout=30)
        for held, _ in self._held:
            held.close()
        self._folder.cleanup()

    def _is_ours(self, process: psutil.Process) -> bool:
        try:
            return bool(process.environ().get("HUB_HOME") == str(self.home))
        except psutil.Error:
            return False

    # -- configuration -----------------------------------------------------------------------

    def _write(
        self, settings: Mapping[str, Mapping[str, Any]], service: Sequence[str] | None
    ) -> None:
        config = self.home / "jupyter-config"
        config.mkdir()
        own = {
            "ServerApp": {"jpserver_extensions": _EXTENSIONS},
            # So that a token that was revoked soon counts as such in a test.
            "HubOAuth": {"cache_max_age": 2},
            "JupyterCollaborationMCP": {"preload": False},
        }
        (config / "jupyter_server_config.json").write_text(json.dumps(own))
        for user in self.users:
            self.root(user).mkdir(parents=True)
        values: dict[str, dict[str, Any]] = {
            "JupyterHub": {
                "bind_url": self.url,
                "hub_bind_url": f"http://127.0.0.1:{self._hub_port}",
                "db_url": f"sqlite:///{self.home / 'hub.sqlite'}",
                "cookie_secret_file": str(self.home / "cookie_secret"),
                "authenticator_class": "dummy",
                "spawner_class": "simple",
                "allow_named_servers": True,
                "cleanup_servers": False,
                "cleanup_proxy": False,
                "custom_scopes": CUSTOM_SCOPES,
                "load_roles": self._roles(),
                "services": self._services(service),
                # By these, the Hub also notices that its proxy was restarted.
                "last_activity_interval": 1,
            },
            "ConfigurableHTTPProxy": {
                "should_start": False,
                "api_url": f"http://127.0.0.1:{self._api_port}",
                "auth_token": self._secret,
                "check_running_interval": 1,
            },
            "Authenticator": {"allowed_users": list(self.users), "allow_all": True},
            "SimpleLocalProcessSpawner": {
                "home_dir_template": str(self.home / "home" / "{username}"),
            },
            "Spawner": {
                "cmd": forking.command("jupyterhub.singleuser"),
                "args": ["--allow-root"],
                "poll_interval": 1,
                "http_timeout": 60,
                "environment": {
                    "HUB_HOME": str(self.home),
                    "JUPYTER_CONFIG_DIR": str(config),
                    "PYTHONPATH": os.pathsep.join([str(QUICK_START), str(REPOSITORY)]),
                    **self._environment,
                },
            },
        }
        for section, more in settings.items():
            values.setdefault(section, {}).update(more)
        (self.home / "values.json").write_text(json.dumps(values))
        self._config = self.home / "jupyterhub_config.py"
        self._config.write_text(_CONFIG)

    def _roles(self) -> list[dict[str, Any]]:
        tests = ["admin:users", "admin:servers", "tokens", "access:servers", f"{LEVEL_SCOPE}admin"]
        roles = [
            {"name": "tests", "scopes": tests, "services": ["tests"]},
            {"name": "user", "scopes": ["self", f"{LEVEL_SCOPE}admin"]},
        ]
        if "team" in self.users:
            scopes = ["access:servers!user=team", "read:users:name!user=team"]
            members = [user for user in self.users if user in ("ana", "ben")]
            roles.append({"name": "collaborators", "scopes": scopes, "users": members})
        return roles

    def _services(self, service: Sequence[str] | None) -> list[dict[str, Any]]:
        services: list[dict[str, Any]] = [{"name": "tests", "api_token": self._admin}]
        if service is not None:
            command = [sys.executable, "-m", "jupyter_collaboration_mcp.cli", "hub-service"]
            services.append(
                {
                    "name": "mcp",
                    "url": f"http://127.0.0.1:{self._service_port}",
                    "command": [*command, f"--hub-proxy={self.url}", *service],
                    "environment": {
                        "HUB_HOME": str(self.home),
                        "PYTHONPATH": os.pathsep.join([str(QUICK_START), str(REPOSITORY)]),
                    },
                }
            )
        return services

    # -- what an administrator does ----------------------------------------------------------

    async def api(self, method: str, path: str, content: Any = None) -> Any:
        """A request to the Hub's API with all rights."""
        answer = await self.http.request(
            method,
            f"{self.url}hub/api/{path}",
            headers={"Authorization": f"token {self._admin}"},
            json=content,
        )
        answer.raise_for_status()
        return answer.json() if answer.content else None

    async def token(self, user: str, *scopes: str) -> str:
        """A token of a user: with all that the user may do, or only with some scopes."""
        wanted = {"scopes": list(scopes)} if scopes else {}
        return str((await self.api("POST", f"users/{user}/tokens", wanted))["token"])

    async def revoke(self, user: str, token: str) -> None:
        found = await self.http.get(
            f"{self.url}hub/api/user", headers={"Authorization": f"token {token}"}
        )
        await self.api("DELETE", f"users/{user}/tokens/{found.json()['token_id']}")

    async def start(self, user: str, name: str = "") -> None:
        """Start a server of a user, and wait until it is ready."""
        await self.api("POST", self._server_path(user, name), {})
        async with asyncio.timeout(60):
            while not (await self.model(user, name)).get("ready"):
                await asyncio.sleep(0.02)

    async def stop(self, user: str, name: str = "") -> None:
        """Stop a server of a user, and wait until it has ended."""
        await self.api("DELETE", self._server_path(user, name))
        async with asyncio.timeout(60):
            while await self.model(user, name):
                await asyncio.sleep(0.02)

    async def model(self, user: str, name: str = "") -> dict[str, Any]:
        """What the Hub says of a server of a user; empty if it does not run."""
        servers = (await self.api("GET", f"users/{user}"))["servers"]
        found: dict[str, Any] = servers.get(name, {})
        return found

    async def kill_server(self, user: str, name: str = "") -> None:
        """End the server of a user as a crash would; its kernels stay."""
        prefix = f"/user/{user}/{f'{name}/' if name else ''}"
        processes = [
            process
            for process in psutil.process_iter()
            if self._is_ours(process)
            and process.environ().get("JUPYTERHUB_SERVICE_PREFIX") == prefix
            and "ipykernel_launcher" not in " ".join(process.cmdline())
        ]
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        await asyncio.to_thread(psutil.wait_procs, processes, 30)

    def own_url(self, user: str) -> str:
        """The URL at which the server of a user listens, without the proxy in between."""
        prefix = f"/user/{user}/"
        for process in psutil.process_iter():
            if self._is_ours(process):
                environment = process.environ()
                if environment.get("JUPYTERHUB_SERVICE_PREFIX") == prefix:
                    return str(environment["JUPYTERHUB_SERVICE_URL"])
        raise RuntimeError(f"{user} has no server")

    async def server(self, user: str, name: str = "", *, token: str | None = None) -> HubServer:
        """A server of a user, with a token of that user or another one."""
        base = f"{self.url}user/{user}/{f'{name}/' if name else ''}"
        return HubServer(self, base, token or await self.token(user), self.root(user))

    @staticmethod
    def _server_path(user: str, name: str) -> str:
        return f"users/{user}/servers/{name}" if name else f"users/{user}/server"


#: What a process of this machine has in its environment that no server of the Hub should have.
_FOREIGN = ("JUPYTER_", "JPY_", "JUPYTERHUB_", "COVERAGE_PROCESS_")

_LEVELS = ("read", "write", "execute", "admin")

#: The custom scopes for our levels, each with the lower ones.
CUSTOM_SCOPES = {
    f"{LEVEL_SCOPE}{level}": {
        "description": f"Agents: {level}",
        "subscopes": [f"{LEVEL_SCOPE}{lower}" for lower in _LEVELS[:number]],
    }
    for number, level in enumerate(_LEVELS)
}


@asynccontextmanager
async def hub_agent(
    url: str, token: str, name: str = "Ada", mode: str = MODERN, **query: str
) -> AsyncIterator[AgentClient]:
    """An agent at an endpoint behind a Hub, with a token of the Hub."""
    joint = "&" if "?" in url else "?"
    address = f"{url}{joint}{urlencode({'agent': name, 'structured': 'true', **query})}"
    async with (
        httpx2.AsyncClient(
            headers={"Authorization": f"Bearer {token}"},
            timeout=httpx2.Timeout(30, read=300),
            verify=False,
        ) as http,
        Client(streamable_http_client(address, http_client=http), mode=mode) as client,
    ):
        yield AgentClient(client)


async def until_stopped(hub: Hub, user: str, name: str = "") -> None:
    """Wait until the Hub has noticed that a server ended."""
    async with asyncio.timeout(60):
        while await hub.model(user, name):
            await asyncio.sleep(0.05)


__all__ = ["LEVEL_SCOPE", "Hub", "HubServer", "hub_agent", "until", "until_stopped"]
