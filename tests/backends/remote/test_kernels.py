"""Kernels of a stock Jupyter server over its REST API and WebSockets: real kernels, real cuts."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import sys
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosedError
from websockets.protocol import State

from jupyter_collaboration_mcp.backends.kernels.conversation import KernelConversation
from jupyter_collaboration_mcp.backends.protocols.kernels import KernelLink, KernelMessage
from jupyter_collaboration_mcp.backends.protocols.room_ids import RoomId
from jupyter_collaboration_mcp.backends.remote import kernel_dialer, kernel_watch
from jupyter_collaboration_mcp.backends.remote.jupyter_api import JupyterApi
from jupyter_collaboration_mcp.backends.remote.kernel_connection import KernelConnection, Outbox
from jupyter_collaboration_mcp.backends.remote.kernel_dialer import KernelDialer
from jupyter_collaboration_mcp.backends.remote.kernel_frames import PARTS_APART
from jupyter_collaboration_mcp.backends.remote.kernels import RemoteKernels
from jupyter_collaboration_mcp.backends.remote.server_address import ServerAddress
from jupyter_collaboration_mcp.backends.remote.websocket_wire import WebSocketWire
from jupyter_collaboration_mcp.documents.output_log import OutputLimits, OutputLog
from jupyter_collaboration_mcp.errors import (
    KernelLost,
    KernelUnavailable,
    ServerUnreachable,
    TokenRefused,
)
from jupyter_collaboration_mcp.execution.executor import Executor, ExecutorSettings
from jupyter_collaboration_mcp.execution.run import Run, RunState, new_run_id
from jupyter_collaboration_mcp.execution.side_files import SideFiles, SideLimits
from tests.conftest import EXTENSIONS, MakeServer
from tests.harness.jupyter import JupyterProcess
from tests.harness.kernels import Gate, KernelApi, Person, eventually, install_kernel
from tests.harness.proxy import Proxy
from tests.harness.waiting import until

pytestmark = pytest.mark.anyio

LOG = logging.getLogger(__name__)

STOCK = dict.fromkeys(EXTENSIONS, False)


class FakeTarget:
    """A cell that only remembers how it ended."""

    def __init__(self) -> None:
        self.events: list[str] = []

    async def ready(self) -> None:
        self.events.append("ready")

    def begin(self) -> None:
        self.events.append("begin")

    async def write(self, log: OutputLog) -> bool:
        log.changed = False
        return True

    async def end(self, log: OutputLog, count: int | None, timings: Mapping[str, str]) -> None:
        self.events.append("end")

    async def skip(self) -> None:
        self.events.append("skip")


class Bench:
    """An executor over a link, and what is run in it."""

    def __init__(self, kernels: RemoteKernels, link: KernelLink, directory: Path) -> None:
        self.link = link
        self.executor = Executor(
            link,
            lambda: kernels.interrupt(link.kernel_id),
            SideFiles(directory, SideLimits()),
            ExecutorSettings(),
            LOG,
        )

    def start(self, code: str) -> Run:
        log = OutputLog(OutputLimits(), lambda index, size: f"{index}: {size}")
        run = Run(
            code, log, "ada", "a.ipynb", RoomId("json:notebook:x"), new_run_id(), "notebook://x"
        )
        run.cell_id, run.target = "c", FakeTarget()
        self.executor.submit([run])
        return run

    async def run(self, code: str, timeout: float = 20) -> Run:
        run = self.start(code)
        assert await run.wait_finished(timeout), run.state
        return run

    async def works(self, run: Run) -> None:
        await until(lambda: run.state is RunState.working)


def printed(run: Run, name: str = "stdout") -> str:
    outputs = run.log.outputs()
    return "".join(o["text"] for o in outputs if o.get("name") == name)


def error_of(run: Run) -> str:
    return str(next(o for o in run.log.outputs() if o["output_type"] == "error")["ename"])


@pytest.fixture(scope="module")
async def server(make_server: MakeServer, anyio_backend: str) -> AsyncIterator[JupyterProcess]:
    """A stock server: neither our extension nor any other."""
    process = make_server(extensions=STOCK)
    python = (sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}")
    install_kernel(process.home, "snake", *python)
    async with process:
        yield process
        process.kill()  # to end dozens of kernels one by one may take longer than it is given


@pytest.fixture
async def people(server: JupyterProcess) -> AsyncIterator[KernelApi]:
    async with KernelApi(server) as api:
        yield api


MakeKernels = Callable[..., RemoteKernels]


@pytest.fixture
async def make_kernels(server: JupyterProcess) -> AsyncIterator[MakeKernels]:
    """Kernels of a server as agents reach them; when they are closed, nothing is left over."""
    before = asyncio.all_tasks()
    made: list[tuple[JupyterApi, RemoteKernels]] = []

    def make(
        url: str | None = None, grace: float = 30, process: JupyterProcess = server
    ) -> RemoteKernels:
        api = JupyterApi(ServerAddress(url or process.url, process.token))
        made.append((api, RemoteKernels(api, LOG, grace=grace)))
        return made[-1][1]

    yield make
    for api, kernels in made:
        await kernels.close()
        await api.close()
    await until(lambda: not [t for t in asyncio.all_tasks() - before if _of_a_link(t)])


OF_A_LINK = {
    "ClientConnection",
    "KernelConnection",
    "KernelConversation",
    "KernelDialer",
    "KernelLinks",
    "KernelWatch",
    "Outbox",
    "RemoteKernels",
    "WebSocketWire",
}


def _of_a_link(task: asyncio.Task[Any]) -> bool:
    name = getattr(task.get_coro(), "__qualname__", "")
    owner, _, _ = name.partition(".")
    return owner in OF_A_LINK


@pytest.fixture
def kernels(make_kernels: MakeKernels) -> RemoteKernels:
    return make_kernels()


@pytest.fixture
async def wire(server: JupyterProcess) -> AsyncIterator[Proxy]:
    async with Proxy(server.url) as wire:
        yield wire


@pytest.fixture
def path(server: JupyterProcess) -> str:
    return f"{uuid.uuid4().hex[:8]} ü.ipynb"


MakeBench = Callable[[RemoteKernels, str], Awaitable[Bench]]


@pytest.fixture
async def make_bench(tmp_path: Path) -> AsyncIterator[MakeBench]:
    benches: list[Bench] = []

    async def make(kernels: RemoteKernels, path: str) -> Bench:
        info = await kernels.start(path, "python3")
        benches.append(Bench(kernels, await kernels.connect(info.id), tmp_path / "outputs"))
        return benches[-1]

    yield make
    for bench in benches:
        await bench.executor.close()


@pytest.fixture
async def bench(kernels: RemoteKernels, path: str, make_bench: MakeBench) -> Bench:
    return await make_bench(kernels, path)


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path / "gate")


async def cut(wire: Proxy, people: KernelApi, link: KernelLink, others: int = 0) -> None:
    """Cut the network, and wait until both ends know: what is sent before that is lost.

    Args:
        others: How many are connected to the kernel in another way.
    """
    wire.cut()
    await until(lambda: not is_connected(link))

    def known(kernels: Mapping[str, Any]) -> bool:
        return bool(kernels[link.kernel_id]["connections"] == others)

    await eventually(people.kernels, known)


def wire_of(link: KernelLink) -> WebSocketWire:
    assert isinstance(link, KernelConversation)
    assert isinstance(link._wire, WebSocketWire)
    return link._wire


def is_connected(link: KernelLink) -> bool:
    return wire_of(link)._connected


def is_at_rest(link: KernelLink) -> bool:
    """Whether nothing is left of it that could try to connect."""
    serving = wire_of(link)._serving
    return serving is not None and serving.done()


# -- sessions ---------------------------------------------------------------------------------


async def test_a_notebook_has_the_kernel_of_its_session(
    kernels: RemoteKernels, people: KernelApi, path: str
) -> None:
    assert await kernels.find(path) is None
    started = await kernels.start(path, "snake")
    assert started.name == "snake"
    assert started.path == path
    found = await kernels.find(path)
    assert found is not None
    assert found.id == started.id
    assert (await kernels.start(path, "python3")).id == started.id
    assert (await people.open(path))["kernel"]["id"] == started.id
    assert [each.path for each in await kernels.running() if each.id == started.id] == [path]


async def test_the_available_kernel_specs_are_listed(kernels: RemoteKernels) -> None:
    specs, default = await kernels.specs()
    assert default == "python3"
    assert specs["snake"].display_name == "Snake"
    assert specs["snake"].language == "python"


async def test_an_unknown_kernel_is_reported_in_the_servers_words(
    make_server: MakeServer, make_kernels: MakeKernels, path: str
) -> None:
    process = make_server(extensions=STOCK)
    async with process, KernelApi(process) as people:
        kernels = make_kernels(process=process)
        with pytest.raises(KernelUnavailable, match="'klingon' kernel is not available"):
            await kernels.start(path, "klingon")
        assert await kernels.find(path) is None
        before = await kernels.start(path, "python3")
        with pytest.raises(KernelUnavailable, match="'klingon' kernel could not be started"):
            await kernels.change(path, "klingon")
        (session,) = await people.sessions(path)
        assert session["kernel"]["id"] == before.id
        process.kill()  # it does not end by itself any more: jupyter_client waits for klingon


async def test_two_simultaneous_starts_share_one_kernel(
    make_kernels: MakeKernels, people: KernelApi, path: str
) -> None:
    one, other = make_kernels(), make_kernels()
    started = await asyncio.gather(one.start(path, "python3"), other.start(path, "python3"))
    (session,) = await people.sessions(path)
    assert [info.id for info in started] == [session["kernel"]["id"]] * 2


async def test_of_two_kernels_the_one_in_use_is_chosen(
    server: JupyterProcess, kernels: RemoteKernels, people: KernelApi, path: str
) -> None:
    first, second = await people.open(path), await people.open(f"other {path}")
    await people.move(second["id"], path)
    older, younger = first["kernel"]["id"], second["kernel"]["id"]
    assert [each["kernel"]["id"] for each in await people.sessions(path)] == [older, younger]
    found = await kernels.find(path)
    assert found is not None
    assert found.id == older
    await kernels.connect(older)  # our own link does not count
    async with Person(server, path) as person:
        assert person.kernel_id == older
    api = JupyterApi(ServerAddress(server.url, server.token))
    theirs = await api.websocket("api", "kernels", younger, "channels", session_id="theirs")

    async def look() -> str:
        info = await kernels.find(path)
        assert info is not None
        return info.id

    await eventually(look, lambda kernel_id: kernel_id == younger)
    await theirs.close()
    await api.close()


async def test_changing_the_kernel_replaces_the_old_one(
    kernels: RemoteKernels, people: KernelApi, bench: Bench, path: str
) -> None:
    changed = await kernels.change(path, "snake")
    assert changed.name == "snake"
    assert changed.id != bench.link.kernel_id
    assert bench.link.kernel_id not in await people.kernels()
    assert await bench.link.fate() == "gone"


async def test_a_kernel_that_does_not_exist_cannot_be_reached_or_interrupted(
    kernels: RemoteKernels,
) -> None:
    for nowhere in (str(uuid.uuid4()), "../../api/shutdown"):
        with pytest.raises(KernelUnavailable):
            await kernels.connect(nowhere)
        with pytest.raises(KernelUnavailable):
            await kernels.interrupt(nowhere)
        with pytest.raises(KernelUnavailable):
            await kernels.restart(nowhere)


async def test_a_restarted_kernel_is_back_when_the_call_returns(
    kernels: RemoteKernels, make_bench: MakeBench, path: str
) -> None:
    bench = await make_bench(kernels, path)
    await bench.run("x = 1")
    await kernels.restart(bench.link.kernel_id)
    assert await bench.link.fate() != "alive"
    again = await make_bench(kernels, path)
    assert again.link.kernel_id == bench.link.kernel_id
    assert again.link is not bench.link
    assert again.link.busy_with is None
    assert error_of(await again.run("x")) == "NameError"


async def test_all_callers_share_one_link(kernels: RemoteKernels, path: str) -> None:
    info = await kernels.start(path, "python3")
    one, other = await asyncio.gather(kernels.connect(info.id), kernels.connect(info.id))
    assert one is other
    assert await kernels.connect(info.id) is one
    assert one.language == "python"


# -- running ----------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", [PARTS_APART, "none"])
async def test_results_streams_and_errors_arrive_in_both_protocols(
    kernels: RemoteKernels,
    make_bench: MakeBench,
    path: str,
    protocol: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kernel_dialer, "PARTS_APART", protocol)
    bench = await make_bench(kernels, path)
    run = await bench.run("1+1")
    assert run.state is RunState.completed
    assert run.log.outputs()[0]["data"] == {"text/plain": "2"}
    assert run.count == 1
    assert isinstance(run.target, FakeTarget)
    assert run.target.events == ["ready", "begin", "end"]
    assert {"iopub.status.busy", "iopub.status.idle", "shell.execute_reply"} <= set(run.timings)
    run = await bench.run("import sys\nprint('é😀')\nprint('oh', file=sys.stderr)")
    assert printed(run) == "é😀\n"
    assert printed(run, "stderr") == "oh\n"
    run = await bench.run("1/0")
    assert run.state is RunState.failed
    assert error_of(run) == "ZeroDivisionError"
    large = await bench.run("from IPython.display import *\nHTML('x' * 1_000_000)")
    assert len(large.log.outputs()[0]["data"]["text/html"]) == 1_000_000
    binary = await bench.run(
        "from comm import create_comm\n"
        "create_comm(target_name='t', buffers=[b'123', b'4567'])\n"
        "print('after')"
    )
    assert printed(binary) == "after\n"


async def test_many_lines_arrive_completely_without_blocking_the_loop(bench: Bench) -> None:
    gaps: list[float] = []

    async def beat() -> None:
        while True:
            before = time.thread_time()  # not that of a clock, which others on the machine use up
            await asyncio.sleep(0.001)
            gaps.append(time.thread_time() - before)

    gc.collect()
    gc.freeze()  # a look at all that the tests before have left is not ours
    try:
        heart = asyncio.create_task(beat())
        run = await bench.run("for i in range(10_000): print(i)")
        heart.cancel()
    finally:
        gc.unfreeze()
    assert printed(run) == "".join(f"{i}\n" for i in range(10_000))
    assert max(gaps) < 0.5


async def test_an_input_request_can_be_answered(bench: Bench) -> None:
    run = bench.start("name = input('who? ')\nprint('hello', name)")
    assert await run.wait_settled(20)
    assert run.state is RunState.input_required
    assert run.prompt == "who? "
    bench.executor.reply_to_input(run, "Ada")
    assert await run.wait_finished(20)
    assert printed(run) == "who? Ada\nhello Ada\n"


async def test_a_run_can_be_interrupted(bench: Bench, gate: Gate) -> None:
    run = bench.start(gate.code)
    await gate.reached()
    await bench.works(run)
    await bench.executor.interrupt()
    assert await run.wait_finished(20)
    assert run.state is RunState.cancelled


async def test_a_display_is_updated_from_another_request(
    bench: Bench, server: JupyterProcess, path: str
) -> None:
    run = await bench.run("from IPython.display import *\nh = display('a', display_id='d')")
    async with Person(server, path) as person:
        await person.execute("update_display('b', display_id='d')")
    await until(lambda: run.log.outputs()[0]["data"]["text/plain"] == "'b'")


async def test_only_messages_for_our_own_requests_are_delivered(
    bench: Bench, server: JupyterProcess, path: str
) -> None:
    heard: list[KernelMessage] = []
    bench.link.listen(heard.append)
    async with Person(server, path) as person:
        await person.execute("print('not yours')")
    ours = bench.link.execute("print('yours')")  # what a kernel says comes in its order
    await until(lambda: any(message.content.get("text") == "yours\n" for message in heard))
    assert {message.parent for message in heard} == {ours}


async def test_a_kernel_that_is_busy_for_a_person_is_shown_as_busy(
    server: JupyterProcess,
    kernels: RemoteKernels,
    make_bench: MakeBench,
    path: str,
    gate: Gate,
) -> None:
    async with Person(server, path) as person:
        await person.send(gate.code)
        await gate.reached()
        bench = await make_bench(kernels, path)  # which does not wait for the gate
        assert bench.executor.busy_for_others
        run = bench.start("print('after you')")
        assert not await run.wait_finished(0.3)
        assert run.state is RunState.queued
        gate.open()
        assert await run.wait_finished(20)
        assert printed(run) == "after you\n"
        await until(lambda: bench.link.busy_with is None)


async def test_an_idle_link_sends_no_requests(kernels: RemoteKernels, bench: Bench) -> None:
    before = asyncio.all_tasks()
    await bench.run("1+1")
    await until(lambda: asyncio.all_tasks() <= before)
    asked = 0
    api = kernels._api
    request = api.request

    async def count(*args: Any, **options: Any) -> Any:
        nonlocal asked
        asked += 1
        return await request(*args, **options)

    api.request = count  # type: ignore[method-assign]
    await asyncio.sleep(1.5)  # longer than between two looks
    assert asked == 0
    assert asyncio.all_tasks() <= before
    await asyncio.gather(*(bench.link.fate() for _ in range(20)))
    await until(lambda: asyncio.all_tasks() <= before)
    assert asked == 1


# -- how kernels are lost ---------------------------------------------------------------------


async def test_a_kernel_that_dies_ends_its_run(
    bench: Bench, kernels: RemoteKernels, make_bench: MakeBench, path: str, gate: Gate
) -> None:
    run = bench.start(f"print('last words', flush=True)\n{gate.code}\nimport os\nos._exit(1)")
    await until(lambda: printed(run))
    gate.open()
    assert await run.wait_finished(20)
    assert run.state is RunState.failed
    assert isinstance(run.error, KernelLost)
    assert run.error.detail["fate"] == "died"
    assert printed(run) == "last words\n"
    again = await make_bench(kernels, path)
    run = await again.run("1+1")
    assert run.state is RunState.completed, run.error


@pytest.mark.parametrize("stubborn", [False, True])
async def test_a_restart_by_a_person_ends_the_run(
    bench: Bench, people: KernelApi, gate: Gate, stubborn: bool, tmp_path: Path
) -> None:
    # A kernel that does not say that it ends is killed after a while.
    deaf = (
        "import ctypes, signal"
        "\nsignal.signal(signal.SIGINT, signal.SIG_IGN)"
        "\nsleep = ctypes.PyDLL(None).sleep"
    )
    then_sleep = gate.code.replace("while not", "sleep(60)\nwhile not")
    code = f"{deaf}\n{then_sleep}" if stubborn else gate.code
    said = Gate(tmp_path / "said")  # what it prints would not be sent while it sleeps like that
    run = bench.start(f"print('so far', flush=True)\n{said.code}\n{code}")
    await until(lambda: printed(run))
    said.open()
    await gate.reached()
    await people.restart(bench.link.kernel_id)
    assert await run.wait_finished(20)
    assert isinstance(run.error, KernelLost)
    assert run.error.detail["fate"] == "restarted"


async def test_the_end_of_a_session_ends_the_run(
    bench: Bench, kernels: RemoteKernels, people: KernelApi, path: str, gate: Gate
) -> None:
    run = bench.start(gate.code)
    await gate.reached()
    (session,) = await people.sessions(path)
    await people.close(session["id"])
    assert await run.wait_finished(20)
    assert isinstance(run.error, KernelLost)
    assert run.error.detail["fate"] == "gone"
    assert await kernels.find(path) is None
    with pytest.raises(KernelUnavailable, match="gone"):
        await kernels.connect(bench.link.kernel_id)


async def test_a_killed_server_is_given_up_after_a_grace_period(
    make_server: MakeServer,
    make_kernels: MakeKernels,
    make_bench: MakeBench,
    path: str,
    gate: Gate,
) -> None:
    process = make_server(extensions=STOCK)
    async with process:
        kernels = make_kernels(grace=3, process=process)
        bench = await make_bench(kernels, path)
        run = bench.start(gate.code)
        await gate.reached()
        await bench.works(run)
        killed = time.monotonic()
        process.kill()
        await until(lambda: not is_connected(bench.link))
        assert await bench.link.fate() == "alive"
        assert run.state is RunState.working
        assert await run.wait_finished(20)  # and not after the 30 seconds that are usual
        assert time.monotonic() - killed >= 3
        assert isinstance(run.error, KernelLost)
        assert run.error.detail["fate"] == "unreachable"
        with pytest.raises(ServerUnreachable):
            await kernels.connect(bench.link.kernel_id)
        gate.open()


async def test_a_server_that_was_restarted_has_none_of_the_old_kernels(
    make_server: MakeServer,
    make_kernels: MakeKernels,
    make_bench: MakeBench,
    path: str,
    gate: Gate,
) -> None:
    process = make_server(extensions=STOCK)
    async with process:
        bench = await make_bench(make_kernels(process=process), path)
        run = bench.start(gate.code)
        await gate.reached()
        process.kill()
        await process.start()
        assert await run.wait_finished(20)
        assert isinstance(run.error, KernelLost)
        gate.open()


# -- cuts -------------------------------------------------------------------------------------


async def test_output_is_neither_lost_nor_duplicated_after_a_cut(
    make_kernels: MakeKernels,
    make_bench: MakeBench,
    people: KernelApi,
    wire: Proxy,
    path: str,
    tmp_path: Path,
) -> None:
    gates = [Gate(tmp_path / f"gate {number}") for number in range(3)]
    bench = await make_bench(make_kernels(wire.url), path)
    lines = "for i in range(10): print({}, i, flush=True)"
    run = bench.start("\n".join(f"{lines.format(n)}\n{gate.code}" for n, gate in enumerate(gates)))

    def expected(rounds: int) -> str:
        return "".join(f"{n} {i}\n" for n in range(rounds) for i in range(10))

    for number, (gate, following) in enumerate(pairwise(gates), start=1):
        await until(lambda number=number: printed(run) == expected(number))  # type: ignore[misc]
        await cut(wire, people, bench.link)
        gate.open()
        await following.reached()
        assert run.state is RunState.working
        wire.resume()
    gates[-1].open()
    assert await run.wait_finished(20)
    assert run.state is RunState.completed
    assert printed(run) == expected(3)
    assert printed(run, "stderr") == ""
    assert (await bench.run("1+1")).state is RunState.completed


async def test_a_run_survives_a_network_that_falls_silent_for_a_while(
    make_kernels: MakeKernels, make_bench: MakeBench, wire: Proxy, path: str
) -> None:
    bench = await make_bench(make_kernels(wire.url), path)
    lines = range(20)
    code = f"for i in range({len(lines)}):\n    print(i, flush=True)\n    time.sleep(0.15)"
    run = bench.start(f"import time\n{code}")
    await until(lambda: printed(run))
    wire.pause()
    await asyncio.sleep(1.5)  # the silence lasts as long
    assert await bench.link.fate() == "alive"
    wire.resume()
    assert await run.wait_finished(20)
    assert printed(run) == "".join(f"{i}\n" for i in lines)


async def test_a_run_ends_if_the_network_stays_silent(
    make_kernels: MakeKernels,
    make_bench: MakeBench,
    wire: Proxy,
    path: str,
    gate: Gate,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kernel_watch, "_LOOK_LIMIT", 1.0)
    bench = await make_bench(make_kernels(wire.url, grace=2), path)
    run = bench.start(gate.code)
    await gate.reached()
    await bench.works(run)
    wire.pause()
    paused = time.monotonic()
    assert await run.wait_finished(15)  # and not when the connection notices, after 20
    # The last look may have begun a second before, which is as long as it may take.
    assert time.monotonic() - paused >= 1
    assert isinstance(run.error, KernelLost)
    assert run.error.detail["fate"] == "unreachable"


async def test_a_run_that_ends_during_a_cut_is_completed_after_it(
    make_kernels: MakeKernels,
    make_bench: MakeBench,
    people: KernelApi,
    wire: Proxy,
    path: str,
    gate: Gate,
) -> None:
    bench = await make_bench(make_kernels(wire.url), path)
    run = bench.start(f"{gate.code}\nprint('done')")
    await gate.reached()
    await bench.works(run)

    def state_of(kernels: Mapping[str, Any]) -> object:
        return kernels[bench.link.kernel_id]["execution_state"]

    await eventually(people.kernels, lambda all_: state_of(all_) == "busy")
    await cut(wire, people, bench.link)
    gate.open()
    await eventually(people.kernels, lambda all_: state_of(all_) == "idle")
    wire.resume()
    assert await run.wait_finished(20)
    assert run.state is RunState.completed
    assert printed(run) == "done\n"
    assert bench.link.busy_with is None


async def test_output_lost_in_a_cut_is_reported_if_somebody_else_is_connected(
    server: JupyterProcess,
    make_kernels: MakeKernels,
    make_bench: MakeBench,
    wire: Proxy,
    path: str,
    gate: Gate,
) -> None:
    """Jupyter buffers for the last one who leaves; with a person there, it is all lost."""
    bench = await make_bench(make_kernels(wire.url), path)
    async with Person(server, path) as person:
        run = bench.start(f"{gate.code}\nprint('done')")
        await gate.reached()
        await bench.works(run)
        await cut(wire, person.api, bench.link, others=1)
        gate.open()
        await person.execute("pass")  # which comes after it
        wire.resume()
        assert await run.wait_finished(20)
    assert run.state is RunState.failed
    assert error_of(run) == "ConnectionCut"
    assert "may be missing" in printed(run, "stderr")
    assert bench.link.busy_with is None
    assert (await bench.run("1+1")).state is RunState.completed


async def test_output_sent_before_the_server_noticed_a_cut_is_reported_as_missing(
    make_kernels: MakeKernels, make_bench: MakeBench, wire: Proxy, path: str, tmp_path: Path
) -> None:
    """It is in no buffer: a connection that is gone looks alive to who only sends."""
    during, after = Gate(tmp_path / "during"), Gate(tmp_path / "after")
    bench = await make_bench(make_kernels(wire.url), path)
    run = bench.start(f"{during.code}\nprint('lost', flush=True)\n{after.code}\nprint('heard')")
    await during.reached()
    await bench.works(run)
    wire.forget()
    during.open()
    await after.reached()
    await until(lambda: b'"lost\\n"' in wire.swallowed)
    wire.resume()
    await until(lambda: "may be missing" in printed(run, "stderr"))
    after.open()
    assert await run.wait_finished(20)
    assert run.state is RunState.completed
    assert printed(run) == "heard\n"


async def test_code_submitted_during_a_cut_runs_once_after_it(
    make_kernels: MakeKernels, make_bench: MakeBench, people: KernelApi, wire: Proxy, path: str
) -> None:
    bench = await make_bench(make_kernels(wire.url), path)
    await bench.run("n = 0")
    await cut(wire, people, bench.link)
    run, link = bench.start("n += 1\nprint(n)"), bench.link
    await until(lambda: wire_of(link)._outbox.waiting)
    wire.resume()
    assert await run.wait_finished(20)
    assert printed(run) == "1\n"


async def test_a_kernel_restarted_during_a_cut_is_not_mistaken_for_the_old_one(
    make_kernels: MakeKernels,
    make_bench: MakeBench,
    people: KernelApi,
    wire: Proxy,
    path: str,
    gate: Gate,
) -> None:
    bench = await make_bench(make_kernels(wire.url), path)
    run = bench.start(gate.code)
    await gate.reached()
    await cut(wire, people, bench.link)
    await people.restart(bench.link.kernel_id)
    wire.resume()
    assert await run.wait_finished(20)
    assert isinstance(run.error, KernelLost)
    assert run.error.detail["fate"] == "restarted"


async def test_an_idle_link_that_is_cut_reconnects_or_gives_up(
    make_kernels: MakeKernels, path: str, wire: Proxy
) -> None:
    kernels = make_kernels(wire.url)
    info = await kernels.start(path, "python3")
    link = await kernels.connect(info.id)
    assert isinstance(link, KernelConversation)
    wire.cut()
    await until(lambda: not is_connected(link))
    wire.resume()
    await until(lambda: is_connected(link))
    wire_of(link)._grace = 0  # the time of the cut counts no more
    assert await link.fate() == "alive"
    wire_of(link)._grace = 0.5
    wire.cut()
    await until(lambda: link.over)
    assert await link.fate() == "unreachable"
    await until(lambda: is_at_rest(link))
    wire.resume()
    assert await kernels.connect(info.id) is not link


async def test_a_refused_token_is_not_retried_endlessly(
    server: JupyterProcess, make_kernels: MakeKernels, path: str, wire: Proxy
) -> None:
    kernels = make_kernels(wire.url)
    info = await kernels.start(path, "python3")
    link = await kernels.connect(info.id)
    kernels._api.address = ServerAddress(kernels._api.address.url, "wrong")
    kernels._api._http.headers["Authorization"] = "token wrong"
    kernels._api._http.cookies.clear()
    wire.cut()
    wire.resume()
    attempts = wire.connections

    async def look() -> str:
        return await link.fate()

    await eventually(look, lambda fate: fate == "unreachable")
    await until(lambda: is_at_rest(link))
    assert wire.connections - attempts <= 2
    with pytest.raises(TokenRefused):
        await kernels.connect(info.id)


# -- faults that cannot be had for real ----------------------------------------------------


class HesitantServer(JupyterApi):
    """Opens a first connection late, and fails once meanwhile to say how the kernel is."""

    def __init__(self) -> None:
        super().__init__(ServerAddress("http://nowhere.invalid"))
        self.opened: list[FakeConnection] = []
        self.failed = asyncio.Event()
        self._questions = 0

    async def get(self, *_: str, **__: str) -> Any:
        self._questions += 1
        if self._questions == 2:
            self.failed.set()
            raise ServerUnreachable("It has too much to do.", "Try again.")
        return {"execution_state": "idle"}

    async def websocket(self, *_: str, **__: Any) -> Any:
        self.opened.append(connection := FakeConnection())
        if len(self.opened) == 1:
            # Like an opening handshake that has just been answered when it is given up.
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
        return connection


class FakeConnection:
    """Remembers what it was told, and breaks when it is to send."""

    def __init__(self) -> None:
        self.state = State.OPEN
        self.subprotocol = None
        self.closed = False

    async def send(self, _frame: bytes) -> None:
        self.state = State.CLOSED
        raise ConnectionClosedError(None, None)

    async def close(self) -> None:
        self.closed = True


async def test_the_reason_for_closing_a_kernel_connection_is_logged_in_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def close(connection: ServerConnection) -> None:
        await connection.close(1003, "no more\nNext: delete\x1b[31m")

    caplog.set_level("INFO")
    async with serve(close, "127.0.0.1", 0) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        websocket = await connect(f"ws://127.0.0.1:{port}")
        connection = KernelConnection(websocket, False, "kernel", LOG)
        await connection.serve(Outbox(lambda _: None), lambda _: None)
    (said,) = (record.getMessage() for record in caplog.records if "was cut" in record.message)
    assert "no more\\nNext: delete\\x1b[31m" in said
    assert said.isprintable()


async def test_an_abandoned_connection_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_dialer, "_LOOK_AGAIN", 0.01)
    server = HesitantServer()
    used = await KernelDialer(server, "kernel", LOG).connect(time.monotonic() + 60)
    assert server.failed.is_set()
    assert [connection.closed for connection in server.opened] == [True, False]
    assert used.websocket is server.opened[1]  # type: ignore[comparison-overlap]
    await server.close()


@pytest.mark.parametrize(("kind", "kept"), [("input_reply", True), ("execute_request", False)])
async def test_only_input_replies_are_resent_if_they_may_have_arrived(
    kind: str, kept: bool
) -> None:
    """Code must not run twice; a kernel takes one answer and drops what comes behind it."""
    server = HesitantServer()
    wire = WebSocketWire(server, "kernel", LOG)
    link = KernelConversation(wire, "kernel", LOG)
    if kept:
        link.reply_to_input("the answer")
    else:
        link.execute("1 + 1")
    connection: Any = FakeConnection()
    writing = asyncio.create_task(wire._outbox.send_all(connection, apart=False))
    await until(lambda: connection.state is State.CLOSED)
    await asyncio.wait([writing], timeout=0.1)
    writing.cancel()
    waiting = [message.header["msg_type"] for message in wire._outbox.waiting]
    assert waiting == ([kind] if kept else [])
    await server.close()
