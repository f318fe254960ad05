"""Fixtures that every test may use."""

import gc
import sys
from collections.abc import AsyncIterator, Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.harness import examples, measuring
from tests.harness.jupyter import QUICK_START, JupyterProcess

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

# As in the servers: what takes a second to import is left out here, too.
sys.path.insert(0, str(QUICK_START))

MakeServer = Callable[..., JupyterProcess]
Times = Callable[[int, int], int]

#: The files that take longest come first: all other workers would wait for one that began with such
#: a file at the end. Those that mostly wait and those that mostly compute take turns.
LONGEST = [
    "tests/tools/test_external_changes.py",
    "tests/browser/test_panel.py",
    "tests/resources/test_watching.py",
    "tests/test_permission_matrix.py",
    "tests/tools/test_kernel.py",
    "tests/standalone/test_reapplied_once.py",
    "tests/browser/test_running.py",
    "tests/hub/test_service.py",
    "tests/tools/test_malformed_notebooks.py",
    "tests/hub/test_users_servers.py",
    "tests/browser/test_documents.py",
    "tests/tools/test_ephemeral.py",
    "tests/test_cli.py",
    "tests/tools/test_running.py",
    "tests/standalone/test_local.py",
    "tests/standalone/test_faults.py",
    "tests/browser/test_live_edit.py",
    "tests/backends/remote/test_kernels.py",
    "tests/tools/test_bad_files.py",
    "tests/hub/test_command.py",
    "tests/browser/test_presence.py",
    "tests/tools/test_saves_before_runs.py",
    "tests/tools/test_documents.py",
    "tests/tools/test_gateway_kernels.py",
    "tests/backends/remote/test_backend.py",
    "tests/tools/test_awareness.py",
    "tests/standalone/test_reaching.py",
    "tests/tools/test_open_files.py",
    "tests/standalone/test_inspector.py",
    "tests/transport/test_conformance.py",
    "tests/tools/test_files.py",
    "tests/backends/in_process/test_backend.py",
    "tests/tools/test_activity.py",
    "tests/tools/test_path_races.py",
    "tests/tools/test_running_order.py",
    "tests/tools/test_outputs.py",
    "tests/standalone/test_durable_undo.py",
    "tests/backends/in_process/test_server_recovery.py",
    "tests/tools/test_notebook.py",
    "tests/backends/in_process/test_crash.py",
    "tests/tools/test_forks.py",
    "tests/bench/test_bench.py",
    "tests/standalone/test_shutdown.py",
    "tests/standalone/test_embedded.py",
    "tests/stateful/test_rounds.py",
    "tests/test_fuzzing.py",
    "tests/test_stalls.py",
    "tests/transport/test_resumed_runs.py",
]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--clients", action="store_true", help="also what drives real MCP clients")
    parser.addoption("--all", action="store_true", help="repeat as often as a release needs it")


def pytest_configure(config: pytest.Config) -> None:
    examples.choose(config.getoption("--all"))
    # With xdist, its workers decide; the process that starts them hands on what they decide by.
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        measuring.choose_processes(everything=config.getoption("--all"))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Do not measure each worker's imports: the process with all modules is measured for all."""
    with measuring.paused():
        return (yield)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put long files first. Leave out tests that need hundreds of megabytes of clients."""
    rank = {name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.location[0], len(LONGEST)))
    if config.getoption("--clients"):
        return
    left_out = [item for item in items if item.get_closest_marker("clients")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("clients")]


def pytest_collection_finish() -> None:
    """Thousands of tests stay until the end: do not look at them in search of garbage."""
    gc.collect()
    gc.freeze()


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


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Measure the beginning of a test, and none that only asks servers.

    Nothing of ours runs in the process of such a test.
    """
    if item.location[0].startswith("tests/tools/") and "server" in getattr(
        item, "fixturenames", ()
    ):
        with measuring.paused():
            return (yield)
    with measuring.at_first(item.nodeid.partition("[")[0]):
        return (yield)


@pytest.fixture(scope="session")
def times(pytestconfig: pytest.Config) -> Times:
    """How often to repeat: `times(5, 30)` is 5, and 30 with `--all`."""
    return lambda few, many: many if pytestconfig.getoption("--all") else few


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
        options = {"extensions": extensions, "fork": True, **options}
        return JupyterProcess(root, extra_args=extra_args, **options)

    return make


@pytest.fixture(scope="module")
async def server(make_server: MakeServer, anyio_backend: str) -> AsyncIterator[JupyterProcess]:
    """A server with default settings, shared by the tests of a module."""
    async with make_server(env=measuring.shared_server()) as process:
        yield process
