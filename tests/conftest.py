"""Fixtures that every test may use."""

from collections.abc import AsyncIterator, Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.harness.jupyter import JupyterProcess

#: Server extensions of a live notebook server; what only costs start-up time is left out.
EXTENSIONS = {
    "jupyter_collaboration_mcp": True,
    "jupyter_server_fileid": True,
    "jupyter_server_ydoc": True,
    "jupyter_lsp": False,
    "jupyter_server_terminals": False,
    "jupyterlab": False,
    "notebook_shim": False,
}

# Any of thousands of examples takes long when others need the machine.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

MakeServer = Callable[..., JupyterProcess]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--clients", action="store_true", help="also what drives real MCP clients")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what needs hundreds of megabytes of clients, unless it is asked for."""
    if config.getoption("--clients"):
        return
    left_out = [item for item in items if item.get_closest_marker("clients")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("clients")]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With a test that failed, show what the server that it shares with others has said."""
    report = yield
    server = getattr(item, "funcargs", {}).get("server")
    if report.failed and isinstance(server, JupyterProcess):
        report.sections.append(("The end of the server's log", server.last_lines()))
    return report


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Jupyter runs on asyncio, and so do the tests."""
    return "asyncio"


@pytest.fixture(scope="session")
def make_server(tmp_path_factory: pytest.TempPathFactory) -> MakeServer:
    """Servers with our extension and real collaboration, each on a root of its own."""

    def make(*extra_args: str, **options: Any) -> JupyterProcess:
        root: Path = options.pop("root", None) or tmp_path_factory.mktemp("root")
        extensions = {**EXTENSIONS, **options.pop("extensions", {})}
        return JupyterProcess(root, extra_args=extra_args, extensions=extensions, **options)

    return make


@pytest.fixture(scope="module")
async def server(make_server: MakeServer, anyio_backend: str) -> AsyncIterator[JupyterProcess]:
    """A server with default settings, shared by the tests of a module."""
    async with make_server() as process:
        yield process
